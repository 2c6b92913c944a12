//! Steps of single positions, drawn from a buffer of hidden states: the loss is that of whole conversations, and neither
//! threads nor interruptions nor cached states change a bit.

use crate::on_backbone;

use burn::tensor::Tensor;
use gorgon_data::pack::Packing;
use gorgon_data::shard::Row;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::methods::{Conversations, FeatureCache, HeadFitting, HeadRows, OnBackbone};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{DryRun, FitSettings, Objective, Purpose, Report, fit};
use on_backbone::{assert_slopes, fitted, heads, loaded, step, stirred, training};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Three micro-batches to a step, which draw from `buffer` positions.
fn shuffled(buffer: usize) -> HeadFitting {
    heads(loaded()).shuffled(buffer, 3, 1)
}

/// Buffers end within steps, at their ends, and never.
const BUFFERS: [usize; 3] = [9, 45, 10_000];

#[test]
fn gradients_are_slopes() {
    let objective = shuffled(45);
    assert_slopes(&objective, &stirred(objective.parameters(3)), 2);
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    for buffer in BUFFERS {
        let dir = tempfile::tempdir().unwrap();
        let one = fitted(&shuffled(buffer), dir.path(), 1, None);
        assert_eq!(one, fitted(&shuffled(buffer), dir.path(), 2, None));
        for stop_at in [1, 2, 3, 5, 7, 11] {
            assert_eq!(one, resumed(buffer, stop_at), "buffer {buffer}, stopped at {stop_at}");
        }
        let mut cached = shuffled(buffer);
        let path = dir.path().join("features.f32");
        let rows = [cached.data.rows.as_slice(), cached.data.held_out.as_slice()];
        let of = |row: &Row| cached.positions(&row.example);
        let cache = FeatureCache::build(&path, &cached.data.features.decoder, rows, of, &mut |_| ()).unwrap();
        cached.data.features.cache = Some(cache);
        assert_eq!(one, fitted(&cached, dir.path(), 2, None));
    }
}

/// Fits until it is stopped, and then goes on in what could be another process: nothing is in memory.
fn resumed(buffer: usize, stop_at: u64) -> Vec<Vec<f32>> {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings: FitSettings = training(12).settings(4, 7).unwrap();
    let stop = AtomicBool::new(false);
    let mut observe = |report: Report| {
        if let Report::Step(record) = report {
            stop.store(record.step == stop_at, Ordering::Relaxed);
        }
    };
    assert!(!fit(&shuffled(buffer), &run, &settings, &stop, &mut observe).unwrap().finished);
    let outcome = fit(&shuffled(buffer), &run, &settings, &stop, &mut observe).unwrap();
    assert!(outcome.finished);
    outcome.parameters.into_iter().map(|p| gorgon_model::target::read(p.value)).collect()
}

/// A step that draws every position has the loss and the gradients of a step of all conversations.
#[test]
fn an_epoch_in_one_step_is_that_of_whole_conversations() {
    let data = || {
        let data = loaded();
        let lengths = data.rows.iter().map(|row| row.example.ids.len()).collect();
        Conversations { packing: Packing::new(lengths, 10_000, 1, 1), ..data }
    };
    let whole = heads(data());
    let parameters = stirred(whole.parameters(3));
    let (loss, gradients) = step(&whole, &parameters, 0);
    for buffer in [20, 10_000] {
        let (drawn_loss, drawn) = step(&heads(data()).shuffled(buffer, 1, 1), &parameters, 0);
        assert!((loss - drawn_loss).abs() < 1e-5 * loss, "{loss} {drawn_loss}");
        for (a, b) in gradients.iter().flatten().zip(drawn.iter().flatten()) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}

/// Every label of the data is in one step of each epoch.
#[test]
fn an_epoch_has_every_label_once() {
    let labels: Vec<f64> = {
        let data = loaded();
        let of = |head: usize| {
            let counts = data.rows.iter().map(|row| (0..64).filter(|t| row.example.counts(head, *t)).count());
            counts.sum::<usize>() as f64
        };
        (0..3).map(of).collect()
    };
    for buffer in BUFFERS {
        let objective = shuffled(buffer);
        let steps = objective.data.packing.steps_per_epoch();
        for epoch in 0..3 {
            let mut seen = vec![0.0; 3];
            let mut places: BTreeMap<String, usize> = BTreeMap::new();
            for batch in (epoch * steps..(epoch + 1) * steps).flat_map(|step| objective.batches(step).unwrap()) {
                seen.iter_mut().zip(objective.weights(&batch)).for_each(|(sum, n)| *sum += n);
                *places.entry(objective.place(&batch)).or_default() += 1;
            }
            assert_eq!(seen, labels);
            assert!(places.len() > 3);
        }
    }
}

/// Positions cut in halves are the same positions.
#[test]
fn halves_are_the_whole() {
    let objective = shuffled(45);
    let batch = objective.batches(1).unwrap().remove(0);
    let (first, other) = objective.halves(&batch).unwrap();
    let sum = |batches: &[&HeadRows], of: &dyn Fn(&HeadRows) -> f64| batches.iter().map(|b| of(b)).sum::<f64>();
    let tokens = |batch: &HeadRows| objective.size(batch).tokens as f64;
    assert_eq!(sum(&[&first, &other], &tokens), tokens(&batch));
    let parameters: Vec<Tensor<1>> = stirred(objective.parameters(3)).into_iter().map(|p| p.value).collect();
    let totals = objective.weights(&batch);
    let loss = |batch: &HeadRows| objective.gradients(&parameters, batch, &totals).unwrap().loss;
    assert!((sum(&[&first, &other], &loss) - loss(&batch)).abs() < 1e-5);
    let mut part = first;
    while let Some((smaller, _)) = objective.halves(&part) {
        part = smaller;
    }
    assert_eq!(objective.size(&part).tokens, 1);
}

/// The buffers count in a limit of memory, and they are never larger than they were said to be.
#[test]
fn memory_is_bounded_and_known() {
    let width = loaded().features.width() as u64;
    let positions: usize = loaded().rows.iter().map(|row| shuffled(9).positions(&row.example).len()).sum();
    for buffer in BUFFERS {
        let objective = shuffled(buffer);
        // No part is larger than a third, or the longest conversation's.
        let most = (buffer.div_ceil(3) as u64).max(28).min(positions as u64);
        assert!(objective.held_bytes() <= 4 * most * width, "{buffer}");
    }
    assert_eq!(heads(loaded()).held_bytes(), 0);
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let (objective, stop) = (shuffled(10_000), AtomicBool::new(false));
    let values: usize = objective.parameters(0).iter().map(Parameter::len).sum();
    let fixed = gorgon_train::micro_batch::fixed_bytes(values, 3);
    let limited = |limit| FitSettings { memory_limit: Some(limit), ..training(3).settings(4, 7).unwrap() };
    let error = fit(&objective, &run, &limited(fixed + 10), &stop, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("training.shuffle_buffer 1 MB"), "{error}");
    let ample = fixed + 3 * objective.held_bytes() + (64 << 20);
    assert!(fit(&objective, &run, &limited(ample), &stop, &mut |_| ()).unwrap().finished);
}

/// Discarded steps leave no trace: what follows is the same to the bit.
#[test]
fn a_dry_run_changes_nothing() {
    let expected = fitted(&shuffled(45), tempfile::tempdir().unwrap().path(), 2, None);
    let objective = shuffled(45);
    let settings = training(12).settings(4, 7).unwrap();
    let mut dry_run = DryRun::new(&objective, &settings);
    dry_run.prepare(&[0, 1], Purpose::Time).unwrap();
    assert!(dry_run.step(0).unwrap() > 0.0 && dry_run.step(1).unwrap() > 0.0);
    drop(dry_run);
    assert_eq!(expected, fitted(&objective, tempfile::tempdir().unwrap().path(), 2, None));
}
