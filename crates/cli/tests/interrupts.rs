//! Ctrl-C and SIGTERM before a job has begun: one line, exit code 1, nothing left behind.
#![cfg(unix)]

mod chain;

use chain::{Job, start};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A job that waits for a hub that says nothing, started from a shell after some other command.
fn loading(folder: &Path, before: &str, args: &[&str]) -> Child {
    let hub = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = Command::new("sh")
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_gorgon")])
        .args(args)
        .current_dir(folder)
        .env("HF_ENDPOINT", format!("http://{}", hub.local_addr().unwrap()))
        .env("HF_HOME", folder.join("hub"))
        .env_remove("HF_HUB_CACHE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The hub is asked after signals are set up, and then stays silent as long as the job waits.
    let (asked, _) = hub.accept().unwrap();
    std::mem::forget((asked, hub));
    child
}

fn stopped_while_loading(folder: &Path, signal: &str, args: &[&str]) -> Output {
    let child = loading(folder, "true", args);
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// A line of what Linux says of a process's signals.
#[cfg(target_os = "linux")]
fn signals(process: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    u64::from_str_radix(status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim(), 16).unwrap()
}

/// `nohup` has SIGHUP ignored, and it stays so; otherwise it stops a job like SIGTERM. Tests themselves may run under
/// `nohup`, and no shell can undo that.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_is_ignored_under_nohup() {
    let folder = tempfile::tempdir().unwrap();
    let generate = ["generate", "--model", "no/model", "--prompt", "Hi"];
    let inherited = signals(std::process::id(), "SigIgn:") & 1;
    for (before, ignored) in [("trap '' HUP", 1), ("true", inherited)] {
        let mut child = loading(folder.path(), before, &generate);
        assert_eq!(
            (signals(child.id(), "SigIgn:") & 1, signals(child.id(), "SigCgt:") & 1),
            (ignored, 1 - ignored),
            "{before}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if inherited == 0 {
        assert_eq!(stopped_while_loading(folder.path(), "-HUP", &generate).status.code(), Some(1));
    }
}

#[test]
fn a_job_that_is_planned_or_loaded_stops_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("train.toml", "method = \"medusa\"\nmodel = \"no/model\"\ndata = \"data\"\nruns = \"runs\"\n");
    write("distill.toml", "model = \"no/model\"\nout = \"data\"\n[synthetic]\ndialogues = 4\n");
    write("prompts.jsonl", "{\"prompt\": \"Hi\"}\n");
    write(
        "compare.toml",
        "model = \"no/model\"\ndata = \"data\"\nruns = \"runs\"\nprompts = \"prompts.jsonl\"\n\
         [[methods]]\nname = \"lookup\"\ndrafter = \"ngram:2\"\n",
    );
    let given = "--model no/model --drafter ngram:2 --prompts prompts.jsonl";
    for (signal, command) in [
        ("-INT", "train -c train.toml"),
        ("-TERM", "train -c train.toml --dry-run --json"),
        ("-INT", "distill -c distill.toml"),
        ("-INT", "compare -c compare.toml"),
        ("-TERM", &format!("bench {given}")),
        ("-INT", &format!("verify {given}")),
        ("-INT", "generate --model no/model --prompt Hi"),
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let output = stopped_while_loading(folder.path(), signal, &args);
        let (said, results) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        let line = if command.ends_with("--json") { results } else { said };
        assert!(line.contains("stopped by Ctrl-C or SIGTERM") && line.lines().count() == 1, "{command}: {line}");
        assert!(!folder.path().join("runs").exists() && !folder.path().join("data").exists(), "{command}");
    }
}

/// Reads what a job reports until a line contains `words`, and sends it a signal at once.
fn stopped_at(mut child: Child, words: &str, signal: &str) -> (Output, String) {
    let mut said = String::new();
    let mut reader = BufReader::new(child.stderr.take().unwrap());
    while !said.lines().last().is_some_and(|line| line.contains(words)) {
        assert!(reader.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    reader.read_to_string(&mut said).unwrap();
    (child.wait_with_output().unwrap(), said)
}

/// A training runs a few steps and an evaluation before it begins, to tell memory and time.
#[test]
fn a_training_that_tries_its_first_steps_stops_with_a_line() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    for (signal, more) in [("-INT", &[][..]), ("-TERM", &["--dry-run"])] {
        let args = [&["train", "-c", &config, "eval_decoded_tokens=300"][..], more].concat();
        let (output, said) = stopped_at(start(&args, &[]), "positions to read", signal);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.ends_with("stopped by Ctrl-C or SIGTERM; no file was left half-written\n"), "{said}");
        assert!(job.run().is_none(), "{said}");
    }
}
