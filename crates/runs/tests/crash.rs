//! A process that is killed at any moment leaves a run folder that is whole, and can go on from.
#![cfg(unix)]

use gorgon_runs::crash::Point;
use gorgon_runs::metrics::{self, Metrics};
use gorgon_runs::provenance::{Build, Host, Launch, Provenance, Resumed, append_resumed};
use gorgon_runs::run_dir::{RunDir, RunView};
use gorgon_runs::{RunError, atomic};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Tells this test binary, started again, in which folder to work, and what to do there.
const FOLDER: &str = "GORGON_TEST_FOLDER";
const JOB: &str = "GORGON_TEST_JOB";
/// How many steps the little training takes, and how many checkpoints it keeps.
const LAST: u64 = 5;
const KEPT: usize = 2;

/// The work of the child process; nothing in the ordinary run of the tests.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    match std::env::var(JOB).unwrap().as_str() {
        "train" => train(&folder),
        "replace" => atomic::write(&folder.join("file"), |file| file.write_all(&new_content())).unwrap(),
        "go back" => go_back(&folder),
        "lock" => assert!(matches!(RunDir::open(&folder), Err(RunError::Locked { .. }))),
        job => panic!("{job}"),
    }
}

/// A folder in memory where there is one: a killed process loses nothing that it gave to the system, so that waiting
/// for a disk, some thousand times, would show no more.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn run_child(folder: &Path, job: &str, crash_at: Option<(Point, u64)>) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(FOLDER, folder).env(JOB, job).env_remove("GORGON_CRASH_AT");
    if let Some((point, occurrence)) = crash_at {
        command.env("GORGON_CRASH_AT", format!("{}:{occurrence}", point.name()));
    }
    command.output().unwrap().status
}

/// Kills the job at each point, as often as it gets there, and looks at what is left. Returns how often that was.
fn kill_everywhere(job: &str, prepare: impl Fn(&Path), check: impl Fn(&Path)) -> u64 {
    let mut kills = 0;
    for point in Point::ALL {
        for occurrence in 1.. {
            let dir = scratch();
            prepare(dir.path());
            let status = run_child(dir.path(), job, Some((point, occurrence)));
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(9), "{job}: {point:?}, occurrence {occurrence}");
            check(dir.path());
            kills += 1;
        }
    }
    kills
}

fn launch() -> Launch {
    let host = Host { device: "cpu".into(), cpu_threads: 1, formats: None };
    let build = Build { version: "0.1.0".into(), commit: "unknown".into(), features: vec![] };
    Launch::new(&build, ["gorgon", "train"], jiff::Timestamp::UNIX_EPOCH, host)
}

fn weights(step: u64) -> Vec<u8> {
    (0..10_000).map(|i| (i * step % 251) as u8).collect()
}

/// A training that resumes from the last checkpoint and writes one in every step.
fn train(folder: &Path) {
    let run = RunDir::open(folder).unwrap();
    let from = run.steps().unwrap().last().copied().unwrap_or(0);
    if run.provenance().exists() {
        append_resumed(
            &run.provenance(),
            &Resumed { step: from, changes: vec![], config_sha256: None, launch: launch() },
        )
        .unwrap();
    } else {
        Provenance::new(launch()).write(&run.provenance()).unwrap();
    }
    let mut metrics = Metrics::append(&run.metrics()).unwrap();
    metrics.truncate_after(from).unwrap();
    tidy(&run, from);
    for step in from + 1..=LAST {
        metrics.record(&json!({"step": step, "loss": 1.0 / step as f64})).unwrap();
        metrics.sync().unwrap();
        let written = run.write_step(step, |dir| {
            fs::write(dir.join("model.safetensors"), weights(step))?;
            fs::create_dir(dir.join("optimizer"))?;
            fs::write(dir.join("optimizer/moments.bin"), weights(step + 100))?;
            Ok(json!({"seed": step * 7}))
        });
        written.unwrap();
        tidy(&run, step);
    }
}

/// The writes after a checkpoint, which are repeated if the process was killed before it.
fn tidy(run: &RunDir, step: u64) {
    if step % 2 == 1 {
        run.set_best(step).unwrap();
    }
    run.keep_steps(KEPT).unwrap();
}

/// Every checkpoint that is listed is whole and says what its step should say.
fn check_steps(run: &RunView) -> Vec<u64> {
    let steps = run.steps().unwrap();
    for &step in &steps {
        let opened = run.open_step(step).unwrap();
        assert_eq!(opened.state, json!({"seed": step * 7}));
        assert_eq!(fs::read(opened.path.join("model.safetensors")).unwrap(), weights(step));
        assert_eq!(fs::read(opened.path.join("optimizer/moments.bin")).unwrap(), weights(step + 100));
    }
    steps
}

fn check_finished(folder: &Path) {
    let run = RunView::open(folder).unwrap();
    assert_eq!(check_steps(&run), [LAST - 1, LAST]);
    assert_eq!(run.best().unwrap(), Some(LAST));
    let records = metrics::read(&run.metrics()).unwrap();
    let steps: Vec<u64> = records.iter().map(|record| record["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=LAST).collect::<Vec<_>>());
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected = ["best", "lock", "metrics.jsonl", "provenance.json", "step-000004", "step-000005"];
    assert_eq!(names.collect::<BTreeSet<_>>(), expected.map(String::from).into());
}

#[test]
fn a_killed_training_goes_on_to_the_same_end() {
    let kills = kill_everywhere(
        "train",
        |_| {},
        |folder| {
            let run = RunView::open(folder).unwrap();
            let steps = check_steps(&run);
            // The best one is never the one that is lost, and the last one is never further back than one step.
            let best = run.best().unwrap();
            let reached = if run.metrics().exists() { metrics::read(&run.metrics()).unwrap().len() as u64 } else { 0 };
            assert!(steps.last().copied().unwrap_or(0) + 1 >= reached, "{steps:?}, {reached} steps were taken");
            assert!(best.is_none_or(|best| steps.contains(&best)));
            assert!(run_child(folder, "train", None).success());
            check_finished(folder);
        },
    );
    // Points of one step: its state, its folder; in some the best one's name, and an old one that goes.
    assert!(kills > 3 * LAST, "{kills}");
}

#[test]
fn a_training_can_be_killed_again_and_again() {
    for point in Point::ALL {
        let dir = scratch();
        let mut kills = 0;
        // Each process gets at least one step further: up to its first checkpoint, it passes a point six times at most.
        while !run_child(dir.path(), "train", Some((point, 7))).success() {
            kills += 1;
            assert!(kills < 20, "{point:?}: no progress");
        }
        assert!(kills > 1);
        check_finished(dir.path());
    }
}

fn old_content() -> Vec<u8> {
    vec![b'o'; 1000]
}

fn new_content() -> Vec<u8> {
    vec![b'n'; 1_000_000]
}

#[test]
fn a_killed_write_leaves_the_old_file_or_the_new_one() {
    let prepare = |folder: &Path| fs::write(folder.join("file"), old_content()).unwrap();
    let kills = kill_everywhere("replace", prepare, |folder| {
        let content = fs::read(folder.join("file")).unwrap();
        assert!(content == old_content() || content == new_content());
        assert!(run_child(folder, "replace", None).success());
        assert_eq!(fs::read(folder.join("file")).unwrap(), new_content());
    });
    assert_eq!(kills, 3);
}

/// Resumes from an earlier checkpoint than the last one.
fn go_back(folder: &Path) {
    let run = RunDir::open(folder).unwrap();
    run.remove_steps_after(2).unwrap();
    Metrics::append(&run.metrics()).unwrap().truncate_after(2).unwrap();
}

#[test]
fn a_killed_way_back_can_be_walked_again() {
    let prepare = |folder: &Path| {
        let run = RunDir::open(folder).unwrap();
        let mut metrics = Metrics::append(&run.metrics()).unwrap();
        for step in 1..=4 {
            metrics.record(&json!({"step": step})).unwrap();
            run.write_step(step, |_| Ok(step)).unwrap();
        }
        run.set_best(3).unwrap();
    };
    let kills = kill_everywhere("go back", prepare, |folder| {
        let run = RunView::open(folder).unwrap();
        let steps = run.steps().unwrap();
        assert!(steps.starts_with(&[1, 2]) && steps.is_sorted());
        assert!(run.best().unwrap().is_none_or(|best| steps.contains(&best)));
        assert!(run_child(folder, "go back", None).success());
        assert_eq!((run.steps().unwrap(), run.best().unwrap()), (vec![1, 2], None));
        assert_eq!(metrics::read(&run.metrics()).unwrap().len(), 2);
    });
    assert_eq!(kills, 7);
}

#[test]
fn another_process_cannot_have_the_same_run() {
    let dir = scratch();
    let run = RunDir::create(dir.path(), "medusa-tiny").unwrap();
    assert!(run_child(run.path(), "lock", None).success());
    // Nor can this one, twice.
    assert!(matches!(RunDir::open(run.path()), Err(RunError::Locked { .. })));
    // Reading continues.
    assert!(RunView::open(run.path()).unwrap().steps().unwrap().is_empty());
    let path = run.path().to_path_buf();
    drop(run);
    assert!(run_child(&path, "train", None).success());
    RunDir::open(&path).unwrap();
}
