//! Decoding on the CPU allocates nothing once it is under way, plainly or with any drafter.

use gorgon_bench::allocations::{self, Counted};
use gorgon_bench::suite::write_heads;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, Coupled, Greedy, Sampling, SamplingScheme, Traversal, random::SeededRandom};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{
    Candidate, ChainTree, DraftTree, DynamicTree, FixedTree, NodeInput, OwnTree, TreeBuilder, TreeChoice, TreeShape,
    TrellisTree,
};
use gorgon_draft::block::{BlockConfig, BlockDrafter, BlockModel, SelectorConfig};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use gorgon_draft::eagle::three::{Eagle3Model, Eagle3Shape};
use gorgon_draft::eagle::{EagleDrafter, EagleModel, EagleShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::handover::{self, HandoverDrafter, StepRatios};
use gorgon_draft::hydra::{HydraConfig, HydraDrafter, HydraModel, HydraShape};
use gorgon_draft::kangaroo::{KangarooConfig, KangarooDrafter, KangarooModel, KangarooShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::measured::MeasuredDrafter;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_draft::method::TrainingFreeMethod;
use gorgon_draft::mtp::{MtpConfig, MtpDrafter, MtpModel, MtpShape};
use gorgon_draft::ngram::NgramDrafter;
use gorgon_draft::parameter::{Init, ParameterSpec};
use gorgon_draft::partial::Partial;
use gorgon_draft::probes::{PpdConfig, ProbeDrafter, ProbeModel, ProbeTraining};
use gorgon_draft::recycle::{Recycle, RecycleDrafter};
use gorgon_draft::store::StoreBuilder;
use gorgon_draft::suffix::{Suffix, SuffixDrafter};
use gorgon_draft::training_free::TrainingFree;
use gorgon_infer::{Event, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

#[global_allocator]
static COUNTED: Counted = Counted;

/// The count is the process's, so one test counts at a time.
static ALONE: Mutex<()> = Mutex::new(());

const TOKENS: usize = 40;

/// With the larger vocabulary top tokens are found without all logits, where the processor can.
const VOCABULARIES: [usize; 2] = [1000, 8200];

/// Acceptance: the top-1 token, and draws from the model.
fn rules() -> [Box<dyn AcceptanceRule>; 5] {
    let warm = |top_k, top_p| Transform::new(0.8, top_k, top_p).unwrap();
    [
        Box::new(Greedy),
        Box::new(Sampling { transform: warm(None, None) }),
        Box::new(Sampling { transform: warm(Some(50), Some(0.9)) }),
        Box::new(Coupled { transform: warm(None, None) }),
        Box::new(Traversal { transform: warm(None, None) }),
    ]
}

#[test]
fn a_plain_step_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for vocab_size in VOCABULARIES {
        let dir = tempfile::tempdir().unwrap();
        let mut target = DecoderTarget::new(model(dir.path(), vocab_size), 256, Hooks::none());
        let prompt: Vec<u32> = (0..50).collect();
        let limits = Limits { max_new_tokens: TOKENS, end_tokens: vec![] };
        for (i, rule) in rules().iter().enumerate() {
            assert_still(&format!("plain with rule {i} and {vocab_size} tokens"), |note| {
                decode(&mut target, &prompt, &**rule, &mut SeededRandom::new(0), &limits, &mut |event| {
                    note(event);
                    ControlFlow::Continue(())
                })
                .unwrap();
            });
        }
    }
}

#[test]
fn a_drafted_step_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let paths = [vec![0], vec![1], vec![2], vec![0, 0], vec![0, 1], vec![1, 0], vec![0, 0, 0]];
    let fixed = FixedTree::new(TreeShape::new(paths.to_vec()).unwrap());
    let (chain, dynamic) = (ChainTree::new(3).unwrap(), DynamicTree::new(8, 2, 3).unwrap());
    let of = |vocab_size| {
        let dir = tempfile::tempdir().unwrap();
        let decoder = model(dir.path(), vocab_size);
        let with_weights = drafters(dir.path(), &decoder).into_iter().chain(handovers(dir.path(), &decoder));
        for (name, mut drafter) in with_weights.chain(training_free()) {
            let mut target = DecoderTarget::new(decoder.clone(), 256, drafter.needs().hooks);
            for (i, rule) in rules().iter().enumerate() {
                for builder in [&chain as &dyn TreeBuilder, &fixed, &dynamic] {
                    let what = format!("{name} with {:?}, rule {i} and {vocab_size} tokens", builder.kind());
                    let (target, drafter, rule) = (&mut target, &mut *drafter, &**rule);
                    assert_still(&what, |note| drafted(target, drafter, builder, rule, note));
                }
            }
        }
    };
    // A thread for each model, as in a program: the memory that a thread keeps of one is not of the other's sizes.
    for vocab_size in VOCABULARIES {
        std::thread::scope(|scope| scope.spawn(|| of(vocab_size)).join().unwrap());
    }
}

/// Drafters that read files, run the target's own layers or make their own trees, with every tree that they take.
/// Lookahead is not among them: every step adds n-grams to its pool.
#[test]
fn a_step_of_a_training_free_drafter_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let (decoder, named) = (model(dir.path(), VOCABULARIES[0]), named(dir.path()));
    for method in named.iter().map(|name| method(name)) {
        let mut drafter = method.drafter();
        let mut target = DecoderTarget::new(decoder.clone(), 256, drafter.needs().hooks);
        for builder in trees(&method) {
            for (i, rule) in rules().iter().enumerate() {
                let what = format!("{method} with {:?} and rule {i}", builder.kind());
                let (target, drafter, rule) = (&mut target, &mut *drafter, &**rule);
                assert_still(&what, |note| drafted(target, drafter, &*builder, rule, note));
            }
        }
    }
}

/// Names of methods, as on the command line; the files that they read are written to the folder.
fn named(dir: &Path) -> Vec<String> {
    let (store, skip) = (dir.join("store"), dir.join("sublayers.json"));
    let mut documents = StoreBuilder::default();
    documents.add(&(0..200).map(|i| i * 7 % 50).collect::<Vec<Token>>()).unwrap();
    documents.write(&store, &"0".repeat(64)).unwrap();
    std::fs::write(&skip, r#"{"attention": [1], "mlp": [0]}"#).unwrap();
    let (store, skip) = (store.display(), skip.display());
    let plain = ["jacobi:5", "early-exit:2", "pipelined:1,3", "swift:20"];
    let reading = [format!("suffix:{store}"), format!("rest:{store}"), format!("skip:{skip}")];
    plain.map(String::from).into_iter().chain(reading).collect()
}

fn method(name: &str) -> TrainingFree {
    match name.parse() {
        Ok(DrafterChoice::TrainingFree(method)) => method.opened().unwrap(),
        other => panic!("{name}: {other:?}"),
    }
}

/// The tree that a method drafts, and others that it takes.
fn trees(method: &TrainingFree) -> Vec<Box<dyn TreeBuilder>> {
    let own: Box<dyn TreeBuilder> = match method.default_tree() {
        TreeChoice::Chain(chain) => Box::new(chain),
        TreeChoice::Own(own) => Box::new(own),
        TreeChoice::Trellis(Some((nodes, depth))) => Box::new(TrellisTree::new(nodes, depth).unwrap()),
        other => panic!("{other}"),
    };
    let others: [Box<dyn TreeBuilder>; 3] = [
        Box::new(ChainTree::new(3).unwrap()),
        Box::new(DynamicTree::new(8, 2, 3).unwrap()),
        Box::new(OwnTree::new(9, 4).unwrap()),
    ];
    let taken = others.into_iter().filter(|tree| method.check_tree(&tree.kind()).is_ok());
    std::iter::once(own).chain(taken).collect()
}

/// Decodes with drafts.
fn drafted(
    target: &mut DecoderTarget,
    drafter: &mut dyn Drafter,
    builder: &dyn TreeBuilder,
    rule: &dyn AcceptanceRule,
    note: &mut dyn FnMut(Event),
) {
    let prompt: Vec<u32> = (0..50).collect();
    let limits = Limits { max_new_tokens: TOKENS, end_tokens: vec![] };
    Session::new(target, drafter)
        .generate(
            Method { tree: builder, rule },
            Request::new(&prompt, &limits, &mut SeededRandom::new(0)),
            &mut |event| {
                note(event);
                ControlFlow::Continue(())
            },
        )
        .unwrap();
}

/// Drafters that need no weights of their own.
fn training_free() -> [(&'static str, Box<dyn Drafter>); 6] {
    [
        ("ngram", Box::new(NgramDrafter::new(3))),
        ("suffix", suffix(1)),
        ("auto", Box::new(MeasuredDrafter::default())),
        ("recycle", Box::new(RecycleDrafter::new(8))),
        ("recycle by step times", Recycle { successors: 8 }.drafter()),
        ("partial", Partial::parse("16,4").unwrap().drafter()),
    ]
}

fn suffix(least: usize) -> Box<dyn Drafter> {
    Box::new(SuffixDrafter::new(Suffix { store: None, least }))
}

/// Suffix drafts in front of heads: where the gains decide, by a clock or by known times, and by a threshold.
fn handovers(dir: &Path, decoder: &Arc<Decoder>) -> [(&'static str, Box<dyn Drafter>); 4] {
    let heads = HeadsFolder::open(&dir.join("medusa")).unwrap();
    let medusa = Arc::new(MedusaModel::load(&heads, decoder.clone()).unwrap());
    let eagle = HeadsFolder::open(&dir.join("eagle")).unwrap();
    let eagle = EagleDrafter::new(EagleModel::load(&eagle, decoder.clone()).unwrap());
    let before = |least: usize, other: Box<dyn Drafter>| {
        HandoverDrafter::new(suffix(least), other, handover::tree().unwrap()).usually(8)
    };
    let medusa = || Box::new(MedusaDrafter::sharing(medusa.clone())) as Box<dyn Drafter>;
    [
        ("suffix, else medusa", Box::new(before(1, medusa()).measured(StepRatios::default()))),
        ("suffix, else medusa with known times", Box::new(before(1, medusa()).measured(StepRatios::alike()))),
        ("suffix below 3, else medusa", Box::new(before(3, medusa()))),
        ("suffix, else eagle", Box::new(before(1, Box::new(eagle)).measured(StepRatios::default()))),
    ]
}

/// One drafter of each kind that has weights.
fn drafters(dir: &Path, decoder: &Arc<Decoder>) -> Vec<(&'static str, Box<dyn Drafter>)> {
    let (config, layer) = (decoder.config(), LayerShape::of(decoder.config()));
    let medusa = dir.join("medusa");
    write_heads(&medusa, &shape(config.vocab_size)).unwrap();
    let medusa = MedusaModel::load(&HeadsFolder::open(&medusa).unwrap(), decoder.clone()).unwrap();
    let eagle = EagleShape::of(config, true);
    let eagle =
        EagleModel::load(&heads(dir, "eagle", &eagle.parameters(), &eagle.document("")), decoder.clone()).unwrap();
    let three = Eagle3Shape::of(config, vec![1, 1, 2], config.vocab_size);
    let three =
        Eagle3Model::load(&heads(dir, "three", &three.parameters(), &three.document("")), decoder.clone()).unwrap();
    let hydra = |name: &str, config: HydraConfig| {
        let shape = HydraShape { config, layer: layer.clone() };
        let model =
            HydraModel::load(&heads(dir, name, &shape.parameters(), &shape.document("")), decoder.clone()).unwrap();
        Box::new(HydraDrafter::new(model))
    };
    let grounded = HydraConfig { heads: 3, ..HydraConfig::default() };
    let plus = HydraConfig { prefix_attention: true, soft_targets: true, blocks: 4, tied_blocks: true, ..grounded };
    let mtp = MtpShape { config: MtpConfig { depths: 2 }, layer: layer.clone(), first_layer: config.layers };
    let mtp = MtpModel::load(&heads(dir, "mtp", &mtp.parameters(), &mtp.document("")), decoder.clone()).unwrap();
    let ppd = PpdConfig { ensemble: 2, ..PpdConfig::default() };
    let ppd = ProbeTraining::ppd(&ppd, config.hidden_size, config.vocab_size).shape;
    let ppd = ProbeModel::load(&heads(dir, "ppd", &ppd.parameters(), &ppd.document("")), decoder.clone()).unwrap();
    let small = draft_model(dir, decoder);
    let transform = Transform::new(0.8, None, None).unwrap();
    let drawn = DraftSampling { transform, children: SamplingScheme::WithoutReplacement, rows: true, stop: None };
    vec![
        ("medusa", Box::new(MedusaDrafter::new(medusa))),
        ("eagle", Box::new(EagleDrafter::new(eagle))),
        ("eagle3", Box::new(EagleDrafter::new(three))),
        ("hydra", hydra("hydra", grounded)),
        ("hydra++", hydra("plus", plus)),
        ("mtp", Box::new(MtpDrafter::new(mtp))),
        ("kangaroo", Box::new(kangaroo(dir, decoder))),
        ("block", Box::new(block_drafter(dir, decoder))),
        ("ppd", Box::new(ProbeDrafter::new(ppd))),
        ("model", Box::new(DraftModelDrafter::new(small.clone(), DraftSampling::GREEDY))),
        ("model, drawn", Box::new(DraftModelDrafter::new(small, drawn))),
        ("probes", Box::new(Probing(Arc::new(decoder.embed(&[3, 11]).unwrap())))),
    ]
}

fn kangaroo(dir: &Path, decoder: &Arc<Decoder>) -> KangarooDrafter {
    let config = KangarooConfig { exit_layer: 1, stop: 0.0 };
    let shape = KangarooShape { config, layer: LayerShape::of(decoder.config()) };
    let heads = heads(dir, "kangaroo", &shape.parameters(), &shape.document(""));
    KangarooDrafter::new(KangarooModel::load(&heads, decoder.clone()).unwrap())
}

fn draft_model(dir: &Path, decoder: &Decoder) -> DraftModel {
    let small = dir.join("small");
    std::fs::create_dir(&small).unwrap();
    LlamaShape { layers: 1, ..shape(decoder.config().vocab_size) }.write(&small, FloatFormat::F32, 5).unwrap();
    let small = Decoder::load(&small, &Compute::cpu(FloatFormat::F32)).unwrap();
    DraftModel::new("model:small".into(), Arc::new(small), decoder.config())
}

fn block_drafter(dir: &Path, decoder: &Arc<Decoder>) -> BlockDrafter {
    let selector = Some(SelectorConfig { k: 4, rank: 3 });
    let config = BlockConfig { layers: 2, slots: 5, selector, conv: true, ..BlockConfig::default() };
    let shape = config.shape(decoder.config()).unwrap();
    let heads = heads(dir, "block", &shape.parameters(), &shape.document(""));
    BlockDrafter::new(BlockModel::load(&heads, decoder.clone()).unwrap())
}

/// Drafts a token and a probe that reads an embedding, whatever the tree.
struct Probing(Arc<HiddenStates>);

impl Drafter for Probing {
    fn name(&self) -> &str {
        "probes"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut draft = DraftTree::root(root);
        let child = draft.push(0, Candidate { token: root, probability: 1.0 });
        draft.push_probe(child, NodeInput::Embedding(1));
        Ok(Proposal { probes: Some(self.0.clone()), ..Proposal::list(draft) })
    }
}

/// Heads with some weights.
fn heads(dir: &Path, name: &str, parameters: &[ParameterSpec], document: &serde_json::Value) -> HeadsFolder {
    let dir = dir.join(name);
    std::fs::create_dir(&dir).unwrap();
    let source = |spec: &ParameterSpec| {
        let (size, seed) = (spec.shape.iter().product::<usize>(), spec.name.len());
        let base = if spec.init == Init::One { 1.0 } else { 0.0 };
        let scale = 1.0 / (*spec.shape.last().unwrap() as f32).sqrt();
        let value = |i: usize| base + scale * (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0);
        let values: Vec<f32> = (0..size).map(value).collect();
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name: spec.name.clone(), dtype: Dtype::F32, shape: spec.shape.clone(), fill }
    };
    let sources: Vec<Source<'_>> = parameters.iter().map(source).collect();
    tensors::write(&dir.join("model.safetensors"), &sources).unwrap();
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
    HeadsFolder::open(&dir).unwrap()
}

fn shape(vocab_size: usize) -> LlamaShape {
    LlamaShape {
        hidden_size: 128,
        intermediate_size: 384,
        layers: 3,
        heads: 8,
        kv_heads: 2,
        vocab_size,
        max_positions: 256,
    }
}

fn model(dir: &Path, vocab_size: usize) -> Arc<Decoder> {
    shape(vocab_size).write(dir, FloatFormat::F32, 1).unwrap();
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Fails unless a decoding, which tells of its events, allocates nothing from its second step to its last.
fn assert_still(what: &str, mut decode: impl FnMut(&mut dyn FnMut(Event))) {
    let mut counts = Vec::with_capacity(2 * TOKENS);
    let mut run = || {
        counts.clear();
        decode(&mut |event| {
            // Steps end with a token that was not drafted.
            if matches!(event, Event::Token(_)) {
                counts.push(allocations::count());
            }
        });
        assert!(counts.len() > 4);
        counts[counts.len() - 1] - counts[1]
    };
    // Buffers grow in the first run, and a thread's own, of which each operation has some, when it first takes part in
    // it: on a busy machine, where helpers rest most of the time, that may be many runs later.
    assert!((0..100).any(|_| run() == 0), "{what}: {counts:?}");
}
