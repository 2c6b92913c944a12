//! Exports that are uploaded, to a hub on the loopback interface.
#![cfg(feature = "push")]

mod chain;
mod gorgon;

use chain::{Job, backbone};
use gorgon::{json, refused, stderr};
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};

/// A hub that answers one kind of request with a status, and all others well. Returns its address and what it is sent.
fn hub(refused: &'static str, status: u16) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let mut reader = BufReader::new(&stream);
            let lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
            let head: Vec<String> = lines.map(|line| line.to_lowercase()).collect();
            let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let status = if head[0].contains(refused) { status } else { 200 };
            let answer = if head[0].contains("preupload") { r#"{"files": []}"# } else { "{}" };
            let length = answer.len();
            sender.send((head[0].clone(), String::from_utf8(body).unwrap())).unwrap();
            let head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            (&stream).write_all((head + answer).as_bytes()).unwrap();
        }
    });
    (address, received)
}

/// A folder with one Medusa head.
fn heads(job: &Job) -> String {
    let folder = job.path("heads");
    std::fs::create_dir(&folder).unwrap();
    let tensor = |name: &str, shape: Vec<usize>| {
        let values = vec![0.5; shape.iter().product()];
        let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
        Source { name: name.into(), dtype: Dtype::F32, shape, fill }
    };
    let all = [tensor("0.0.linear.weight", vec![32, 32]), tensor("0.0.linear.bias", vec![32])];
    tensors::write(&folder.join("model.safetensors"), &all).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn export(from: &str, out: &str, endpoint: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(["export", from, "--to", "medusa-v2", out, "--model", backbone().to_str().unwrap(), "--json"])
        .args(["--push", "owner/name"])
        .env("HF_ENDPOINT", endpoint)
        .env("HF_TOKEN", "secret")
        .env_remove("HF_HUB_OFFLINE")
        .output()
        .unwrap()
}

#[test]
fn weights_config_and_card_are_uploaded() {
    let job = Job::new();
    let (endpoint, received) = hub("nothing", 200);
    let output = export(&heads(&job), &job.text("out"), &endpoint);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["address"], format!("{endpoint}/owner/name"));
    let commit = received.try_iter().find(|(head, _)| head.starts_with("post /api/models/owner/name/commit/main"));
    let (_, body) = commit.unwrap();
    let entries: Vec<serde_json::Value> = body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut files: Vec<_> = entries[1..].iter().map(|entry| entry["value"]["path"].as_str().unwrap()).collect();
    files.sort_unstable();
    let mut written: Vec<String> =
        job.path("out").read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    written.sort_unstable();
    assert_eq!(files, written);
    assert!(files.contains(&"README.md") && files.contains(&"config.json"), "{files:?}");
}

#[test]
fn a_hub_that_refuses_is_told_apart_from_one_that_fails() {
    let job = Job::new();
    let from = heads(&job);
    for (part, status, code, words) in [
        ("api/models/owner/name http", 401, 2, "HF_TOKEN"),
        ("commit", 403, 2, "write access"),
        ("commit", 404, 1, "404"),
    ] {
        let out = job.text(&format!("out-{status}"));
        let (endpoint, _received) = hub(part, status);
        let output = export(&from, &out, &endpoint);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        let document = json(&output);
        let message = document["error"].as_str().unwrap();
        assert!(message.contains(words) && !message.contains('\n'), "{message}");
        assert!(document["hint"].as_str().unwrap().contains(&out), "{document}");
        assert!(job.path(&format!("out-{status}")).join("README.md").is_file(), "the export stays");
    }
}

#[test]
fn an_upload_that_cannot_be_is_refused_before_the_export() {
    let job = Job::new();
    let (from, out, model) = (heads(&job), job.text("out"), backbone().to_str().unwrap());
    let export = ["export", &from, "--to", "medusa-v2", &out, "--model", model];
    let refused = |more: &[&str], words: &[&str]| refused(&[&export[..], more].concat(), words);
    refused(&["--push", "owner/name"], &["owner/name", "HF_TOKEN"]);
    refused(&["--push", "owner/name", "--offline"], &["owner/name", "--offline"]);
    refused(&["--push", "name"], &["--push name", "OWNER/NAME"]);
    refused(&["--private"], &["--push"]);
    assert!(!job.path("out").exists());
}
