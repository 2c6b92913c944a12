//! Recorded steps on a GPU against the CPU's decoding, token for token. `GORGON_TEST_DEVICE` names the device; without
//! one there is nothing to record, which is an error that is checked instead.

#[path = "../../draft/tests/all/block/random.rs"]
mod random_block;
mod random_medusa;

use burn::tensor::{Tensor, TensorData};
use gorgon_core::accept::RuleChoice;
use gorgon_core::accept::random::{Given, SeededRandom};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{TreeShape, TrellisTree};
use gorgon_draft::block::{BlockConfig, BlockDrafter, SelectorConfig};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaConfig, MedusaModel};
use gorgon_infer::{DecodeError, Limits, Method, Recorded, RecordedPair, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 700,
};
const NEW_TOKENS: usize = 24;

fn compute() -> Compute {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    Compute::resolve(device.parse().unwrap(), Some(FloatFormat::F32)).unwrap()
}

/// Writes heads whose blocks are zero: head `k` says what the LM head says, so that some drafts are right where the
/// text repeats itself.
fn write_heads(dir: &Path) {
    let config = MedusaConfig { heads: 3, ..MedusaConfig::default() };
    let specs = config.parameters(SHAPE.hidden_size, SHAPE.vocab_size);
    let source = |spec: gorgon_draft::parameter::ParameterSpec| {
        let n = spec.shape.iter().product();
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &vec![0.0; n]));
        Source { name: spec.name, dtype: Dtype::F32, shape: spec.shape, fill }
    };
    let sources: Vec<Source<'_>> = specs.into_iter().map(source).collect();
    tensors::write(&dir.join("medusa_lm_head.safetensors"), &sources).unwrap();
    let document = config.document(SHAPE.hidden_size, SHAPE.vocab_size, "somewhere");
    std::fs::write(dir.join("config.json"), document.to_string()).unwrap();
}

/// A random model on the device that records, and heads for it in a folder; `None` on the CPU.
fn on_device(model: &Path, heads: &Path) -> Option<Arc<Decoder>> {
    SHAPE.write(model, FloatFormat::F32, 3).unwrap();
    write_heads(heads);
    let decoder = Decoder::load(model, &compute()).unwrap();
    if decoder.compute().is_host() {
        eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU");
        return None;
    }
    Some(Arc::new(decoder))
}

fn limits() -> Limits {
    Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] }
}

fn plain(model: &Path, prompt: &[u32]) -> Vec<u32> {
    let decoder = Arc::new(Decoder::load(model, &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = DecoderTarget::new(decoder, prompt.len() + NEW_TOKENS, Hooks::none());
    let transform = Transform::new(0.0, None, None).unwrap();
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, rule.as_ref(), &mut SeededRandom::new(0), &limits(), &mut go_on).unwrap().ids
}

/// Plain and drafted steps give the CPU's text, with one read and one replay each; a context that leaves its bucket is
/// recorded anew.
#[test]
fn recorded_steps_give_the_cpus_text() {
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    write_heads(heads.path());
    let decoder = Arc::new(Decoder::load(model.path(), &compute()).unwrap());
    let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 0, 0]]").unwrap();
    let long: Vec<u32> = (0..495).map(|i| (i * 37 + 5) % 300).collect();
    let prompts: [(&[u32], usize); 3] = [(&[256, 72, 105], 1), (&[256], 0), (&long, 1)];
    for drafted in [false, true] {
        let target = DecoderTarget::new(decoder.clone(), 640, Hooks::none());
        let folder = HeadsFolder::open(heads.path()).unwrap();
        let model_heads = drafted.then(|| MedusaModel::load(&folder, decoder.clone()).unwrap());
        let shape = if drafted { shape.clone() } else { TreeShape::new(vec![]).unwrap() };
        let mut recorded = match Recorded::new(target, model_heads, &shape) {
            Ok(recorded) => recorded,
            Err(error) => {
                assert!(decoder.compute().is_host() && error.to_string().contains("GPU"), "{error}");
                eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU");
                return;
            }
        };
        for (prompt, recordings) in prompts {
            let generation =
                recorded.decode(prompt, &limits(), SeededRandom::new(0), &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(generation.ids, plain(model.path(), prompt), "drafted: {drafted}");
            let counts = recorded.take_counts();
            assert_eq!(counts.steps, generation.accepted.len());
            assert_eq!((counts.reads, counts.replays, counts.fallbacks), (counts.steps, counts.steps, 0), "{counts:?}");
            assert_eq!(counts.recordings, recordings, "{counts:?}");
            assert!(generation.accepted.iter().all(|&accepted| accepted <= if drafted { 3 } else { 0 }));
        }
    }
}

/// The CPU's coupled sample behind a prompt, by plain decoding.
fn sampled(model: &Path, prompt: &[u32], temperature: f64, random: &SeededRandom) -> Vec<u32> {
    let decoder = Arc::new(Decoder::load(model, &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = DecoderTarget::new(decoder, prompt.len() + NEW_TOKENS, Hooks::none());
    let rule = RuleChoice::Coupled.rule(Transform::new(temperature, None, None).unwrap());
    let mut go_on = |_| ControlFlow::Continue(());
    decode(&mut target, prompt, rule.as_ref(), &mut random.clone(), &limits(), &mut go_on).unwrap().ids
}

/// At a temperature recorded steps give the CPU's coupled text, plain and with drafts, for each sequence of a seed.
#[test]
fn recorded_steps_sample_the_cpus_text() {
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(decoder) = on_device(model.path(), heads.path()) else { return };
    let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]").unwrap();
    let mut texts = std::collections::BTreeSet::new();
    for temperature in [0.3, 1.0] {
        let target = DecoderTarget::new(decoder.clone(), 640, Hooks::none());
        let medusa = MedusaModel::load(&HeadsFolder::open(heads.path()).unwrap(), decoder.clone()).unwrap();
        let recorded = Recorded::new(target, Some(medusa), &shape).unwrap().at_temperature(temperature);
        let mut pair = RecordedPair::new(recorded);
        for sample in 0..3 {
            let prompt = [256, 72, 105 + sample as u32];
            let random = SeededRandom::behind(5, &prompt, sample);
            let want = sampled(model.path(), &prompt, temperature, &random);
            for drafts in [true, false] {
                let steps = pair.of(drafts);
                let run = steps.decode(&prompt, &limits(), random.clone(), &mut |_| ControlFlow::Continue(())).unwrap();
                assert_eq!(run.ids, want, "T = {temperature}, sample {sample}, drafts: {drafts}");
            }
            texts.insert(want);
        }
        let counts = pair.take_counts();
        assert_eq!((counts.reads, counts.fallbacks), (counts.steps, 0), "{counts:?}");
    }
    assert_eq!(texts.len(), 6);
    let target = DecoderTarget::new(decoder, 640, Hooks::none());
    let mut steps = Recorded::new(target, None, &TreeShape::new(vec![]).unwrap()).unwrap().at_temperature(1.0);
    let no_noise = Given::new(vec![]);
    let error = steps.decode(&[1, 2], &limits(), no_noise, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, DecodeError::NoNoise), "{error}");
}

/// Heads that read one state say on a GPU, where their first blocks are one product, what they say on the CPU.
#[test]
fn heads_say_the_same_in_one_product() {
    let model = tempfile::tempdir().unwrap();
    SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    let said = |compute: &Compute, own_lm_heads: bool| -> Vec<Vec<f32>> {
        let decoder = Arc::new(Decoder::load(model.path(), compute).unwrap());
        let heads = random_medusa::model(&decoder, own_lm_heads, None);
        let values: Vec<f32> = (0..32).map(|i| (i as f32 * 0.7).sin()).collect();
        let device = decoder.compute().device();
        let hidden = match decoder.compute().is_host() {
            true => HiddenStates::Host { values: values.into(), width: 32 },
            false => HiddenStates::on_device(Tensor::from_data(TensorData::new(values, [1, 1, 32]), device)),
        };
        (1..=4).map(|count| heads.logits(&hidden, count).to_vec()).collect()
    };
    for own_lm_heads in [false, true] {
        let (here, there) = (said(&Compute::cpu(FloatFormat::F32), own_lm_heads), said(&compute(), own_lm_heads));
        for (a, b) in here.iter().flatten().zip(there.iter().flatten()) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
        assert_eq!(there[3].len(), 4 * 300);
    }
}

/// An oracle that is always right has its whole path accepted while it knows how the text continues, one that never is
/// nothing; the text stays plain decoding's.
#[test]
fn an_oracle_decides_what_is_accepted() {
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(decoder) = on_device(model.path(), heads.path()) else { return };
    let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 1], [0, 0, 0]]").unwrap();
    let folder = HeadsFolder::open(heads.path()).unwrap();
    let model_heads = MedusaModel::load(&folder, decoder.clone()).unwrap();
    let target = DecoderTarget::new(decoder.clone(), 640, Hooks::none());
    let mut recorded = Recorded::guided(target, model_heads, &shape).unwrap();
    let prompt = [256, 72, 105];
    let plain = plain(model.path(), &prompt);
    for (rates, accepted) in [(vec![1.0; 3], 3), (vec![1.0], 1), (vec![0.0], 0)] {
        recorded.reveal(&[&prompt[..], &plain].concat(), &rates, 5);
        let run =
            recorded.decode(&prompt, &limits(), SeededRandom::new(0), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(run.ids, plain);
        let known = &run.accepted[..(NEW_TOKENS - 4) / (accepted + 1)];
        assert!(known.iter().all(|&n| n == accepted), "{rates:?}: {:?}", run.accepted);
        let counts = recorded.take_counts();
        assert_eq!((counts.reads, counts.replays), (counts.steps, counts.steps));
    }
}

/// A further turn reads only what was not read yet, also after plain steps over the same cache; a text that differs is
/// read from there.
#[test]
fn a_further_turn_reads_its_new_tokens_only() {
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(decoder) = on_device(model.path(), heads.path()) else { return };
    let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 0, 0]]").unwrap();
    let model_heads = MedusaModel::load(&HeadsFolder::open(heads.path()).unwrap(), decoder.clone()).unwrap();
    let target = DecoderTarget::new(decoder, 640, Hooks::none());
    let mut pair = RecordedPair::new(Recorded::new(target, Some(model_heads), &shape).unwrap());
    let mut text = vec![256, 72, 105];
    let mut answer = |text: &[u32], drafts: bool, read: usize| {
        let answer =
            pair.of(drafts).decode(text, &limits(), SeededRandom::new(0), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(answer.read, read, "{drafts}");
        assert_eq!(answer.ids, plain(model.path(), text), "{drafts}");
        answer.ids
    };
    text.extend(answer(&text, true, 3));
    // The last emitted token was not read.
    answer(&text, false, 1);
    text.extend([5, 9]);
    let second = answer(&text, true, 2);
    assert_eq!(answer(&text, false, 1), second);
    text.extend(second.iter().chain(&[7]));
    answer(&text, true, 2);
    text[20] += 1;
    answer(&text, false, text.len() - 20);
    pair.of(true).reset();
    let again =
        pair.of(true).decode(&text, &limits(), SeededRandom::new(0), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(again.read, text.len());
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = tempfile::tempdir().unwrap();
    SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    let decoder = Arc::new(Decoder::load(model.path(), &compute()).unwrap());
    let shape = TreeShape::from_json("[[0]]").unwrap();
    let Ok(mut recorded) = Recorded::new(DecoderTarget::new(decoder, 20, Hooks::none()), None, &shape) else { return };
    let mut go_on = |_| ControlFlow::Continue(());
    let limits = |max_new_tokens| Limits { max_new_tokens, end_tokens: vec![] };
    // The last new token is emitted and never read. The last step may accept more than there is left.
    assert_eq!(recorded.decode(&[1, 2], &limits(19), SeededRandom::new(0), &mut go_on).unwrap().ids.len(), 19);
    let error = recorded.decode(&[1, 2], &limits(20), SeededRandom::new(0), &mut go_on).unwrap_err();
    assert!(matches!(error, DecodeError::Context { prompt: 2, new: 20, context: 20 }), "{error}");
    assert!(recorded.decode(&[], &limits(3), SeededRandom::new(0), &mut go_on).is_err());
    assert_eq!(recorded.decode(&[1, 2], &limits(19), SeededRandom::new(0), &mut go_on).unwrap().ids.len(), 19);
}

/// A block drafter drafts on a GPU what it drafts on the CPU: the same text in the same steps, greedy and coupled.
#[test]
fn a_block_drafter_decodes_as_on_the_cpu() {
    let (model, here) = (tempfile::tempdir().unwrap(), random_block::decoder());
    random_block::SHAPE.write(model.path(), FloatFormat::F32, 3).unwrap();
    let there = Arc::new(Decoder::load(model.path(), &compute()).unwrap());
    if there.compute().is_host() {
        eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU");
        return;
    }
    let config = random_block::config();
    let second = BlockConfig { conv: true, selector: Some(SelectorConfig { k: 4, rank: 3 }), ..config.clone() };
    for config in [config.clone(), BlockConfig { window: Some(6), causal: true, ..config }, second] {
        for temperature in [0.0, 0.8] {
            let transform = Transform::new(temperature, None, None).unwrap();
            let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
            let run = |decoder: &Arc<Decoder>| {
                let drafter = BlockDrafter::new(random_block::model(decoder, &config));
                let mut target = DecoderTarget::new(decoder.clone(), 96, drafter.needs().hooks);
                let prompt = [256, 72, 105, 33];
                let request = Request::new(&prompt, &limits(), SeededRandom::behind(5, &prompt, 0));
                let method = Method { tree: &TrellisTree::new(16, 4).unwrap(), rule: rule.as_ref() };
                let mut session = Session::new(&mut target, drafter);
                let done = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap();
                (done.ids, done.accepted)
            };
            assert_eq!(run(&there), run(&here), "{config:?} at {temperature}");
        }
    }
}
