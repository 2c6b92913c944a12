//! Data sets on the hub, against a server on the loopback interface.

mod hub_server;

use std::path::PathBuf;

use gorgon_hub::{DataSet, HubError, HubOptions};
use hub_server::{COMMIT, Server, options};

fn prompts() -> Server {
    Server::start(&[
        ("README.md", b"never"),
        ("dataset_infos.json", b"never"),
        (".cache/hidden.json", b"never"),
        ("data/train-00001.parquet", b"two"),
        ("data/train-00000.parquet", b"one"),
        ("extra/more.jsonl", b"{}"),
        ("extra/state.json", b"never"),
        ("all.json", b"[]"),
    ])
}

/// All files of a data set.
fn quiet(name: &str, options: &HubOptions) -> Result<Vec<PathBuf>, HubError> {
    let data_set = DataSet::open(name, options)?;
    data_set.files().iter().map(|file| data_set.fetch(file, &mut |_| {})).collect()
}

/// Paths below the snapshot.
fn names(files: &[PathBuf], options: &HubOptions) -> Vec<String> {
    let snapshot = options.cache.join("datasets--owner--name/snapshots").join(COMMIT);
    files.iter().map(|file| file.strip_prefix(&snapshot).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn data_files_come_in_order_and_once() {
    let server = prompts();
    let (_folder, options) = options(&server.endpoint);
    let files = quiet("datasets/owner/name", &options).unwrap();
    let expected = ["all.json", "data/train-00000.parquet", "data/train-00001.parquet", "extra/more.jsonl"];
    assert_eq!(names(&files, &options), expected);
    let contents: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert_eq!(contents, [&b"[]"[..], b"one", b"two", b"{}"]);
    let requests = server.take_requests("");
    assert!(requests.iter().all(|r| r.path.starts_with("/api/datasets/owner/name/revision/main")
        || r.path.starts_with(&format!("/datasets/owner/name/resolve/{COMMIT}/"))));

    let offline = HubOptions { offline: true, ..options.clone() };
    assert_eq!(quiet("datasets/owner/name", &offline).unwrap(), files);
    assert_eq!(quiet("datasets/owner/name", &options).unwrap(), files);
    assert!(server.take_requests("").is_empty(), "what is in the cache asks for nothing");
}

#[test]
fn a_folder_a_file_and_a_revision_can_be_named() {
    let server = prompts();
    let (_folder, options) = options(&server.endpoint);
    let get = |name: &str| names(&quiet(name, &options).unwrap(), &options);
    assert_eq!(get("datasets/owner/name@v1/extra"), ["extra/more.jsonl"]);
    assert!(!server.take_requests("/revision/v1").is_empty());
    assert_eq!(get("datasets/owner/name@refs/convert/parquet/data/train-00001.parquet"), ["data/train-00001.parquet"]);
    assert!(!server.take_requests("/revision/refs%2Fconvert%2Fparquet").is_empty());
    assert_eq!(get("datasets/owner/name/dataset_infos.json"), ["dataset_infos.json"]);

    let offline = HubOptions { offline: true, ..options.clone() };
    let error = quiet("datasets/owner/name@v1", &offline).unwrap_err().to_string();
    assert!(error.contains("datasets/owner/name@v1: all.json is not in the cache"), "{error}");
}

#[test]
fn files_come_when_they_are_asked_for() {
    let server = prompts();
    let (_folder, options) = options(&server.endpoint);
    let data_set = DataSet::open("datasets/owner/name/data", &options).unwrap();
    assert_eq!(data_set.files(), ["data/train-00000.parquet", "data/train-00001.parquet"]);
    assert!(server.take_requests("/resolve/").is_empty(), "opening downloads nothing");
    data_set.fetch("data/train-00000.parquet", &mut |_| {}).unwrap();
    assert!(server.take_requests("").iter().all(|request| request.path.ends_with("data/train-00000.parquet")));

    // Later it is at the same commit, though the hub has a newer one, and only what is missing is asked for.
    let newer = "b".repeat(40);
    let listing = serde_json::json!({"sha": newer, "siblings": [{"rfilename": "data/other.jsonl"}]}).to_string();
    server.behaviour().listing = Some(listing);
    let offline = HubOptions { offline: true, ..options.clone() };
    let error = quiet("datasets/owner/name/data", &offline).unwrap_err().to_string();
    assert!(error.contains("datasets/owner/name: data/train-00001.parquet is not in the cache"), "{error}");
    let again = quiet("datasets/owner/name/data", &options).unwrap();
    assert_eq!(names(&again, &options), data_set.files());
    let asked = server.take_requests("");
    assert!(!asked.is_empty() && asked.iter().all(|request| request.path.ends_with("data/train-00001.parquet")));
}

#[test]
fn names_are_checked() {
    let server = prompts();
    let (_folder, options) = options(&server.endpoint);
    for name in ["owner/name", "datasets/owner", "datasets/owner/name@", "datasets/owner/../x", "datasets//name", ""] {
        assert!(matches!(quiet(name, &options), Err(HubError::InvalidDataset { .. })), "{name}");
    }
    for name in ["datasets/owner/name/dat", "datasets/owner/name/README.md"] {
        assert!(matches!(quiet(name, &options), Err(HubError::Unusable { .. })), "{name}");
    }
    for name in ["../../escaped.json", "/tmp/escaped.json", "a/./b.json", "a\\b.json", "a//b.json"] {
        let listing = serde_json::json!({"sha": COMMIT, "siblings": [{"rfilename": name}]}).to_string();
        server.behaviour().listing = Some(listing);
        let error = quiet("datasets/owner/name@other", &options).unwrap_err();
        assert!(matches!(error, HubError::UnsafeName { what: "data file", .. } | HubError::Unusable { .. }), "{name}");
    }
    server.behaviour().statuses = vec![("/api/".into(), 404, 1)];
    let error = quiet("datasets/owner/name@none", &options).unwrap_err().to_string();
    assert!(error.contains("knows no such data set"), "{error}");
}
