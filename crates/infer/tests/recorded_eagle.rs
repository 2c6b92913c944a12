//! Recorded EAGLE steps on a GPU against the CPU's drafting, tree for tree and token for token. `GORGON_TEST_DEVICE`
//! names the device; on the CPU there is nothing to record.

mod recorder;
#[path = "../../core/tests/shared/mod.rs"]
mod shared;

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{DynamicTree, TokenTree};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::three::{DraftVocabulary, Eagle3Model, Eagle3Shape};
use gorgon_draft::eagle::{DeviceLayer, EagleDrafter, EagleModel, EagleShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{DecodeError, Generation, Limits, Method, Recorded, RecordedPair, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, Stored, write_f32};
use recorder::Recorder;
use safetensors::Dtype;
use serde_json::Value;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 700,
};
const NEW_TOKENS: usize = 16;
const ONE: Layer = Layer::One { bias: true, own_embedding: false };

fn compute() -> Compute {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    Compute::resolve(device.parse().unwrap(), Some(FloatFormat::F32)).unwrap()
}

/// A random layer.
#[derive(Clone, Copy)]
enum Layer {
    /// EAGLE-1, with or without a bias and a table of its own.
    One { bias: bool, own_embedding: bool },
    /// EAGLE-1 with NaN in its first matrix.
    Damaged,
    /// EAGLE-3, which drafts every other token.
    Three,
}

/// Writes a layer of random values.
fn write_layer(dir: &Path, decoder: &Decoder, layer: Layer) {
    let (parameters, stored, document) = match layer {
        Layer::One { .. } | Layer::Damaged => {
            let bias = matches!(layer, Layer::One { bias: true, .. });
            let shape = EagleShape::of(decoder.config(), bias);
            (shape.parameters(), vec![], shape.document("somewhere"))
        }
        Layer::Three => {
            let counts: Vec<u64> = (0..SHAPE.vocab_size as u64).map(|token| token % 2).collect();
            let vocabulary = DraftVocabulary::most_frequent(&counts, SHAPE.vocab_size / 2);
            let shape = Eagle3Shape::of(decoder.config(), vec![0, 1, 2], vocabulary.len());
            (shape.parameters(), vocabulary.stored(), shape.document("somewhere"))
        }
    };
    let mut tensors: Vec<(String, Vec<usize>)> = parameters.into_iter().map(|p| (p.name, p.shape)).collect();
    if matches!(layer, Layer::One { own_embedding: true, .. }) {
        tensors.push(("embed_tokens.weight".into(), vec![SHAPE.vocab_size, SHAPE.hidden_size]));
    }
    let source = |(i, (name, shape)): (usize, (String, Vec<usize>))| {
        let value = move |j: usize| (((j * 7919 + i * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 0.3;
        let n = shape.iter().product();
        let damaged = matches!(layer, Layer::Damaged) && name == "fc.weight";
        let value = move |j: usize| if damaged { f32::NAN } else { value(j) };
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &(0..n).map(value).collect::<Vec<_>>()));
        Source { name, dtype: Dtype::F32, shape, fill }
    };
    let sources: Vec<Source<'_>> =
        tensors.into_iter().enumerate().map(source).chain(stored.iter().map(Stored::source)).collect();
    tensors::write(&dir.join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
}

/// A layer as it is found in a folder.
fn loaded(folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Box<dyn DeviceLayer> {
    match folder.detected.format {
        HeadsFormat::Eagle1 => Box::new(EagleModel::load(folder, decoder.clone()).unwrap()),
        _ => Box::new(Eagle3Model::load(folder, decoder.clone()).unwrap()),
    }
}

/// A drafter whose trees are grown by the host.
fn drafter(folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Box<dyn Drafter> {
    match folder.detected.format {
        HeadsFormat::Eagle1 => Box::new(EagleDrafter::new(EagleModel::load(folder, decoder.clone()).unwrap())),
        _ => Box::new(EagleDrafter::new(Eagle3Model::load(folder, decoder.clone()).unwrap())),
    }
}

/// A backbone and a layer, here and there.
struct Pair {
    here: Arc<Decoder>,
    there: Arc<Decoder>,
    layer: HeadsFolder,
}

impl Pair {
    fn random(layer: Layer) -> Option<(Self, [tempfile::TempDir; 2])> {
        let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
        let decoder = Decoder::load(model.path(), &Compute::cpu(FloatFormat::F32)).unwrap();
        write_layer(heads.path(), &decoder, layer);
        Some((Self::load(model.path(), heads.path())?, [model, heads]))
    }

    fn load(model: &Path, heads: &Path) -> Option<Self> {
        let load = |compute: &Compute| Arc::new(Decoder::load(model, compute).unwrap());
        let there = load(&compute());
        if there.compute().is_host() {
            eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU");
            return None;
        }
        Some(Self { here: load(&Compute::cpu(FloatFormat::F32)), there, layer: HeadsFolder::open(heads).unwrap() })
    }

    fn recorded(&self, tree: &DynamicTree, guided: bool) -> Recorded {
        let layer = loaded(&self.layer, &self.there);
        let hooks = layer.needs().hooks;
        let target = DecoderTarget::new(self.there.clone(), 640, hooks);
        Recorded::eagle(target, layer, tree, guided).unwrap()
    }

    /// The CPU's generation.
    fn on_cpu(&self, tree: &DynamicTree, prompt: &[Token], oracle: Option<(Vec<f64>, Vec<Token>)>) -> Drafted {
        self.by_the_host(&self.here, tree, prompt, oracle)
    }

    /// A generation whose trees are grown by the host, with the trees that were drafted, and those that were verified:
    /// an oracle may be in between.
    fn by_the_host(
        &self,
        decoder: &Arc<Decoder>,
        tree: &DynamicTree,
        prompt: &[Token],
        oracle: Option<(Vec<f64>, Vec<Token>)>,
    ) -> Drafted {
        let drafter = drafter(&self.layer, decoder);
        let drafted = Arc::new(Mutex::new(vec![]));
        let inner = Recorder { inner: drafter, trees: drafted.clone() };
        let told: Box<dyn Drafter> = match oracle {
            None => Box::new(inner),
            Some((rates, truth)) => {
                let mut oracle = OracleDrafter::new(Box::new(inner), rates, SHAPE.vocab_size, 1);
                oracle.reveal(truth);
                Box::new(oracle)
            }
        };
        let verified = Arc::new(Mutex::new(vec![]));
        let mut drafter = Recorder { inner: told, trees: verified.clone() };
        let hooks = drafter.needs().hooks;
        let mut target = DecoderTarget::new(decoder.clone(), 640, hooks);
        let random = &mut SeededRandom::new(0);
        let generation = Session::new(&mut target, &mut drafter)
            .generate(Method { tree, rule: &Greedy }, Request::new(prompt, &limits(), random), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        Drafted { generation, drafted: taken(&drafted), verified: taken(&verified) }
    }
}

fn taken(trees: &Mutex<Vec<TokenTree>>) -> Vec<TokenTree> {
    std::mem::take(&mut trees.lock().unwrap())
}

struct Drafted {
    generation: Generation,
    drafted: Vec<TokenTree>,
    verified: Vec<TokenTree>,
}

fn limits() -> Limits {
    Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] }
}

fn decode(recorded: &mut Recorded, prompt: &[Token]) -> Generation {
    recorded.decode(prompt, &limits(), SeededRandom::new(0), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Decodes by recorded steps, and compares every tree and every token with the CPU's. A step is one read and one
/// replay, and a context that leaves its bucket is recorded anew.
fn compare(pair: &Pair, tree: &DynamicTree, prompts: &[(&[Token], usize)]) {
    let mut recorded = pair.recorded(tree, false);
    for &(prompt, recordings) in prompts {
        recorded.watch();
        let generation = decode(&mut recorded, prompt);
        let trees = recorded.watch();
        let want = pair.on_cpu(tree, prompt, None);
        assert_eq!(trees, want.verified, "{tree:?} {}", prompt.len());
        assert_eq!(generation.ids, want.generation.ids, "{tree:?}");
        assert_eq!(generation.accepted, want.generation.accepted, "{tree:?}");
        if prompt.len() == 3 {
            let there = pair.by_the_host(&pair.there, tree, prompt, None);
            assert_eq!(trees, there.verified, "{tree:?} on the same device");
        }
        let counts = recorded.take_counts();
        assert_eq!(counts.steps, generation.accepted.len());
        assert_eq!((counts.reads, counts.replays, counts.fallbacks), (counts.steps, counts.steps, 0), "{counts:?}");
        // Nothing is left of the first bucket once a longer one was met.
        assert!(counts.recordings <= recordings, "{counts:?}");
    }
}

/// Many candidates and few, fewer nodes than candidates and as many, chains, one level.
#[test]
fn recorded_trees_are_the_cpus() {
    let long: Vec<u32> = (0..495).map(|i| (i * 37 + 5) % 300).collect();
    let prompts: [(&[u32], usize); 3] = [(&[256, 72, 105], 1), (&[256], 0), (&long, 1)];
    let shapes = [(60, 5, 10), (16, 3, 4), (5, 1, 2), (8, 0, 6), (6, 4, 1), (100, 2, 5), (1, 3, 3)];
    for (number, (nodes, depth, top_k)) in shapes.into_iter().enumerate() {
        let layer = Layer::One { bias: number % 2 == 0, own_embedding: number % 3 == 1 };
        let Some((pair, _folders)) = Pair::random(layer) else { return };
        compare(&pair, &DynamicTree::new(nodes, depth, top_k).unwrap(), &prompts);
    }
}

/// At a temperature the text is the CPU's coupled one, whatever the layer drafts.
#[test]
fn recorded_steps_sample_the_cpus_text() {
    for layer in [ONE, Layer::Three] {
        let Some((pair, _folders)) = Pair::random(layer) else { return };
        let tree = DynamicTree::new(16, 3, 4).unwrap();
        let rule = RuleChoice::Coupled.rule(Transform::new(0.8, None, None).unwrap());
        let mut steps = pair.recorded(&tree, false).at_temperature(0.8);
        for sample in 0..3 {
            let prompt = [256, 72, 105];
            let random = SeededRandom::behind(5, &prompt, sample);
            let mut target = DecoderTarget::new(pair.here.clone(), 640, Hooks::none());
            let mut go_on = |_| ControlFlow::Continue(());
            let mut of_the_cpu = random.clone();
            let want =
                gorgon_infer::decode(&mut target, &prompt, rule.as_ref(), &mut of_the_cpu, &limits(), &mut go_on);
            let drafted = steps.decode(&prompt, &limits(), random, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(drafted.ids, want.unwrap().ids, "{sample}");
        }
    }
}

/// A layer goes on from what it has read: the trees of a further turn are those of a text that is read whole.
#[test]
fn a_further_turn_drafts_as_if_it_read_the_whole_text() {
    for layer in [ONE, Layer::Three] {
        let Some((pair, _folders)) = Pair::random(layer) else { return };
        let tree = DynamicTree::new(16, 3, 4).unwrap();
        let mut steps = RecordedPair::new(pair.recorded(&tree, false));
        let mut text = vec![256, 72, 105];
        let mut take = |text: &[Token], read: usize| {
            steps.of(true).watch();
            let answer = decode(steps.of(true), text);
            let want = pair.on_cpu(&tree, text, None);
            assert_eq!((answer.read, answer.ids), (read, want.generation.ids.clone()));
            assert_eq!(steps.of(true).watch(), want.verified);
            // Plain steps go on from there too, and read one token more than the layer knows.
            assert_eq!(decode(steps.of(false), text).ids, want.generation.ids);
            want.generation.ids
        };
        let first = take(&text, 3);
        text.extend(first.iter().chain(&[5, 9]));
        // The layer has read the prompt but for its last token, since plain steps came after it.
        let second = take(&text, 16 + 2 + 1 + 1);
        text.extend(second.iter().chain(&[7]));
        take(&text, 16 + 1 + 1 + 1);
    }
}

/// Such a layer guesses nothing right, and costs nothing but time.
#[test]
fn damaged_layers_leave_the_text_as_it_is() {
    let Some((pair, _folders)) = Pair::random(Layer::Damaged) else { return };
    compare(&pair, &DynamicTree::new(16, 3, 4).unwrap(), &[(&[256, 72, 105], 1)]);
}

/// A layer that reads hooked states and drafts from a part of the vocabulary.
#[test]
fn recorded_trees_of_eagle3_are_the_cpus() {
    let Some((pair, _folders)) = Pair::random(Layer::Three) else { return };
    let prompts: [(&[u32], usize); 2] = [(&[256, 72, 105], 1), (&[256], 0)];
    for (nodes, depth, top_k) in [(60, 5, 10), (16, 3, 4), (4, 2, 1)] {
        compare(&pair, &DynamicTree::new(nodes, depth, top_k).unwrap(), &prompts);
    }
}

/// The oracle puts the same tokens on the device and on the CPU, but for those in the place of a true token off
/// the first path; paths of all lengths are committed and drafted from.
#[test]
fn recorded_trees_with_an_oracle_are_the_cpus() {
    let Some((pair, _folders)) = Pair::random(ONE) else { return };
    let prompt = [256, 72, 105];
    for (nodes, depth, top_k) in [(60, 5, 10), (16, 3, 4), (5, 4, 1), (4, 0, 3)] {
        let tree = DynamicTree::new(nodes, depth, top_k).unwrap();
        let plain = pair.on_cpu(&tree, &prompt, None).generation.ids;
        let mut recorded = pair.recorded(&tree, true);
        for rates in [vec![1.0; 6], vec![1.0; 2], vec![0.0]] {
            recorded.reveal(&[&prompt[..], &plain].concat(), &rates, 5);
            recorded.watch();
            let generation = decode(&mut recorded, &prompt);
            let trees = recorded.watch();
            let want = pair.on_cpu(&tree, &prompt, Some((rates.clone(), plain.clone())));
            let case = format!("{tree:?} {rates:?}");
            assert_eq!(generation.ids, plain, "{case}");
            assert_eq!(generation.accepted, want.generation.accepted, "{case}");
            assert_eq!(trees.len(), want.verified.len());
            for (step, found) in trees.iter().enumerate() {
                let (drafted, verified) = (&want.drafted[step], &want.verified[step]);
                assert_eq!(found.parents(), verified.parents(), "{case} step {step}");
                for node in 0..found.len() {
                    let moved = drafted.token(node) != verified.token(node) && !on_first_path(verified, node);
                    let expected = if moved { (drafted.token(node) + 1) % 300 } else { verified.token(node) };
                    assert_eq!(found.token(node), expected, "{case} step {step} node {node}");
                }
            }
            let counts = recorded.take_counts();
            assert_eq!((counts.reads, counts.replays, counts.fallbacks), (counts.steps, counts.steps, 0), "{counts:?}");
        }
    }
}

fn on_first_path(tree: &TokenTree, node: usize) -> bool {
    let first = |node: usize| (1..node).all(|other| tree.parents()[other] != tree.parents()[node]);
    tree.path(node).iter().skip(1).all(|&node| first(node))
}

/// Fitted layers, whose drafts are often right, with the trees of the fixtures.
#[test]
fn fitted_layers_trees_are_the_cpus() {
    let layers = [("eagle1_llama_mha", "llama_mha"), ("eagle3_llama_7layer_bf16", "llama_7layer_bf16")];
    for (layer, backbone) in layers {
        let test = "fitted_layers_trees_are_the_cpus";
        let Some(layer) = shared::shared(&format!("fixtures/eagle/{layer}"), test) else { return };
        let Some(backbone) = shared::shared(&format!("fixtures/backbones/{backbone}"), test) else { return };
        let Some(pair) = Pair::load(&backbone, &layer) else { return };
        let expected: Value = serde_json::from_slice(&std::fs::read(layer.join("expected.json")).unwrap()).unwrap();
        let mut accepted = 0;
        for run in expected["runs"].as_array().unwrap() {
            let size = |key: &str| run[key].as_u64().unwrap() as usize;
            let tree = DynamicTree::new(size("total_tokens"), size("depth"), size("top_k")).unwrap();
            let token = |token: &Value| token.as_u64().unwrap() as Token;
            let prompt: Vec<Token> = run["prompt"].as_array().unwrap().iter().map(token).collect();
            let mut recorded = pair.recorded(&tree, false);
            recorded.watch();
            let generation = decode(&mut recorded, &prompt);
            let want = pair.on_cpu(&tree, &prompt, None);
            assert_eq!(generation.ids, want.generation.ids);
            assert_eq!(generation.accepted, want.generation.accepted);
            assert_eq!(recorded.watch(), want.verified, "{tree:?}");
            accepted += generation.accepted.iter().sum::<usize>();
        }
        assert!(accepted > 0);
    }
}

#[test]
fn what_cannot_be_grown_there_is_refused() {
    let Some((pair, _folders)) = Pair::random(ONE) else { return };
    for (nodes, depth, top_k) in [(60, 9, 16), (300, 5, 10), (5, 0, 301)] {
        let tree = DynamicTree::new(nodes, depth, top_k).unwrap();
        let target = DecoderTarget::new(pair.there.clone(), 64, Hooks::none());
        let refused = Recorded::eagle(target, loaded(&pair.layer, &pair.there), &tree, false);
        assert!(matches!(refused, Err(DecodeError::Growth(_))), "{tree:?}");
    }
    let target = DecoderTarget::new(pair.here.clone(), 64, Hooks::none());
    let refused = Recorded::eagle(target, loaded(&pair.layer, &pair.here), &DynamicTree::new(8, 2, 2).unwrap(), false);
    assert!(matches!(refused, Err(DecodeError::NotRecorded { .. })));
}
