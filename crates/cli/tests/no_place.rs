//! Where nothing can be written, no stage begins: a line that names the place, and nothing left behind. The exit code is
//! 1 for a full disk, 2 for a read-only one and for a file in the way.
#![cfg(unix)]

mod chain;

use chain::Job;
use std::path::Path;
use std::process::{Command, Stdio};

/// Mounts a file system of its own with a folder and a file of its own, copies heads to it, and fills it or makes it
/// read-only. Runs each line of the plan, and prints its exit code and what it said, a line for each; then what was
/// left.
const SCRIPT: &str = r#"
    set -eu
    gorgon="$1" disk="$2" heads="$3" plan="$4" how="$5"
    mount -t tmpfs -o size=4m tmpfs "$disk" || exit 77
    mkdir "$disk/folder"
    cp -r "$heads" "$disk/heads"
    if [ "$how" = full ]; then cat /dev/zero > "$disk/filling" 2> /dev/null || true; else mount -o remount,ro "$disk"; fi
    find "$disk" | sort > "$plan.before"
    while read -ra args; do
        code=0
        said="$("$gorgon" "${args[@]}" --threads 2 < /dev/null 2>&1 > /dev/null)" || code=$?
        echo "$code $(echo "$said" | tr '\n' ' ')"
    done < "$plan"
    find "$disk" | sort | cmp - "$plan.before"
"#;

/// Every stage that writes, with its place in `at`, and the heads to calibrate.
fn plan(job: &Job, at: &Path, heads: Option<&Path>) -> Vec<String> {
    let (at, run) = (at.display(), job.run().unwrap());
    let (distill, train, pretrain) = (job.text("distill.toml"), job.text("train.toml"), job.text("pretrain.toml"));
    let (run, file, prompts, model) =
        (run.display(), job.text("heads.pt"), job.text("prompts.jsonl"), chain::backbone().display());
    let mut plan = vec![
        format!("distill -c {distill} out={at}/data"),
        format!("distill -c {distill} out={at}/data --shard 1/2"),
        format!("features -c {train} features={at}/states"),
        format!("train -c {train} runs={at}/runs"),
        format!("train -c {train} features={at}/states cache_features=true runs={}", job.text("others")),
        format!("pretrain -c {pretrain} out={at}/model runs={}", job.text("others")),
        format!("pretrain -c {pretrain} out={} runs={at}/runs", job.text("other")),
        format!("compare -c {} runs={at}/runs", job.text("compare.toml")),
        format!("export {run} --to medusa-v2 {at}/heads-2"),
        format!("convert {file} {at}/heads-3"),
        format!("synth --dialogues 3 --out {at}/dialogues.jsonl"),
        format!("logits --model {model} --ids 1,2 --out {at}/logits.safetensors"),
    ];
    let calibrated =
        |heads: &Path| format!("tree calibrate --model {model} --heads {} --prompts {prompts}", heads.display());
    plan.extend(heads.map(calibrated));
    plan
}

/// Everything that the stages read.
fn job() -> Job {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    job.write("prompts.jsonl", &"{\"prompt\": \"What is 3 + 4?\"}\n".repeat(2));
    job.write(
        "compare.toml",
        &format!(
            "model = {:?}\ndata = {:?}\nprompts = {:?}\ncalibration_prompts = 1\nbench_prompts = 1\n[[methods]]\nname = \"a\"\n\
             drafter = \"ngram:2\"\n",
            chain::backbone(),
            job.path("data"),
            job.path("prompts.jsonl")
        ),
    );
    job.write(
        "pretrain.toml",
        "[data]\nsynthetic = 60\nheld_out = 2\n[tokenizer]\nsize = 300\nconversations = 30\n[model]\nhidden_size = 16\n\
         intermediate_size = 24\nlayers = 1\nheads = 2\nkv_heads = 1\nmax_positions = 512\n[training]\nsteps = 2\nmicro_batch_tokens = 256\n",
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../draft/tests/data/medusa_lm_head.pt");
    std::fs::copy(file, job.path("heads.pt")).unwrap();
    job
}

#[track_caller]
fn assert_refused(code: Option<i32>, want: i32, said: &str, place: &Path, stage: &str) {
    let place = place.display().to_string();
    let told = said.rsplit_once("error: ").is_some_and(|(_, line)| line.contains(&place));
    assert!(code == Some(want) && told && !said.contains("panicked"), "{stage}: {code:?} {said}");
}

#[test]
fn full_and_read_only_file_systems() {
    let job = job();
    let (disk, path) = (job.path("disk"), job.path("plan"));
    std::fs::create_dir(&disk).unwrap();
    let heads = job.run().unwrap().join("heads");
    let plan = plan(&job, &disk.join("folder"), Some(&disk.join("heads")));
    job.write("plan", &(plan.join("\n") + "\n"));
    for (how, want) in [("full", 1), ("read-only", 2)] {
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", SCRIPT, "no-place", env!("CARGO_BIN_EXE_gorgon")]);
        let output = command.args([&disk, &heads, &path]).arg(how).stdin(Stdio::null()).output();
        let output = match output {
            Ok(output) if !matches!(output.status.code(), Some(77)) => output,
            _ => return eprintln!("SKIPPED: no file system can be mounted here"),
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if said.is_empty() {
            return eprintln!("SKIPPED: no file system can be mounted here");
        }
        assert_eq!(said.lines().count(), plan.len(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        for (line, stage) in said.lines().zip(&plan) {
            let (code, said) = line.split_once(' ').unwrap();
            assert_refused(code.parse().ok(), want, said, &disk, &format!("{how}: {stage}"));
        }
        assert!(output.status.success(), "{how}: something was left behind");
    }
    assert!(!job.path("others").exists() && !job.path("other").exists());
}

#[test]
fn a_file_in_the_way() {
    let job = job();
    job.write("file", "precious");
    let place = job.path("file");
    for stage in plan(&job, &place, None) {
        let args: Vec<&str> = stage.split(' ').collect();
        let output = Command::new(env!("CARGO_BIN_EXE_gorgon")).args(args).stdin(Stdio::null()).output().unwrap();
        assert_refused(output.status.code(), 2, &String::from_utf8_lossy(&output.stderr), &place, &stage);
    }
    assert_eq!(std::fs::read_to_string(place).unwrap(), "precious");
    assert!(!job.path("others").exists() && !job.path("other").exists());
}
