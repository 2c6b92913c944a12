//! Full disks in every stage: the work stops with a line that says so, nothing that was committed is lost, and what
//! resumes ends with the same bits.
#![cfg(unix)]

mod chain;

use chain::stages::{compared, comparison, pretrained, pretraining, read};
use chain::{Job, backbone, finished};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the program with no file larger than so many kilobytes: writing beyond fails as on a full disk.
fn with_small_disk(kilobytes: u64, args: &[&str]) -> Output {
    let script = format!("ulimit -f {kilobytes}; trap '' XFSZ; exec \"$0\" \"$@\"");
    Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_gorgon")])
        .args(args)
        .env("GORGON_THREADS", "2")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A failure that is told: an exit code, a line, no panic.
fn is_told(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = output.status.code() == Some(1) && said.contains("error: ");
    assert!(told || output.status.success(), "{:?} {said}", output.status);
    assert!(!said.contains("panicked") && !said.contains("internal error"), "{said}");
    told
}

/// A file system of its own that is made larger step by step.
struct SmallDisk {
    job: Job,
    /// Stages: whether one may fail, a size (or how many kilobytes beyond what is used), and arguments.
    plan: String,
}

/// Mounts the file system, copies the first files to it, follows the plan, and keeps everything. Fails for any exit code
/// but 0 and 1, and for 1 where a step may not fail. Prints how many steps failed.
const SCRIPT: &str = r#"
    set -eu
    gorgon="$1" disk="$2" kept="$3" seed="$4" plan="$5"
    mount -t tmpfs -o size=64m tmpfs "$disk" || exit 77
    cp -a "$seed/." "$disk"
    failed=0
    while read -r may size line; do
        case "$size" in +*) size="$(($(du -sk "$disk" | cut -f1) + ${size#+}))k" ;; esac
        mount -o "remount,size=$size" "$disk"
        run="$(ls -d "$disk"/runs/* 2> /dev/null | tail -1 || true)"
        read -ra args <<< "${line//@resume/${run:+--resume $run}}"
        code=0
        "$gorgon" "${args[@]}" --threads 2 < /dev/null 2>> "$kept/said" > /dev/null || code=$?
        if [ "$code" != 0 ]; then
            [ "$may $code" = "may 1" ] || { echo "exit code $code: $line" >&2; cat "$kept/said" >&2; exit 1; }
            failed=$((failed + 1))
        fi
    done < "$plan"
    cp -a "$disk/." "$kept"
    echo $failed
"#;

impl SmallDisk {
    fn new() -> Self {
        let job = Job::new();
        for name in ["disk", "kept", "seed"] {
            std::fs::create_dir(job.path(name)).unwrap();
        }
        Self { job, plan: String::new() }
    }

    /// Where it will be.
    fn path(&self) -> PathBuf {
        self.job.path("disk")
    }

    /// Copies a file to where it begins with.
    fn seed(&self, from: &Path, name: &str) {
        let to = self.job.path("seed").join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }

    /// Tries with each of these sizes, and then with enough.
    fn try_with(&mut self, sizes: &[&str], args: &str) {
        for size in sizes {
            self.plan.push_str(&format!("may {size} {args}\n"));
        }
        self.plan.push_str(&format!("must 64m {args}\n"));
    }

    /// Does it all. Returns how many tries failed, and the folder with what there is in the end; `None` where no file
    /// system can be mounted.
    fn run(&self) -> Option<(usize, PathBuf)> {
        if !Command::new("unshare").args(["-rm", "true"]).status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: no file system can be mounted here");
            return None;
        }
        self.job.write("plan", &self.plan);
        let kept = self.job.path("kept");
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", SCRIPT, "full", env!("CARGO_BIN_EXE_gorgon")]);
        command.args([&self.path(), &kept, &self.job.path("seed"), &self.job.path("plan")]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() == Some(77) {
            eprintln!("SKIPPED: no file system can be mounted here: {said}");
            return None;
        }
        assert!(output.status.success(), "{said}");
        let told = std::fs::read_to_string(kept.join("said")).unwrap();
        assert!(told.contains("No space left on device"), "{told}");
        assert!(!told.contains("internal error") && !told.contains("panicked"), "{told}");
        let failed = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        Some((failed, kept))
    }
}

fn report(stage: &str, failed: usize, at_least: usize) {
    eprintln!("crash-test: {stage}: {failed} runs met a full file system; rows, checkpoints and results lost 0");
    assert!(failed >= at_least, "{stage}: {failed}");
}

#[test]
fn distillation_and_training_outlive_a_full_file_system() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    let mut small = SmallDisk::new();
    let (disk, distill, train) = (small.path(), whole.text("distill.toml"), whole.text("train.toml"));
    let disk = disk.display();
    small.try_with(&["4k", "12k", "20k", "28k", "36k", "44k", "60k"], &format!("distill -c {distill} out={disk}/data"));
    small.try_with(
        &["+4", "+12", "+28", "+44", "+60", "+76"],
        &format!("train -c {train} data={disk}/data runs={disk}/runs @resume"),
    );
    let Some((failed, kept)) = small.run() else { return };
    let weights = "runs/medusa-model-1/step-000012/model.safetensors";
    assert_eq!(read(&kept.join("data/shard-00000.parquet")), read(&whole.path("data/shard-00000.parquet")));
    assert_eq!(read(&kept.join(weights)), read(&whole.path(weights)));
    report("distillation and training", failed, 5);
}

#[test]
fn pretraining_outlives_a_full_file_system() {
    let whole = pretraining();
    finished(&["pretrain", "-c", &whole.text("pretrain.toml")], &[]);
    let mut small = SmallDisk::new();
    let (disk, config) = (small.path(), whole.text("pretrain.toml"));
    let disk = disk.display();
    let args = format!("pretrain -c {config} out={disk}/model runs={disk}/runs @resume");
    small.try_with(&["4k", "24k", "+12", "+40", "+80", "+120"], &args);
    let Some((failed, kept)) = small.run() else { return };
    assert_eq!(pretrained(&kept), pretrained(whole.dir.path()));
    report("pretraining", failed, 3);
}

#[test]
fn hidden_states_and_calibration_outlive_a_full_file_system() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    let (train, prompts) = (whole.text("train.toml"), "{\"prompt\": \"What is 3 + 4?\"}\n".repeat(4));
    whole.write("prompts.jsonl", &prompts);
    finished(&["features", "-c", &train, "feature_format=int8", &format!("features={}", whole.text("states"))], &[]);
    let mut small = SmallDisk::new();
    let disk = small.path();
    let disk = disk.display();
    let heads = whole.run().unwrap().join("heads");
    for name in ["model.safetensors", "config.json"] {
        small.seed(&heads.join(name), &format!("heads/{name}"));
    }
    small.seed(&whole.path("prompts.jsonl"), "prompts.jsonl");
    small.try_with(
        &["+0", "+4", "+12", "+24"],
        &format!("features -c {train} feature_format=int8 features={disk}/states"),
    );
    let model = backbone().display();
    let calibrate = format!(
        "tree calibrate --model {model} --heads {disk}/heads --prompts {disk}/prompts.jsonl --max-new-tokens 8"
    );
    small.try_with(&["+0", "+4"], &calibrate);
    let Some((failed, kept)) = small.run() else { return };
    let states = "states/features-00000.safetensors";
    assert_eq!(read(&kept.join(states)), read(&whole.path(states)));
    assert_eq!(read(&kept.join("heads/model.safetensors")), read(&heads.join("model.safetensors")));
    finished(&["tree", "show", "--heads", kept.join("heads").to_str().unwrap()], &[]);
    report("hidden states and calibration", failed, 3);
}

#[test]
fn export_outlives_a_full_file_system() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    let run = whole.run().unwrap();
    let export = |out: &Path| format!("export {} --to medusa-v1 {}", run.display(), out.display());
    let args = export(&whole.path("exported"));
    finished(&args.split(' ').collect::<Vec<_>>(), &[]);
    let mut small = SmallDisk::new();
    small.try_with(&["4k", "12k", "+4", "+8"], &export(&small.path().join("exported")));
    let Some((failed, kept)) = small.run() else { return };
    for entry in whole.path("exported").read_dir().unwrap() {
        let name = entry.unwrap().file_name();
        assert_eq!(read(&kept.join("exported").join(&name)), read(&whole.path("exported").join(&name)), "{name:?}");
    }
    report("export", failed, 2);
}

#[test]
fn comparison_outlives_a_full_file_system() {
    let whole = Job::new();
    whole.distill(&[]);
    comparison(&whole);
    let config = whole.text("compare.toml");
    finished(&["compare", "-c", &config], &[]);
    let mut small = SmallDisk::new();
    let args = format!("compare -c {config} runs={}/runs @resume", small.path().display());
    small.try_with(&["4k", "20k", "+12", "+40", "+80", "+120"], &args);
    let Some((failed, kept)) = small.run() else { return };
    assert_eq!(compared(&kept), compared(whole.dir.path()));
    report("comparison", failed, 3);
}

#[test]
fn a_full_disk_stops_the_work_and_costs_nothing() {
    let whole = Job::new();
    whole.distill(&[]);
    whole.train(&[]);
    let (mut failures, mut sizes) = (0, vec![0u64, 1, 2, 4, 8, 16, 32, 64]);
    if std::env::var("GORGON_TEST_KILLS").is_err() {
        sizes = vec![1, 8, 32];
    }
    let job = Job::new();
    let config = job.text("distill.toml");
    for &kilobytes in &sizes {
        failures += u32::from(is_told(&with_small_disk(kilobytes, &["distill", "-c", &config])));
    }
    job.distill(&[]);
    assert_eq!(job.shards(), whole.shards());
    for &kilobytes in &sizes {
        let config = job.text("train.toml");
        let mut args = vec!["train".to_owned(), "-c".into(), config];
        if let Some(run) = job.run() {
            args.extend(["--resume".into(), run.to_str().unwrap().into()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        failures += u32::from(is_told(&with_small_disk(kilobytes, &args)));
    }
    let (config, run) = (job.text("train.toml"), job.run().unwrap());
    finished(&["train", "-c", &config, "--resume", run.to_str().unwrap()], &[]);
    assert_eq!(job.weights(), whole.weights());
    eprintln!("crash-test: {failures} runs met a full disk; rows lost 0, checkpoints lost 0");
    assert!(failures >= 3, "{failures}");
}
