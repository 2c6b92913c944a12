//! Run folders: names, checkpoints, hashes, what is kept.

use gorgon_runs::RunError;
use gorgon_runs::run_dir::{RunDir, RunView, STATE_FILE, latest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State {
    seed: u64,
    loss: f64,
}

fn state() -> State {
    // An integer beyond what a float holds, and a number that serde_json reads one bit off without `float_roundtrip`.
    State { seed: u64::MAX - 1, loss: 0.198_440_042_788_562_86 }
}

fn run_with_steps(parent: &std::path::Path, steps: &[u64]) -> RunDir {
    let run = RunDir::create(parent, "medusa-tiny").unwrap();
    for &step in steps {
        let written = run.write_step(step, |dir| {
            fs::write(dir.join("model.safetensors"), format!("weights of step {step}"))?;
            Ok(state())
        });
        written.unwrap();
    }
    run
}

#[test]
fn runs_are_numbered() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("checkpoints");
    assert_eq!(latest(&parent, "medusa-tiny").unwrap(), None);
    let name = |run: &RunDir| run.path().file_name().unwrap().to_str().unwrap().to_string();
    assert_eq!(name(&RunDir::create(&parent, "medusa-tiny").unwrap()), "medusa-tiny-1");
    for other in ["medusa-tiny-9", "medusa-tiny-07", "medusa-tiny-x", "medusa-tiny-+30", "medusa-tiny-2-40"] {
        fs::create_dir(parent.join(other)).unwrap();
    }
    fs::write(parent.join("medusa-tiny-11"), "a file").unwrap();
    assert_eq!(name(&RunDir::create(&parent, "medusa-tiny").unwrap()), "medusa-tiny-10");
    // The file is no run, but its name is taken.
    assert_eq!(name(&RunDir::create(&parent, "medusa-tiny").unwrap()), "medusa-tiny-12");
    assert_eq!(latest(&parent, "medusa-tiny").unwrap(), Some(parent.join("medusa-tiny-12")));
    assert_eq!(name(&RunDir::create(&parent, "medusa").unwrap()), "medusa-1");
    for wrong in ["", "..", ".x", "-x", "a/b", "a b", "a\0b", "a\nb"] {
        assert!(matches!(RunDir::create(&parent, wrong), Err(RunError::Stem { .. })), "{wrong:?}");
    }
}

#[test]
fn creators_at_once_get_different_folders() {
    let dir = tempfile::tempdir().unwrap();
    let start = Barrier::new(16);
    let create = || {
        start.wait();
        (0..8).map(|_| RunDir::create(dir.path(), "eagle").unwrap()).collect::<Vec<_>>()
    };
    let runs: Vec<RunDir> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(create)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let paths: BTreeSet<_> = runs.iter().map(|run| run.path()).collect();
    assert_eq!(paths.len(), 128);
    assert_eq!(latest(dir.path(), "eagle").unwrap(), Some(dir.path().join("eagle-128")));
}

#[test]
fn checkpoints_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[200, 7, 1_000_000]);
    assert_eq!(run.steps().unwrap(), [7, 200, 1_000_000]);
    let step = run.open_step(200).unwrap();
    assert_eq!(step.path, run.path().join("step-000200"));
    assert_eq!(step.state::<State>().unwrap(), state());
    assert!(step.state::<Vec<u8>>().unwrap_err().to_string().contains(STATE_FILE));
    assert!(matches!(run.open_step(8), Err(RunError::Missing { .. })));
    assert!(matches!(run.write_step(7, |_| Ok(())), Err(RunError::Exists { .. })));
    assert_eq!(run.open_step(7).unwrap().state::<State>().unwrap(), state());
    let same_permissions = |a: &str, b: &str| {
        let of = |name: &str| run.path().join(name).metadata().unwrap().permissions();
        assert_eq!(of(a), of(b));
    };
    fs::create_dir(run.path().join("plain")).unwrap();
    same_permissions("step-000200", "plain");
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[]);
    let failed = run.write_step(3, |dir| {
        fs::write(dir.join("half"), "half")?;
        Err::<(), _>("the disk is full".into())
    });
    let message = failed.unwrap_err().to_string();
    assert!(message.contains("step-000003") && message.contains("the disk is full"), "{message}");
    let reserved = run.write_step(3, |dir| Ok(fs::write(dir.join(STATE_FILE), "mine")?));
    assert!(reserved.unwrap_err().to_string().contains(STATE_FILE));
    assert_eq!(fs::read_dir(run.path()).unwrap().count(), 1, "the lock alone");
}

#[test]
fn a_changed_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[1, 2, 3, 4]);
    fs::write(run.step(1).join("model.safetensors"), "weights of step 2").unwrap();
    let message = run.open_step(1).unwrap_err().to_string();
    assert!(message.contains("step-000001") && message.contains("model.safetensors"), "{message}");
    // Missing files show in the list already.
    fs::remove_file(run.step(2).join("model.safetensors")).unwrap();
    fs::write(run.step(3).join(STATE_FILE), "{\"step\": 3").unwrap();
    fs::create_dir(run.step(5)).unwrap();
    fs::rename(run.step(4), run.step(6)).unwrap();
    assert_eq!(run.steps().unwrap(), [1]);
    for (step, named) in [(2, "model.safetensors"), (3, STATE_FILE), (5, STATE_FILE), (6, STATE_FILE)] {
        assert!(run.open_step(step).unwrap_err().to_string().contains(named));
    }
    // And they are not in the way of new ones.
    run.write_step(2, |_| Ok(1.5)).unwrap();
    run.write_step(5, |_| Ok("text")).unwrap();
    assert_eq!(run.steps().unwrap(), [1, 2, 5]);
}

#[test]
fn a_manifest_cannot_name_files_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[1]);
    fs::write(run.path().join("outside"), "").unwrap();
    for name in ["../outside", "/etc/passwd", "", "./../outside"] {
        let state = serde_json::json!({"step": 1, "state": null, "manifest": {name: "00"}});
        fs::write(run.step(1).join(STATE_FILE), state.to_string()).unwrap();
        assert!(run.open_step(1).is_err(), "{name}");
        assert!(run.steps().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn old_checkpoints_go_and_the_best_stays() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[10, 20, 30, 40, 50]);
    assert_eq!(run.best().unwrap(), None);
    run.set_best(20).unwrap();
    assert_eq!(fs::read_to_string(run.path().join("best")).unwrap(), "step-000020\n");
    assert!(matches!(run.set_best(25), Err(RunError::Missing { .. })));
    assert!(run.keep_steps(9).unwrap().is_empty());
    assert_eq!(run.keep_steps(2).unwrap(), [10, 30]);
    assert_eq!(run.steps().unwrap(), [20, 40, 50]);
    assert_eq!(run.keep_steps(0).unwrap(), [40, 50]);
    assert_eq!((run.steps().unwrap(), run.best().unwrap()), (vec![20], Some(20)));
    for wrong in ["step-20", "../elsewhere", "step-000030", ""] {
        fs::write(run.path().join("best"), wrong).unwrap();
        assert!(run.best().unwrap_err().to_string().contains("best"), "{wrong}");
        assert!(run.keep_steps(0).is_err());
    }
    assert!(run.remove_steps_after(20).unwrap().is_empty());
    assert_eq!((run.steps().unwrap(), run.best().unwrap()), (vec![20], None));
}

#[test]
fn leftovers_go_when_a_run_is_opened_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with_steps(dir.path(), &[1]);
    let path = run.path().to_path_buf();
    drop(run);
    fs::create_dir_all(path.join(".gorgon-abc.tmp/deeper")).unwrap();
    fs::write(path.join(".gorgon-abc.tmp/deeper/file"), "").unwrap();
    fs::create_dir(path.join("plots")).unwrap();
    for name in [".gorgon-1.tmp", "plots/.gorgon-2.tmp", "plots/loss.svg", ".gorgon-notes", "other.tmp", "log.txt"] {
        fs::write(path.join(name), "").unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(path.join("step-000001"), path.join(".gorgon-link.tmp")).unwrap();
    RunView::open(&path).unwrap();
    assert!(path.join(".gorgon-1.tmp").exists(), "a reader removes nothing");
    let run = RunDir::open(&path).unwrap();
    let left = |folder: &str| {
        let names = fs::read_dir(path.join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let expected = [".gorgon-notes", "lock", "log.txt", "other.tmp", "plots", "step-000001"];
    assert_eq!(left(""), expected.map(String::from).into());
    assert_eq!(left("plots"), ["loss.svg".to_string()].into());
    run.open_step(1).unwrap();
    assert!(RunDir::open(&path.join("none")).unwrap_err().to_string().contains("none"));
    assert!(RunDir::open(&path.join("log.txt")).unwrap_err().to_string().contains("no folder"));
}

/// The newest checkpoint that is as it was written is the one to go on from; damaged ones are named and kept aside.
#[test]
fn damaged_checkpoints_are_set_aside() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 6] = [
        ("model.safetensors", |step| fs::write(step.join("model.safetensors"), "weights of step 8").unwrap()),
        ("model.safetensors", |step| fs::write(step.join("model.safetensors"), "").unwrap()),
        ("model.safetensors", |step| fs::remove_file(step.join("model.safetensors")).unwrap()),
        (STATE_FILE, |step| fs::write(step.join(STATE_FILE), "{").unwrap()),
        (STATE_FILE, |step| fs::remove_file(step.join(STATE_FILE)).unwrap()),
        (STATE_FILE, |step| {
            let text = fs::read_to_string(step.join(STATE_FILE)).unwrap();
            let altered = text.replace("0.198", "0.199");
            assert_ne!(text, altered);
            fs::write(step.join(STATE_FILE), altered).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let dir = tempfile::tempdir().unwrap();
        let run = run_with_steps(dir.path(), &[3, 6, 9]);
        assert!(run.set_aside_damaged().unwrap().is_empty());
        run.set_best(9).unwrap();
        damage(&run.step(9));
        let said = run.set_aside_damaged().unwrap();
        assert_eq!(said.len(), 1);
        assert!(said[0].to_string().contains("step-000009") && said[0].to_string().contains(name), "{}", said[0]);
        assert_eq!((run.steps().unwrap(), run.best().unwrap()), (vec![3, 6], None));
        assert!(run.path().join("damaged-step-000009").is_dir());
        // The step can be written again, and be damaged again.
        run.write_step(9, |dir| Ok(fs::write(dir.join("model.safetensors"), "anew").map(|()| state())?)).unwrap();
        fs::write(run.step(9).join("model.safetensors"), "old").unwrap();
        assert_eq!(run.set_aside_damaged().unwrap().len(), 1);
        assert!(run.path().join("damaged-step-000009-2").is_dir());
        // An older best one is looked at too.
        run.set_best(3).unwrap();
        fs::write(run.step(3).join("model.safetensors"), "flipped").unwrap();
        assert_eq!(run.set_aside_damaged().unwrap().len(), 1);
        assert_eq!((run.steps().unwrap(), run.best().unwrap()), (vec![6], None));
        // The last one is not given up silently.
        fs::write(run.step(6).join("model.safetensors"), "flipped").unwrap();
        assert!(run.set_aside_damaged().unwrap_err().to_string().contains("step-000006"));
        assert!(run.step(6).is_dir());
    }
}
