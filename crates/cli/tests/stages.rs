//! `kill -9` and damaged files in the stages beside distillation and training: pretraining, hidden states, calibration
//! and comparison. A resumed job ends as if nothing had happened.
#![cfg(unix)]

mod chain;
mod deaths;

use chain::stages::{compared, comparison, last_step, pretrained, pretraining, read};
use chain::{Job, backbone, finished, start};
use deaths::{POINTS, delays, dies_at, kill_after, kills};
use serde_json::Value;
use std::path::Path;

/// Every so many of the named points: all of them in the longest form.
fn stride(short: usize, longer: usize) -> usize {
    match kills() {
        0..=5 => short,
        6..=99 => longer,
        _ => 1,
    }
}

/// The arguments of a job, which resumes the run that there is.
fn args(job: &Job, verb: &str, config: &str) -> Vec<String> {
    let mut args = vec![verb.to_owned(), "-c".into(), job.text(config)];
    if let Some(run) = job.run() {
        args.extend(["--resume".into(), run.to_str().unwrap().into()]);
    }
    args
}

/// Runs a job to its end.
fn ends(job: &Job, verb: &str, config: &str) {
    let args = args(job, verb, config);
    finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
}

/// Kills a job at random moments, going on each time, and then lets it end. Returns how often it was killed at work.
fn killed(job: &Job, verb: &str, config: &str, longest_ms: u64) -> u32 {
    let mut killed = 0;
    for delay in delays(longest_ms).take(4 * kills() as usize) {
        let args = args(job, verb, config);
        killed += u32::from(kill_after(&args.iter().map(String::as_str).collect::<Vec<_>>(), delay));
        if killed == kills() {
            break;
        }
    }
    ends(job, verb, config);
    killed
}

/// For some of the named points of a job: it dies there, and ends when it is resumed. Returns how many there were.
fn died(fresh: &dyn Fn() -> Job, verb: &str, config: &str, stride: usize, check: &dyn Fn(&Job, &str)) -> usize {
    let mut deaths = 0;
    for (i, point) in POINTS.into_iter().enumerate() {
        for occurrence in (1 + i % stride..).step_by(stride) {
            let job = fresh();
            let args = args(&job, verb, config);
            if !dies_at(&args.iter().map(String::as_str).collect::<Vec<_>>(), point, occurrence) {
                break;
            }
            deaths += 1;
            ends(&job, verb, config);
            check(&job, &format!("{point}:{occurrence}"));
        }
    }
    deaths
}

#[test]
fn a_killed_pretraining_ends_with_the_same_bits() {
    let whole = pretraining();
    ends(&whole, "pretrain", "pretrain.toml");
    let expected = pretrained(whole.dir.path());
    let job = pretraining();
    let random = killed(&job, "pretrain", "pretrain.toml", 250);
    assert_eq!(pretrained(job.dir.path()), expected);
    let named = died(&pretraining, "pretrain", "pretrain.toml", stride(9, 3), &|job, at| {
        assert_eq!(pretrained(job.dir.path()), expected, "{at}");
    });
    assert!(named >= 3, "{named}");
    eprintln!("crash-test: pretraining killed {random} times and died at {named} named points: bits that differ 0");
}

#[test]
fn a_last_part_that_cannot_be_is_refused() {
    let job = pretraining();
    let config = job.text("pretrain.toml");
    for (wrong, said) in [
        ("finish.kinds=[\"juggling\"]", "juggling"),
        ("finish.kinds=[]", "finish.kinds"),
        ("finish.share=1.5", "finish.share = 1.5"),
        ("finish.learning_rate=0", "finish.learning_rate = 0"),
        ("finish.synthetic=0", "finish.synthetic = 0"),
        ("finish.micro_batch_tokens=0", "finish.micro_batch_tokens = 0"),
    ] {
        let output = start(&["pretrain", "-c", &config, wrong], &[]).wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(said), "{wrong}: {:?} {told}", output.status);
        assert!(job.run().is_none());
    }
}

/// A damaged checkpoint of a pretraining is named, and the one before is resumed from.
#[test]
fn a_damaged_checkpoint_of_a_pretraining_is_named() {
    let whole = pretraining();
    ends(&whole, "pretrain", "pretrain.toml");
    let expected = pretrained(whole.dir.path());
    let mut faults = 0;
    for name in ["model.safetensors", "optimizer.safetensors", "state.json"] {
        let file = last_step(&whole.run().unwrap()).join(name);
        let mut bytes = read(&file);
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&file, bytes).unwrap();
        let args = args(&whole, "pretrain", "pretrain.toml");
        let output = finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("set aside") && said.contains(name), "{said}");
        assert_eq!(pretrained(whole.dir.path()), expected, "{name}");
        faults += 1;
    }
    eprintln!("crash-test: {faults} damaged checkpoints of a pretraining were named, none was used");
}

#[test]
fn killed_hidden_states_end_with_the_same_bits() {
    let whole = Job::new();
    whole.distill(&[]);
    let states = |job: &Job| read(&job.features().unwrap().join("features-00000.safetensors"));
    finished(&["features", "-c", &whole.text("train.toml"), "feature_format=int8"], &[]);
    let job = Job::like(&whole);
    let mut killed = 0;
    for delay in delays(80).take(4 * kills() as usize) {
        killed += u32::from(kill_after(&["features", "-c", &job.text("train.toml"), "feature_format=int8"], delay));
        if killed == kills() {
            break;
        }
    }
    finished(&["features", "-c", &job.text("train.toml"), "feature_format=int8"], &[]);
    assert_eq!(states(&job), states(&whole));
    eprintln!("crash-test: hidden states killed {killed} times: bits that differ 0");
}

/// Plan and measurement stand beside each other in the run folder, of a training and of a pretraining; a run that was
/// resumed does not compare what it has not seen.
#[test]
fn plans_are_compared_with_what_was_measured() {
    let plan = |job: &Job| -> Value {
        let results: Value = serde_json::from_slice(&read(&job.run().unwrap().join("results.json"))).unwrap();
        results["plan"].clone()
    };
    let (trained, fresh) = (Job::new(), pretraining());
    let distil = trained.text("distill.toml");
    let told = finished(&["distill", "-c", &distil], &[]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("planned / measured: memory "), "{told:?}");
    let report: Value = serde_json::from_slice(&read(&trained.path("data/report.json"))).unwrap();
    for key in ["memory_bytes", "peak_rss_bytes", "disk_bytes", "new_tokens", "answering_seconds"] {
        assert!(report["plan"][key]["ratio"].as_f64().unwrap() > 0.0, "{key}: {report}");
    }
    // Everything is answered: nothing is left to be planned.
    trained.distill(&[]);
    let report: Value = serde_json::from_slice(&read(&trained.path("data/report.json"))).unwrap();
    assert!(report["plan"]["memory_bytes"].is_null() && report["plan"]["new_tokens"].is_null(), "{report}");
    let dry = finished(&["train", "-c", &trained.text("train.toml"), "--dry-run"], &[]);
    let said = String::from_utf8_lossy(&dry.stderr).into_owned();
    for word in ["memory beside the backbone", "disk ", "for training, evaluations apart"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(trained.run().is_none());
    let states = finished(&["features", "-c", &trained.text("train.toml"), "--json"], &[]);
    let states: Value = serde_json::from_slice(&states.stdout).unwrap();
    for key in ["memory_bytes", "peak_rss_bytes", "disk_bytes", "seconds"] {
        assert!(states["plan"][key]["ratio"].as_f64().unwrap() > 0.0, "{key}: {states}");
    }
    trained.train(&[]);
    ends(&fresh, "pretrain", "pretrain.toml");
    for (job, verb, config) in [(&trained, "train", "train.toml"), (&fresh, "pretrain", "pretrain.toml")] {
        let whole = plan(job);
        assert_eq!(whole["undisturbed"], true);
        for key in ["memory_bytes", "peak_rss_bytes", "disk_bytes", "fitting_seconds"] {
            assert!(whole[key]["planned"].as_f64().unwrap() > 0.0, "{whole}");
        }
        assert!(whole["disk_bytes"]["measured"].as_f64().unwrap() > 0.0, "{whole}");
        ends(job, verb, config);
        assert_eq!(plan(job), whole, "nothing was fitted, so nothing new was measured");
    }
}

/// Under a limit, micro-batches are cut; one that leaves nothing for them is refused in a line.
#[test]
fn a_limit_on_memory_is_kept_to() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let output = finished(&["train", "-c", &config, "training.memory_limit_mb=1"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("computed in halves"), "{said}");
    let output = start(&["train", "-c", &config, "training.memory_limit_mb=0"], &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("training.memory_limit_mb"), "{said}");
    assert!(!said.contains("internal error"), "{said}");
}

/// Products in bf16 train heads where the device has them, and are refused in a line where it has not.
#[test]
fn an_lm_head_in_bf16_trains_or_is_refused() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let output = start(&["train", "-c", &config, "lm_head_format=bf16"], &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("heads in") || said.contains("heads in"), "{said}")
        }
        code => assert!(code == Some(2) && said.contains("lm_head_format = bf16: this processor has no"), "{said}"),
    }
    let output = start(&["train", "-c", &config, "lm_head_format=f8"], &[]).wait_with_output().unwrap();
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("lm_head_format"));
}

const CALIBRATED: [&str; 2] = ["calibration.json", "tree.json"];

/// Damage is named: a tree that was cut off, is no text or has one digit changed; `shown` draws the stored tree.
fn damaged_trees_are_named(heads: &Path, shown: &[&str]) {
    for name in CALIBRATED {
        let bytes = read(&heads.join(name));
        let mut flipped = bytes.clone();
        *flipped.iter_mut().find(|byte| byte.is_ascii_digit()).unwrap() ^= 1;
        let noise = bytes.iter().map(|byte| byte ^ 0x80).collect();
        for damaged in [bytes[..bytes.len() / 2].to_vec(), vec![], noise, flipped] {
            std::fs::write(heads.join(name), damaged).unwrap();
            let reads = match name {
                "tree.json" => shown.to_vec(),
                _ => vec!["tree", "sequoia", "--heads", heads.to_str().unwrap()],
            };
            let output = start(&reads, &[]).wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && said.contains(name), "{name}: {:?} {said}", output.status);
        }
        std::fs::write(heads.join(name), bytes).unwrap();
    }
}

/// A calibration that dies leaves the tree that there was, or the new one, and never anything half; the heads stay as
/// they are.
#[test]
fn a_killed_calibration_leaves_whole_trees() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let prompts: String = (0..4).map(|i| format!("{{\"prompt\": \"What is {i} + 4?\"}}\n")).collect();
    job.write("prompts.jsonl", &prompts);
    let (heads, prompts) = (job.run().unwrap().join("heads"), job.text("prompts.jsonl"));
    let (model, folder) = (backbone().to_str().unwrap(), heads.to_str().unwrap().to_owned());
    let args =
        ["tree", "calibrate", "--model", model, "--heads", &folder, "--prompts", &prompts, "--max-new-tokens", "8"];
    let shown = ["tree", "show", "--heads", &folder];
    let weights = read(&heads.join("model.safetensors"));
    let whole = |name: &str| serde_json::from_slice::<Value>(&read(&heads.join(name))).is_ok();
    let mut deaths = 0;
    for point in POINTS {
        for occurrence in 1.. {
            CALIBRATED.iter().for_each(|name| drop(std::fs::remove_file(heads.join(name))));
            if !dies_at(&args, point, occurrence) {
                break;
            }
            deaths += 1;
            assert!(CALIBRATED.iter().all(|name| !heads.join(name).exists() || whole(name)), "{point}:{occurrence}");
            finished(&args, &[]);
            assert!(CALIBRATED.iter().all(|name| whole(name)), "{point}:{occurrence}");
        }
    }
    assert!(deaths >= 6, "{deaths}");
    let mut random = 0;
    for delay in delays(200).take(kills() as usize) {
        random += u32::from(kill_after(&args, delay));
        assert!(CALIBRATED.iter().all(|name| whole(name)));
        finished(&shown, &[]);
    }
    assert_eq!(read(&heads.join("model.safetensors")), weights);
    let inside = std::fs::read_dir(&heads).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = inside.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.len() <= deaths + random as usize, "{left:?}");
    damaged_trees_are_named(&heads, &shown);
    eprintln!("crash-test: calibration killed {random} times and died at {deaths} named points: trees lost 0");
}

#[test]
fn a_killed_comparison_ends_with_the_same_results() {
    let whole = Job::new();
    whole.distill(&[]);
    comparison(&whole);
    ends(&whole, "compare", "compare.toml");
    let expected = compared(whole.dir.path());
    let fresh = || {
        let job = Job::like(&whole);
        comparison(&job);
        job
    };
    let job = fresh();
    let random = killed(&job, "compare", "compare.toml", 500);
    assert_eq!(compared(job.dir.path()), expected);
    let named = died(&fresh, "compare", "compare.toml", stride(13, 5), &|job, at| {
        assert_eq!(compared(job.dir.path()), expected, "{at}");
    });
    assert!(named >= 3, "{named}");
    // A measurement that is cut off, or has a digit changed, is named and made again.
    let run = job.run().unwrap();
    let measured = run.join("bench-medusa-seed1.json");
    let bytes = read(&measured);
    let mut flipped = bytes.clone();
    *flipped.iter_mut().find(|byte| byte.is_ascii_digit()).unwrap() ^= 1;
    for damaged in [bytes[..bytes.len() / 2].to_vec(), flipped] {
        std::fs::write(&measured, &damaged).unwrap();
        let args = args(&job, "compare", "compare.toml");
        let output = finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        assert!(String::from_utf8_lossy(&output.stderr).contains("bench-medusa-seed1.json is damaged"), "{output:?}");
        assert_eq!(compared(job.dir.path()), expected);
        assert_ne!(read(&measured), damaged);
    }
    eprintln!("crash-test: comparison killed {random} times and died at {named} named points: results lost 0");
}
