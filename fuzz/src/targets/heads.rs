//! Folders of draft heads: a config and weights that belong together. Heads that load also draft, since some settings
//! are read in drafting only.

use super::sound::{SHAPE, with, written};
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{ChainTree, TreeBuilder, TrellisTree};
use gorgon_draft::block::{BlockConfig, SelectorConfig};
use gorgon_draft::choice::Drafters;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::three::{DraftVocabulary, Eagle3Shape};
use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_draft::hydra::{HydraConfig, HydraShape};
use gorgon_draft::kangaroo::{KangarooConfig, KangarooShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::mtp::{MtpConfig, MtpShape};
use gorgon_draft::parameter::{Init, ParameterSpec};
use gorgon_draft::probes::{PassConfig, PpdConfig, ProbeTraining, SpaceConfig};
use gorgon_infer::{Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{Stored, write};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The text that is continued.
const PROMPT: [Token; 3] = [256, 72, 105];
/// Tokens that continue it: enough for drafts after accepted and after rejected ones.
const NEW_TOKENS: usize = 6;
/// The backbone's name in configs.
const BASE: &str = "m";

/// Sound heads.
struct Heads {
    config: Vec<u8>,
    weights: Vec<u8>,
}

/// A model of two layers: an early exit needs one layer below it and one above.
fn decoder() -> Arc<Decoder> {
    static DECODER: OnceLock<Arc<Decoder>> = OnceLock::new();
    let load = || {
        let dir = tempfile::tempdir().expect("a folder for a model");
        LlamaShape { layers: 2, ..SHAPE }.write(dir.path(), FloatFormat::F32, 1).expect("a model");
        Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).expect("a model"))
    };
    DECODER.get_or_init(load).clone()
}

fn limits() -> Limits {
    Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] }
}

/// The text without drafts.
fn plain() -> &'static [Token] {
    static PLAIN: OnceLock<Vec<Token>> = OnceLock::new();
    PLAIN.get_or_init(|| {
        let mut target = DecoderTarget::new(decoder(), SHAPE.max_positions, Hooks::none());
        let (random, observe) = (&mut SeededRandom::new(1), &mut |_| ControlFlow::Continue(()));
        decode(&mut target, &PROMPT, &Greedy, random, &limits(), observe).expect("a text").ids
    })
}

/// Loads a folder as `--heads` does.
fn load(config: &[u8], weights: &[u8]) -> Result<Drafters, String> {
    let mut loaded = Err("no folder can be written".to_owned());
    with("config.json", config, |dir| {
        if std::fs::write(dir.join("model.safetensors"), weights).is_ok() {
            loaded = opened(dir).map_err(|error| error.to_string());
        }
    });
    loaded
}

fn opened(dir: &Path) -> Result<Drafters, HeadsError> {
    let folder = HeadsFolder::open(dir)?;
    Drafters::of_heads(folder.detected.format.method(), &folder, &decoder())
}

/// Drafts of untrusted heads change no token of a text.
fn draft(drafters: &Drafters) {
    let chain = ChainTree::new(3).expect("a chain");
    let trellis = TrellisTree::new(10, 3).expect("a tree");
    for tree in [&chain as &dyn TreeBuilder, &trellis] {
        let drafter = drafters.drafter();
        let target = DecoderTarget::new(decoder(), SHAPE.max_positions, drafter.needs().hooks);
        let request = Request::new(&PROMPT, &limits(), SeededRandom::new(1));
        let method = Method { tree, rule: &Greedy };
        let drafted = Session::new(target, drafter).generate(method, request, &mut |_| ControlFlow::Continue(()));
        if let Ok(drafted) = drafted {
            assert_eq!(drafted.ids, plain(), "{:?}", tree.kind());
        }
    }
}

/// A line with a config, then a file of tensors. A lone config is tried with the weights of all sound heads.
fn folder(bytes: &[u8], sound: &[Heads]) {
    let read = |config: &[u8], weights: &[u8]| load(config, weights).iter().for_each(draft);
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => read(&bytes[..end], &bytes[end + 1..]),
        None => sound.iter().for_each(|heads| read(bytes, &heads.weights)),
    }
}

/// Both forms of all heads. Most of a folder's bytes are weights, so configs are there alone, too.
fn seeds(sound: &[Heads]) -> Vec<Vec<u8>> {
    let both = |heads: &Heads| [heads.config.clone(), [&heads.config[..], b"\n", &heads.weights[..]].concat()];
    sound.iter().flat_map(both).collect()
}

/// Tensor number `i`, with values that keep activations their size.
fn stored((i, spec): (usize, &ParameterSpec)) -> Stored {
    let center = if spec.init == Init::One { 1.0 } else { 0.0 };
    let scale = match spec.shape.as_slice() {
        [_, into] => 1.7 / (*into as f32).sqrt(),
        _ => 0.5,
    };
    let count: usize = spec.shape.iter().product();
    let value = |j: usize| ((j * 7919 + (17 + i) * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    let bytes = (0..count).flat_map(|j| (center + scale * value(j)).to_le_bytes()).collect();
    Stored { name: spec.name.clone(), dtype: Dtype::F32, shape: spec.shape.clone(), bytes }
}

impl Heads {
    /// Heads of a config, parameters and other tensors.
    fn new(config: &Value, parameters: &[ParameterSpec], others: Vec<Stored>) -> Self {
        let tensors: Vec<Stored> = parameters.iter().enumerate().map(stored).chain(others).collect();
        let weights = written("model.safetensors", |path| {
            let _ = write(path, &tensors.iter().map(Stored::source).collect::<Vec<_>>());
        });
        let heads = Self { config: config.to_string().into_bytes(), weights };
        // Heads that do not load would leave all that is behind the loading untried.
        if let Err(reason) = load(&heads.config, &heads.weights) {
            panic!("sound heads do not load: {reason}: {config}");
        }
        heads
    }
}

/// DFlash, DFlash with a sliding window and causal slots, and DFlash 2.
fn block() -> &'static [Heads] {
    static BLOCK: OnceLock<Vec<Heads>> = OnceLock::new();
    BLOCK.get_or_init(|| {
        let plain = BlockConfig { layers: 2, slots: 4, ..BlockConfig::default() };
        let sliding = BlockConfig { causal: true, window: Some(8), ..plain.clone() };
        let second = BlockConfig { conv: true, selector: Some(SelectorConfig { k: 4, rank: 3 }), ..plain.clone() };
        let heads = |config: BlockConfig| {
            let shape = config.shape(decoder().config()).expect("a block drafter");
            let mut document = shape.document(BASE);
            if config.conv {
                // Newer files have the size there.
                document["dflash_config"]["block_size"] = document["block_size"].take();
            }
            Heads::new(&document, &shape.parameters(), vec![])
        };
        [plain, sliding, second].map(heads).into()
    })
}

/// The config of a block drafter in the form of speculators, and one that reads no hidden state.
fn other_block_configs(config: &Value) -> [Value; 2] {
    let own = &config["dflash_config"];
    let speculators = json!({
        "architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash", "block_size": config["block_size"],
        "mask_token_id": own["mask_token_id"], "aux_hidden_state_layer_ids": [1, 2], "sample_from_anchor": false,
        "draft_vocab_size": config["vocab_size"], "transformer_layer_config": config
    });
    let mut blind = config.clone();
    blind["dflash_config"]["target_layer_ids"] = json!([]);
    [speculators, blind]
}

pub(super) fn block_heads(bytes: &[u8]) {
    folder(bytes, block());
}

pub(super) fn block_seeds() -> Vec<Vec<u8>> {
    let config = serde_json::from_slice(&block()[0].config).expect("a config");
    let others = other_block_configs(&config).map(|config| config.to_string().into_bytes());
    seeds(block()).into_iter().chain(others).collect()
}

/// Hydra, Hydra++, multi-token prediction, Kangaroo, EAGLE-3 with a part of the vocabulary, and all kinds of probes.
fn others() -> &'static [Heads] {
    static OTHERS: OnceLock<Vec<Heads>> = OnceLock::new();
    OTHERS.get_or_init(|| {
        let decoder = decoder();
        let (backbone, layer) = (decoder.config(), LayerShape::of(decoder.config()));
        let (d, vocab) = (backbone.hidden_size, backbone.vocab_size);
        let hydra = |config: HydraConfig| {
            let shape = HydraShape { config, layer: layer.clone() };
            Heads::new(&shape.document(BASE), &shape.parameters(), vec![])
        };
        let probes = |training: ProbeTraining| {
            let shape = training.shape;
            Heads::new(&shape.document(BASE), &shape.parameters(), vec![])
        };
        let plain = HydraConfig { heads: 2, own_lm_heads: true, ..HydraConfig::default() };
        let prefixed = HydraConfig { heads: 2, blocks: 2, prefix_attention: true, ..HydraConfig::default() };
        let mtp = MtpShape { config: MtpConfig { depths: 2 }, layer: layer.clone(), first_layer: backbone.layers };
        let exit = KangarooConfig { exit_layer: 1, ..KangarooConfig::default() };
        let kangaroo = KangarooShape { config: exit, layer: layer.clone() };
        let vocabulary = DraftVocabulary::most_frequent(&vec![0; vocab], 64);
        let eagle = Eagle3Shape::of(backbone, vec![1, 2], vocabulary.len());
        vec![
            hydra(plain),
            hydra(prefixed),
            Heads::new(&mtp.document(BASE), &mtp.parameters(), vec![]),
            Heads::new(&kangaroo.document(BASE), &kangaroo.parameters(), vec![]),
            Heads::new(&eagle.document(BASE), &eagle.parameters(), vocabulary.stored()),
            probes(ProbeTraining::ppd(&PpdConfig { ensemble: 2, ..PpdConfig::default() }, d, vocab)),
            probes(ProbeTraining::pass(&PassConfig::default(), d, vocab)),
            probes(ProbeTraining::space(&SpaceConfig::default(), d, vocab)),
        ]
    })
}

pub(super) fn other_heads(bytes: &[u8]) {
    folder(bytes, others());
}

pub(super) fn other_seeds() -> Vec<Vec<u8>> {
    seeds(others())
}
