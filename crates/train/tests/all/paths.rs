//! Fitting heads that know the path: Hydra, Hydra++ and multi-token prediction. Gradients are slopes, and neither
//! threads nor interruptions nor cached states change a bit.

use crate::slopes;

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::hydra::{HydraConfig, HydraHeads, HydraShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::mtp::{MtpConfig, MtpHeads, MtpShape};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::Training;
use gorgon_train::methods::{Conversations, FeatureCache, Features, HeadFitting, HeadStack, OnBackbone, Windows};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{Objective, Report, fit};
use slopes::check_slopes;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};

fn examples(n: usize) -> Vec<Example> {
    let example = |i: usize| {
        let length = 12 + i * 5 % 17;
        let ids = (0..length).map(|t| ((t * t + 31 * i) % 250) as u32).collect();
        Example { ids, assistant: (0..length).map(|t| t > 4 && t % 9 != 0).collect(), corrected: None }
    };
    (0..n).map(example).collect()
}

fn fitting<S>(heads: impl FnOnce(&Decoder) -> S) -> HeadFitting<S> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let table: Vec<f32> = (0..d * vocab).map(|i| ((i * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.5).collect();
    let row = |(i, example): (usize, Example)| Row {
        row: i as u64,
        key: i as u64,
        id: format!("conversation-{i}"),
        source: "somewhere.jsonl".into(),
        line: 100 + i as u64,
        category: None,
        example,
        ends: vec!["end_token".into()],
        shard: "shard-00042.parquet".into(),
    };
    let rows: Vec<Row> = examples(12).into_iter().enumerate().map(row).collect();
    let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
    HeadFitting {
        heads: heads(&decoder),
        lm_head: Tensor::from_data(TensorData::new(table, [vocab, d]), &Device::flex()).into(),
        data: Conversations {
            features: Features { decoder, cache: None },
            held_out: rows[..3].to_vec(),
            rows,
            packing: Packing::new(lengths, 40, 3, 1),
            base: "somewhere".into(),
            decoded_prompts: 2,
            decoded_tokens: 12,
            init_from: None,
            windows: Windows::default(),
        },
        shuffle: None,
    }
}

fn hydra(config: HydraConfig) -> HeadFitting<HydraHeads> {
    fitting(|decoder| HydraHeads::new(HydraShape { config, layer: LayerShape::of(decoder.config()) }, 64, 16))
}

fn plus() -> HydraConfig {
    HydraConfig { heads: 3, blocks: 4, prefix_attention: true, soft_targets: true, ..HydraConfig::default() }
}

fn mtp(depths: usize) -> HeadFitting<MtpHeads> {
    fitting(|decoder| {
        let layer = LayerShape::of(decoder.config());
        MtpHeads::new(MtpShape { config: MtpConfig { depths }, layer, first_layer: SHAPE.layers }, 64, 16)
    })
}

/// Gradients under stirred parameters are slopes.
fn slopes<O: Objective>(objective: &O) {
    check_slopes(objective, &stirred(objective.parameters(3)), (0.03, 0.05));
}

/// The parameters with something added to each value, so that none of them starts as nothing.
fn stirred(parameters: Vec<Parameter>) -> Vec<Parameter> {
    let stir = |(i, p): (usize, Parameter)| {
        let values = read(p.value.clone());
        let value = |(j, v): (usize, f32)| v + (((j * 7919 + i * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 0.2;
        let values = values.into_iter().enumerate().map(value).collect();
        Parameter::new(&p.name, &p.shape, p.role, values, &Device::flex())
    };
    parameters.into_iter().enumerate().map(stir).collect()
}

#[test]
fn gradients_are_slopes() {
    slopes(&hydra(HydraConfig { heads: 3, ..HydraConfig::default() }));
    slopes(&hydra(HydraConfig { heads: 2, blocks: 2, own_lm_heads: true, ..HydraConfig::default() }));
    slopes(&hydra(plus()));
    slopes(&mtp(1));
    slopes(&mtp(3));
}

/// Fits; asked to stop after `stop_at`, it is started again. Returns parameters. Against soft targets, the loss on the
/// labels need not fall.
fn fitted<S: HeadStack>(
    objective: &HeadFitting<S>,
    dir: &Path,
    threads: usize,
    (stop_at, falls): (Option<u64>, bool),
) -> Vec<Vec<f32>> {
    let run = RunDir::create(dir, "test").unwrap();
    let training = Training {
        steps: 12,
        learning_rate: Some(1e-2),
        log_every: 1,
        save_every: 4,
        eval_every: 6,
        ..Training::default()
    };
    let settings = training.settings(4, 7).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = AtomicBool::new(false);
    let mut losses = vec![];
    let mut observe = |report: Report| match report {
        Report::Step(record) => stop.store(Some(record.step) == stop_at, Ordering::Relaxed),
        Report::Evaluation(record) => {
            losses.push(record.evaluation.loss());
            assert!(record.evaluation.tau().unwrap() >= 1.0);
        }
        Report::Saved(_) | Report::Note(_) => {}
    };
    let mut outcome = pool.install(|| fit(objective, &run, &settings, &stop, &mut observe)).unwrap();
    if stop_at.is_some() {
        assert!(!outcome.finished);
        outcome = pool.install(|| fit(objective, &run, &settings, &stop, &mut observe)).unwrap();
    }
    assert!(outcome.finished);
    assert!(!falls || losses.last() < losses.first(), "{losses:?}");
    outcome.parameters.into_iter().map(|p| read(p.value)).collect()
}

/// Checks that the bits are equal, however the work is done, and returns them. Returns them.
fn check_bits<S: HeadStack>(falls: bool, make: impl Fn() -> HeadFitting<S>) -> Vec<Vec<f32>> {
    let dir = tempfile::tempdir().unwrap();
    let objective = make();
    let one = fitted(&objective, dir.path(), 1, (None, falls));
    assert_eq!(one, fitted(&objective, dir.path(), 3, (None, falls)));
    assert_eq!(one, fitted(&objective, dir.path(), 2, (Some(5), falls)));
    let mut cached = make();
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data.rows.as_slice(), cached.data.held_out.as_slice()];
    let path = dir.path().join("features.f32");
    let cache = FeatureCache::build(&path, &cached.data.features.decoder, rows, of, &mut |_| ()).unwrap();
    cached.data.features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, (None, falls)));
    one
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let plain = check_bits(true, || hydra(HydraConfig { heads: 3, ..HydraConfig::default() }));
    let shuffled = check_bits(true, || hydra(HydraConfig { heads: 3, ..HydraConfig::default() }).shuffled(30, 3, 1));
    assert_ne!(plain, shuffled);
    check_bits(true, || mtp(2));
    let config = HydraConfig { tied_blocks: true, ..plus() };
    let names: Vec<String> = hydra(config).parameters(0).into_iter().map(|p| p.name).collect();
    let values = check_bits(false, || hydra(config));
    // Blocks that are tied stay one block.
    let of = |name: &str| &values[names.iter().position(|n| n == name).unwrap()];
    for head in 0..3 {
        for part in ["weight", "bias"] {
            let block = |at: usize| of(&format!("hydra_mlp.{head}.{at}.linear.{part}"));
            assert!(block(3).iter().any(|&v| v != 0.0));
            assert_eq!((block(3), block(3)), (block(5), block(7)));
        }
    }
}

/// Positions with a label for plain Hydra; all up to the last state that counts where every position is read.
#[test]
fn what_is_read_depends_on_the_heads() {
    let example = |mask: &[u8]| Example {
        ids: (0..mask.len() as u32).collect(),
        assistant: mask.iter().map(|&own| own == 1).collect(),
        corrected: None,
    };
    let text = example(&[0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    let plain = hydra(HydraConfig { heads: 2, ..HydraConfig::default() });
    assert_eq!(plain.positions(&text), [5]);
    let everything: Vec<usize> = (0..7).collect();
    assert_eq!(hydra(HydraConfig { heads: 2, ..plus() }).positions(&text), everything);
    assert_eq!(mtp(2).positions(&text), everything);
    for objective in [mtp(1), mtp(3)] {
        assert!(objective.positions(&example(&[0, 0, 0])).is_empty());
        assert!(objective.positions(&example(&[0, 1])).is_empty());
    }
}
