//! `-v` and `GORGON_LOG`.

use crate::gorgon;
use crate::hub_server;

use gorgon::{Model, SHAPE, gorgon, stderr};
use gorgon_model::device::FloatFormat;
use hub_server::Server;
use std::process::Command;

#[test]
fn verbose_runs_log_their_work() {
    let model = Model::new();
    let args =
        ["generate", "--model", model.name(), "--ids", "1,2", "--max-new-tokens", "2", "--drafter", "ngram:2", "-v"];
    let said = stderr(&gorgon(&args));
    for line in [
        "DEBUG gorgon_workflows::load: model loaded",
        "DEBUG gorgon_model::weights: weights opened",
        "DEBUG gorgon_workflows::drafting: drafter chosen drafter=ngram:2",
        "why=\"default of the drafter\"",
    ] {
        assert!(said.contains(line), "no {line:?} in: {said}");
    }
    assert!(!stderr(&gorgon(&args[..9])).contains("DEBUG"));
}

/// The filter is the one that the reference page of environment variables shows.
#[test]
fn downloads_are_logged_by_file_and_bytes() {
    let folder = tempfile::tempdir().unwrap();
    SHAPE.write(folder.path(), FloatFormat::F32, 7).unwrap();
    let file = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (config, weights) = (file("config.json"), file("model.safetensors"));
    let server = Server::start(&[("config.json", &config), ("model.safetensors", &weights)]);
    server.behaviour().cuts = vec![config.len(), weights.len() / 2];
    let home = folder.path().join("home");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gorgon"));
        command.args(args).env("HF_HOME", &home).env("HF_ENDPOINT", &server.endpoint);
        let command = command.env_remove("HF_HUB_CACHE").env("GORGON_LOG", "gorgon_model=trace,gorgon_hub=debug");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let said = run(&["fetch", "owner/name"]);
    for words in
        ["gorgon_hub::download: downloading", "file=\"model.safetensors\"", "trying again", "downloaded and verified"]
    {
        assert!(said.contains(words), "no {words:?} in: {said}");
    }
    assert!(said.contains(&format!("bytes={}", weights.len())), "{said}");
    let said = run(&["generate", "--model", "owner/name", "--ids", "1,2", "--max-new-tokens", "2"]);
    assert!(said.contains("gorgon_model::weights: weights opened"), "{said}");
}

#[test]
fn verbose_errors_tell_their_causes() {
    // Nobody listens at the hub's address of these tests.
    let said = stderr(&gorgon(&["fetch", "owner/name", "-v"]));
    assert!(said.contains("Connection refused") && said.contains("\ncaused by: "), "{said}");
    assert!(!stderr(&gorgon(&["fetch", "owner/name"])).contains("caused by: "));
}
