//! `kill -9` at any moment costs work, never rows or bits.
#![cfg(unix)]

mod chain;
mod deaths;

use chain::{Job, finished, start};
use deaths::{POINTS, delays, dies_at, kill_after, kills};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn a_killed_distillation_loses_and_doubles_no_row() {
    let whole = Job::new();
    whole.distill(&[]);
    let job = Job::new();
    let config = job.text("distill.toml");
    let mut killed = 0;
    for (i, delay) in delays(150).take(4 * kills() as usize).enumerate() {
        let batch = format!("batch_size={}", 1 + i % 5);
        killed += u32::from(kill_after(&["distill", "-c", &config, &batch], delay));
        if killed == kills() {
            break;
        }
    }
    eprintln!("distillation killed {killed} times");
    job.distill(&[]);
    assert_eq!(job.shards(), whole.shards());
}

#[test]
fn a_distillation_that_dies_at_a_named_point_goes_on() {
    let whole = Job::new();
    whole.distill(&[]);
    let mut deaths = 0;
    for point in POINTS {
        for occurrence in 1.. {
            let job = Job::new();
            let config = job.text("distill.toml");
            if !dies_at(&["distill", "-c", &config], point, occurrence) {
                break;
            }
            deaths += 1;
            job.distill(&[]);
            assert_eq!(job.shards(), whole.shards(), "{point}:{occurrence}");
            let files = std::fs::read_dir(job.path("data")).unwrap().map(|e| e.unwrap().file_name());
            let left: Vec<_> = files.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
    eprintln!("distillation died at {deaths} named points");
    // The config, the identity, a shard and the report.
    assert!(deaths >= 12, "{deaths}");
}

/// Steps draw positions from buffers of which an epoch has several.
const BUFFER: &str = "training.shuffle_buffer=400";

/// Goes on with the run there is, or begins one.
fn train_args(job: &Job) -> Vec<String> {
    let mut args = vec!["train".to_owned(), "-c".into(), job.text("train.toml"), BUFFER.into()];
    if let Some(run) = job.run() {
        args.extend(["--resume".into(), run.to_str().unwrap().into()]);
    }
    args
}

/// Every step and every evaluation stands in the metrics once.
fn check_metrics(job: &Job) {
    let text = std::fs::read_to_string(job.run().unwrap().join("metrics.jsonl")).unwrap();
    let (mut steps, mut evaluations, mut parities) = (vec![], vec![], 0);
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let step = record["step"].as_u64().unwrap();
        match (record.get("evaluation"), record.get("parity")) {
            (Some(_), _) => evaluations.push(step),
            (_, Some(parity)) => parities += u32::from(parity["same"] == true),
            _ => steps.push(step),
        }
    }
    assert_eq!(parities, 1, "{text}");
    assert_eq!(steps, (1..=12).collect::<Vec<_>>());
    assert_eq!(evaluations.iter().collect::<BTreeSet<_>>().len(), evaluations.len());
    assert_eq!(evaluations, [4, 8, 12]);
}

#[test]
fn a_killed_training_ends_with_the_same_bits() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[BUFFER]);
    check_metrics(&whole);
    let job = Job::new();
    job.distill(&[]);
    let mut killed = 0;
    for delay in delays(250).take(4 * kills() as usize) {
        let args = train_args(&job);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        killed += u32::from(kill_after(&args, delay));
        if killed == kills() {
            break;
        }
    }
    eprintln!("training killed {killed} times");
    let args = train_args(&job);
    finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    assert_eq!(job.weights(), whole.weights());
    check_metrics(&job);
}

#[test]
fn a_training_that_dies_at_a_named_point_ends_with_the_same_bits() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[BUFFER]);
    // Some of each point in the short form, more in the longer ones, all in the longest.
    let stride = match kills() {
        0..=5 => 7,
        6..=59 => 3,
        60..=99 => 2,
        _ => 1,
    };
    let mut deaths = 0;
    for (i, point) in POINTS.into_iter().enumerate() {
        for occurrence in (1 + i..).step_by(stride) {
            let job = Job::like(&whole);
            let args = train_args(&job);
            if !dies_at(&args.iter().map(String::as_str).collect::<Vec<_>>(), point, occurrence) {
                break;
            }
            deaths += 1;
            let args = train_args(&job);
            finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
            assert_eq!(job.weights(), whole.weights(), "{point}:{occurrence}");
            check_metrics(&job);
        }
    }
    eprintln!("training died at {deaths} named points");
    assert!(deaths >= 120 / stride - 8, "{deaths}");
}

/// Ctrl-C saves and says how to go on; going on ends with the same bits.
#[test]
fn an_interrupted_training_saves() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[BUFFER]);
    let job = Job::new();
    job.distill(&[]);
    let more = ["training.steps=100000", "training.save_every=0", "training.eval_every=0"];
    let config = job.text("train.toml");
    let mut child = start(&[&["train", "-c", &config][..], &more].concat(), &[]);
    // It has begun to train when it has recorded a step.
    let metrics =
        || job.run().map(|run| run.join("metrics.jsonl")).filter(|path| path.metadata().is_ok_and(|m| m.len() > 0));
    while metrics().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "the training ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("gorgon train --resume "), "{said}");
    let run = job.run().unwrap();
    let saved = std::fs::read_dir(&run).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    assert_eq!(saved.filter(|name| name.starts_with("step-")).count(), 1);
}

/// Parts by several processes, some of them killed, and one that nobody did: joined, they are what one process makes.
#[test]
fn parts_are_joined_without_loss_or_double() {
    let whole = Job::new();
    whole.distill(&[]);
    let job = Job::new();
    let config = job.text("distill.toml");
    let part = |i: usize| ["distill".to_owned(), "-c".into(), config.clone(), "--shard".into(), format!("{i}/4")];
    let mut killed = 0;
    for (i, delay) in (1..=3).zip(delays(150).skip(5)) {
        let args = part(i);
        killed += u32::from(kill_after(&args.each_ref().map(String::as_str), delay));
    }
    // Side by side; what was killed is resumed. The fourth part stays undone.
    let children: Vec<_> = (1..=3).map(|i| start(&part(i).each_ref().map(String::as_str), &[])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(!job.path("data/shards.json").exists());
    let mut joined = 0;
    for occurrence in 1..5 {
        joined += u32::from(dies_at(&["distill", "-c", &config], "after-write", occurrence));
    }
    job.distill(&[]);
    assert_eq!(job.shards(), whole.shards());
    // Each answer stands in the journal once.
    let text = std::fs::read_to_string(job.path("data/answers.jsonl")).unwrap();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(seen.insert((record["row"].as_u64(), record["turn"].as_u64(), record["done"].as_u64())), "{line}");
    }
    eprintln!("three parts and the joining were killed {} times", killed + joined);
    // A part of another job is refused.
    std::fs::write(job.path("data/part-1-of-4/identity.json"), "{\"model\": \"other\"}").unwrap();
    let output = start(&["distill", "-c", &config], &[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("part-1-of-4"));
}
