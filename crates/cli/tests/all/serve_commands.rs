//! `gorgon serve`, and the commands that talk to a server, as programs.

use crate::gorgon;

use gorgon::gorgon;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server that runs until it is dropped.
struct Served {
    process: Child,
    lines: BufReader<std::process::ChildStderr>,
    url: String,
}

fn tiny() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny").to_str().unwrap().to_owned()
}

fn serve(more: &[&str]) -> Served {
    let mut process = Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(["serve", "--model", &tiny(), "--port", "0", "--drafter", "ngram:2"])
        .args(more)
        .env_remove("GORGON_API_KEY")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" is served at ") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the server ended");
    }
    let url = line.split_once(" is served at ").unwrap().1.split(' ').next().unwrap().to_owned();
    Served { process, lines, url }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn document(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_chat_and_a_measurement_talk_to_a_server_that_ends_well() {
    let mut server = serve(&[]);
    let question = "What is 12 plus 30?";
    let chat = document(&gorgon(&["chat", "--url", &server.url, "--prompt", question, "--json"]));
    let lone = document(&gorgon(&["chat", "--model", &tiny(), "--prompt", question, "--json"]));
    assert_eq!(chat["turns"][0]["text"], lone["turns"][0]["text"], "{chat}");
    assert_eq!(chat["model"], "tiny");
    let folder = tempfile::tempdir().unwrap();
    let (prompts, plot) = (folder.path().join("prompts.jsonl"), folder.path().join("serve.svg"));
    std::fs::write(&prompts, "{\"prompt\": \"Name a colour.\"}\n{\"prompt\": \"Say hello.\"}\n").unwrap();
    let measured = gorgon(&[
        "bench",
        "--url",
        &server.url,
        "--prompts",
        prompts.to_str().unwrap(),
        "--max-new-tokens",
        "12",
        "--concurrency",
        "1,3",
        "--plot",
        plot.to_str().unwrap(),
        "--json",
    ]);
    let rows = document(&measured)["rows"].as_array().unwrap().clone();
    assert_eq!(rows.iter().map(|row| row["clients"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 3]);
    assert!(rows.iter().all(|row| row["failed"] == 0 && row["tokens_per_second"].as_f64().unwrap() > 0.0), "{rows:?}");
    assert!(std::fs::read_to_string(&plot).unwrap().contains("<svg"));
    #[cfg(unix)]
    {
        let killed = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let ended = server.process.wait().unwrap();
        let mut rest = String::new();
        server.lines.read_to_string(&mut rest).unwrap();
        assert_eq!(ended.code(), Some(0), "{rest}");
    }
}

#[test]
fn a_server_with_a_key_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "a-secret\n").unwrap();
    let server = serve(&["--api-key-file", file.to_str().unwrap()]);
    let refused = gorgon(&["chat", "--url", &server.url, "--prompt", "hello"]);
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("401") && words.contains("GORGON_API_KEY"), "{words}");
}

#[test]
fn wrong_options_are_named() {
    let model = tiny();
    for (args, word) in [
        (vec!["serve", "--model", &model, "--cache-tokens", "10"], "--cache-tokens 10"),
        (vec!["serve", "--model", &model, "--api-key-file", "/nowhere/key"], "/nowhere/key"),
        (vec!["serve", "--model", &model, "--batch", "0"], "--batch"),
        (vec!["serve", "--model", &model, "--cors", "example.org"], "--cors example.org: not a web origin"),
        (vec!["chat"], "--model"),
        (vec!["bench", "--prompts", "x"], "--model"),
    ] {
        let output = gorgon(&args);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {words}");
        assert!(words.contains(word), "{args:?}: {words}");
    }
}
