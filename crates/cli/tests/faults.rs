//! Flipped bits and cut files: what is damaged is named, nothing that was committed is lost, and what goes
//! on ends with the same bits. Checkpoints that forget something on purpose show that the comparison would see it.
#![cfg(unix)]

mod chain;

use chain::{Job, finished, start};
use gorgon_runs::run_dir::RunDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

/// More of everything in the long form.
fn is_long() -> bool {
    std::env::var("GORGON_TEST_KILLS").is_ok()
}

/// A distillation and a training that nothing disturbed.
fn whole() -> Job {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    whole
}

fn resume(job: &Job, more: &[&str]) -> Output {
    let (config, run) = (job.text("train.toml"), job.run().unwrap());
    finished(&[&["train", "-c", &config, "--resume", run.to_str().unwrap()][..], more].concat(), &[])
}

/// Flips a bit, cuts a file short, or empties it.
fn damage(path: &Path, kind: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    match kind {
        0 => {
            let at = bytes.len() * 2 / 3;
            bytes[at] ^= 0x10;
        }
        1 => bytes.truncate(bytes.len() - 1 - bytes.len() / 3),
        _ => bytes.clear(),
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_taken() {
    let whole = whole();
    let mut faults = 0;
    for name in ["model.safetensors", "optimizer.safetensors", "state.json", "config.json"] {
        for kind in 0..if is_long() { 3 } else { 1 } {
            let job = Job::new();
            job.distill(&[]);
            train_until(&job, 9);
            let run = job.run().unwrap();
            damage(&run.join("step-000009").join(name), kind);
            let output = resume(&job, &[]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("set aside") && said.contains("step-000009") && said.contains(name), "{said}");
            assert_eq!(job.weights(), whole.weights(), "{name}");
            faults += 1;
        }
    }
    eprintln!("crash-test: {faults} damaged checkpoints were named, none was used");
}

/// Trains and dies when the checkpoint of `step` is written: at which of the points that is, is found by halving.
fn train_until(job: &Job, step: u64) {
    static KNOWN: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut low, mut high) = known.get(&step).map_or((1, 128), |&found| (found, found));
    loop {
        let occurrence = usize::midpoint(low, high);
        if let Some(run) = job.run() {
            std::fs::remove_dir_all(run).unwrap();
        }
        let at = format!("before-folder-sync:{occurrence}");
        let args = ["train", "-c", &job.text("train.toml")];
        start(&args, &[("GORGON_CRASH_AT", &at)]).wait_with_output().unwrap();
        let view = gorgon_runs::run_dir::RunView::open(&job.run().unwrap()).unwrap();
        match view.steps().unwrap().last().copied().unwrap_or(0) {
            last if last == step => {
                known.insert(step, occurrence);
                return;
            }
            last if last < step => low = occurrence + 1,
            _ => high = occurrence - 1,
        }
        assert!(low <= high, "step {step} was never the last");
    }
}

#[test]
fn damaged_rows_are_named() {
    let whole = whole();
    let mut faults = 0;
    for name in ["shard-00000.parquet", "shards.json"] {
        for kind in 0..3 {
            let job = Job::new();
            job.distill(&[]);
            damage(&job.path("data").join(name), kind);
            let output = start(&["train", "-c", &job.text("train.toml")], &[]).wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(name), "{said}");
            // The answers are still there: the shards are made anew.
            job.distill(&[]);
            assert_eq!(job.shards(), whole.shards());
            faults += 1;
        }
    }
    let job = Job::new();
    job.distill(&[]);
    let journal = job.path("data/answers.jsonl");
    let bytes = std::fs::read(&journal).unwrap();
    // A flipped bit is named; a cut costs the answers that were cut off, and they come again.
    damage(&journal, 0);
    let output = start(&["distill", "-c", &job.text("distill.toml")], &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("answers.jsonl") && said.contains("line "), "{said}");
    for cut in [bytes.len() - 1, bytes.len() / 2, 7] {
        std::fs::write(&journal, &bytes[..cut]).unwrap();
        job.distill(&[]);
        assert_eq!(job.shards(), whole.shards());
        faults += 1;
    }
    eprintln!("crash-test: {} damaged files of rows were named or mended, rows lost 0", faults + 1);
}

/// Rewrites the newest checkpoint through `change`, with hashes that fit, as another step if it says so.
fn forge(run: &Path, change: impl Fn(&Path), step: impl Fn(u64) -> u64) {
    let run = RunDir::open(run).unwrap();
    let newest = *run.steps().unwrap().last().unwrap();
    let before = run.open_step(newest).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = std::fs::read_dir(&before.path).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in files.iter().filter(|file| !file.ends_with("state.json")) {
        std::fs::copy(file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    change(copy.path());
    let mut state = before.state.clone();
    state["step"] = step(newest).into();
    run.remove_steps_after(newest - 1).unwrap();
    let written = run.write_step(step(newest), |dir| {
        for entry in std::fs::read_dir(copy.path())? {
            let entry = entry?;
            std::fs::copy(entry.path(), dir.join(entry.file_name()))?;
        }
        Ok(state)
    });
    written.unwrap();
}

/// Empties the values of a safetensors file.
fn zero(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].fill(0);
    std::fs::write(path, bytes).unwrap();
}

/// Fills a safetensors file with values of no use.
fn scramble(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for (i, value) in bytes[8 + header..].chunks_exact_mut(4).enumerate() {
        value.copy_from_slice(&((i * 7919 % 101) as f32 - 50.0).to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

/// Heads that were altered after they were measured load as well as any, and are found out.
#[test]
fn altered_heads_are_found_out() {
    let job = whole();
    let run = job.run().unwrap();
    forge(&run, |dir| scramble(&dir.join("model.safetensors")), |step| step);
    std::fs::write(run.join("best"), "step-000012\n").unwrap();
    let args = ["train", "-c", &job.text("train.toml"), "--resume", run.to_str().unwrap()];
    let output = start(&args, &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not what was trained"), "{said}");
}

/// State that a checkpoint has to remember: with any of it dropped on purpose, the comparison fails.
#[test]
fn a_checkpoint_that_forgets_something_is_seen() {
    let whole = whole();
    let ends_with = |change: fn(&Path), step: fn(u64) -> u64, seed: u64| {
        let job = Job::new();
        job.distill(&[]);
        train_until(&job, 6);
        let run = job.run().unwrap();
        forge(&run, change, step);
        let config = std::fs::read_to_string(run.join("config.toml")).unwrap();
        std::fs::write(run.join("config.toml"), config.replace("seed = 2", &format!("seed = {seed}"))).unwrap();
        let provenance = run.join("provenance.json");
        let mut document: serde_json::Value = serde_json::from_slice(&std::fs::read(&provenance).unwrap()).unwrap();
        document.as_object_mut().unwrap().remove("config_sha256");
        std::fs::write(provenance, document.to_string()).unwrap();
        finished(&["train", "--resume", run.to_str().unwrap()], &[]);
        job.weights()[..2].to_vec()
    };
    let expected = whole.weights()[..2].to_vec();
    // Nothing is dropped: forging itself changes nothing.
    assert_eq!(ends_with(|_| (), |step| step, 2), expected);
    assert_ne!(ends_with(|dir| zero(&dir.join("optimizer.safetensors")), |step| step, 2), expected, "moments");
    assert_ne!(ends_with(|_| (), |step| step + 1, 2), expected, "data position");
    assert_ne!(ends_with(|_| (), |step| step, 3), expected, "seed");
    eprintln!("crash-test: 3 checkpoints that forgot something (moments, data position, seed) were all seen");
}

/// Heads that are not those that were trained end the training with an error, however well they load.
#[test]
fn heads_that_differ_from_the_trained_ones_are_an_error() {
    let job = whole();
    let run = job.run().unwrap();
    let metrics = run.join("metrics.jsonl");
    let before = std::fs::read_to_string(&metrics).unwrap();
    let parity = before.lines().last().unwrap().to_owned();
    assert!(parity.contains("\"parity\"") && parity.contains("\"same\":true"), "{parity}");
    let output = resume(&job, &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("train and serve agree"), "{said}");
    assert_eq!(std::fs::read_to_string(&metrics).unwrap(), before, "it is written once");
    // What was measured in training becomes something else, by a millionth.
    let best = std::fs::read_to_string(run.join("best")).unwrap();
    let best: u64 = best.trim().trim_start_matches("step-").parse().unwrap();
    let mut planted = String::new();
    for line in before.lines() {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        if record["step"] == best && record.get("evaluation").is_some() {
            let tau = record["evaluation"]["tau"].as_f64().unwrap();
            record["evaluation"]["tau"] = (tau * (1.0 + 1e-6)).into();
        }
        planted.push_str(&format!("{record}\n"));
    }
    std::fs::write(&metrics, planted).unwrap();
    let args = ["train", "-c", &job.text("train.toml"), "--resume", run.to_str().unwrap()];
    let output = start(&args, &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not what was trained") && said.contains("heads"), "{said}");
    let last = std::fs::read_to_string(&metrics).unwrap().lines().last().unwrap().to_owned();
    assert!(last.contains("\"same\":false"), "{last}");
}

/// Sizes are told before, plan and measurement after; of time only where something is computed.
fn features_are_planned(args: &[&str], format: &str, folder: &Path) {
    let dry = finished(&[args, &["--dry-run"]].concat(), &[]);
    let said = String::from_utf8_lossy(&dry.stderr).into_owned();
    assert!(said.contains(&format!("in {format}: ")) && !folder.exists(), "{said}");
    let told = || {
        let output = finished(&[args, &["--json"]].concat(), &[]);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["plan"].clone()
    };
    let plan = told();
    assert!((0.5..1.2).contains(&plan["disk_bytes"]["ratio"].as_f64().unwrap()), "{plan}");
    assert!(plan["seconds"]["measured"].is_f64(), "{plan}");
    assert!(told()["seconds"].is_null());
}

/// States that were computed ahead: sized before, kept in pieces, mended where damaged, read by any number of
/// trainings.
#[test]
fn features_are_computed_ahead_and_survive() {
    let job = whole();
    let config = job.text("train.toml");
    let exact = job.weights();
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for format in ["f32", "bf16", "int8"] {
        let folder = job.text(&format!("features-{format}"));
        let (named, format_key) = (format!("features={folder:?}"), format!("feature_format={format}"));
        let args = ["features", "-c", &config, &named, &format_key];
        features_are_planned(&args, format, Path::new(&folder));
        // Dies at every point of the work, and is resumed.
        let mut deaths = 0;
        for point in ["after-write", "before-rename", "before-folder-sync"] {
            for occurrence in 1.. {
                let at = format!("{point}:{occurrence}");
                let _ = std::fs::remove_dir_all(&folder);
                if start(&args, &[("GORGON_CRASH_AT", &at)]).wait_with_output().unwrap().status.success() {
                    break;
                }
                deaths += 1;
                finished(&args, &[]);
            }
        }
        assert!(deaths >= 6, "{deaths}");
        let states = Path::new(&folder).join("features-00000.safetensors");
        let bytes = std::fs::read(&states).unwrap();
        for kind in 0..3 {
            damage(&states, kind);
            let mended = said(&finished(&args, &[]));
            assert!(mended.contains("computed again") && mended.contains("features-00000.safetensors"), "{mended}");
            assert_eq!(std::fs::read(&states).unwrap(), bytes);
        }
        job.train(&[&named, &format_key]);
        let same = job.weights() == exact;
        assert_eq!(same, format == "f32", "{format}");
        eprintln!("crash-test: features in {format} died {deaths} times and were damaged 3 times: states lost 0");
    }
    let (folder, other) = (format!("features={:?}", job.text("features-int8")), "feature_format=bf16");
    let output = start(&["train", "-c", &config, &folder, other], &[]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("something else"), "{}", said(&output));
}
