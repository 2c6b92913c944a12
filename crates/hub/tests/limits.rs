//! Hubs that say nothing or do not stop, on the loopback interface.

mod hub_server;

use std::time::Duration;

use gorgon_hub::{HubOptions, resolve};
use hub_server::{Server, options};

fn model() -> Server {
    Server::start(&[("config.json", b"{}"), ("tokenizer.json", b"{}"), ("model.safetensors", b"weights")])
}

#[track_caller]
fn assert_fails(options: &HubOptions, words: &[&str]) {
    let message = resolve("owner/name", options, &mut |_| {}).unwrap_err().to_string();
    assert!(words.iter().all(|w| message.contains(w)) && !message.contains('\n'), "{message:?} lacks one of {words:?}");
}

#[test]
fn a_connection_may_take_5_seconds_and_silence_30() {
    let options = HubOptions::from_vars(&|_| None, Some("home".into())).unwrap();
    assert_eq!((options.connect_timeout.as_secs(), options.timeout.as_secs()), (5, 30));
}

#[test]
fn a_silent_hub_is_left() {
    let server = model();
    let (_folder, mut options) = options(&server.endpoint);
    options.timeout = Duration::from_millis(150);
    (options.attempts, options.pause) = (u32::MAX, Duration::from_millis(20));
    server.behaviour().silent = true;
    assert_fails(&options, &[&server.endpoint, "no answer within"]);
    assert_eq!(server.take_requests("").len(), 2, "all attempts together last a third longer than one");
}

#[test]
fn a_file_that_stops_coming_is_left() {
    let server = model();
    let (_folder, mut options) = options(&server.endpoint);
    options.timeout = Duration::from_millis(150);
    server.behaviour().stalled = Some("model.safetensors".into());
    assert_fails(&options, &["model.safetensors", "no byte within"]);
}

#[test]
fn endless_answers_end() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().endless = Some("/api/".into());
    assert_fails(&options, &["/api/models/owner/name", "more than", "bytes"]);
    server.behaviour().endless = Some("config.json".into());
    assert_fails(&options, &["config.json", "more than", "nothing was kept"]);
    assert!(!options.cache.join("models--owner--name/snapshots").exists());
}

#[test]
fn a_config_of_gigabytes_is_not_taken() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().files.insert("config.json".into(), vec![0; (64 << 20) + 1]);
    assert_fails(&options, &["owner/name", "config.json has 67108865 bytes"]);
    assert!(server.take_requests("config.json").iter().all(|request| request.method == "HEAD"));
}

#[test]
fn a_listing_with_a_key_twice_is_refused() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().listing = Some(format!("{{\"sha\": \"{}\", \"sha\": \"b\", \"siblings\": []}}", "a".repeat(40)));
    assert_fails(&options, &["/api/models/owner/name", "the key \"sha\" is there twice"]);
}
