//! Model folders and downloads, against a server on the loopback interface.

mod hub_server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gorgon_hub::{HubError, HubOptions, Repo, fetch, resolve};
use hub_server::{COMMIT, Server, options};

const CONFIG: &[u8] = b"{\"model_type\": \"llama\"}";
const TOKENIZER: &[u8] = b"{\"a tokenizer\": true}";

fn weights() -> Vec<u8> {
    (0..300_000u32).flat_map(u32::to_le_bytes).collect()
}

fn model() -> Server {
    let weights = weights();
    Server::start(&[
        ("config.json", CONFIG),
        ("tokenizer.json", TOKENIZER),
        ("model.safetensors", &weights),
        ("pytorch_model.bin", b"never"),
        ("README.md", b"never"),
    ])
}

fn quiet(model: &str, options: &HubOptions) -> Result<PathBuf, HubError> {
    resolve(model, options, &mut |_| {})
}

fn repo() -> Repo {
    Repo::parse("owner/name").unwrap()
}

#[track_caller]
fn assert_says(error: &HubError, words: &[&str]) {
    let message = error.to_string();
    assert!(words.iter().all(|w| message.contains(w)) && !message.contains('\n'), "{message:?} lacks one of {words:?}");
}

/// All files in all snapshots, hidden ones included.
fn snapshot_files(options: &HubOptions) -> Vec<String> {
    let snapshots = options.cache.join("models--owner--name").join("snapshots");
    let mut files = Vec::new();
    for commit in std::fs::read_dir(snapshots).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(commit.path()).unwrap() {
            files.push(file.unwrap().file_name().into_string().unwrap());
        }
    }
    files.sort();
    files
}

#[test]
fn a_model_is_downloaded_once() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    let mut seen = Vec::new();
    let folder =
        resolve("owner/name", &options, &mut |p| seen.push((p.file.to_owned(), p.done_bytes, p.total_bytes))).unwrap();

    assert_eq!(folder, options.cache.join("models--owner--name/snapshots").join(COMMIT));
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
    assert_eq!(snapshot_files(&options), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(std::fs::read_to_string(options.cache.join("models--owner--name/refs/main")).unwrap(), COMMIT);
    let total = (CONFIG.len() + TOKENIZER.len() + weights().len()) as u64;
    assert_eq!(seen.last().unwrap(), &("model.safetensors".to_owned(), total, total));
    assert!(seen.windows(2).all(|w| w[0].1 <= w[1].1), "progress goes back: {seen:?}");
    assert!(!server.take_requests("model.safetensors").is_empty());

    assert_eq!(quiet("owner/name", &options).unwrap(), folder);
    assert!(server.take_requests("").is_empty(), "a cached model asks for nothing");
    assert_eq!(fetch(&repo(), &options, &mut |_| {}).unwrap(), folder);
    assert!(server.take_requests("/resolve/").is_empty(), "a fetch of what is there asks for no file");
}

#[test]
fn a_newer_commit_shares_what_did_not_change() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    quiet("owner/name", &options).unwrap();
    server.behaviour().commit = "f".repeat(40);
    server.behaviour().files.insert("config.json".into(), b"{}".to_vec());
    server.take_requests("");
    let folder = fetch(&repo(), &options, &mut |_| {}).unwrap();
    assert!(folder.ends_with("f".repeat(40)));
    assert_eq!(std::fs::read(folder.join("config.json")).unwrap(), b"{}");
    assert!(
        server.take_requests("model.safetensors").iter().all(|r| r.method == "HEAD"),
        "the weights are there already"
    );
    assert_eq!(quiet("owner/name", &options).unwrap(), folder);
    assert!(
        quiet(&format!("owner/name@{COMMIT}"), &options).unwrap().ends_with(COMMIT),
        "the old commit is still there"
    );
}

#[test]
fn shards_are_those_of_the_index() {
    let index =
        br#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
    let server = Server::start(&[
        ("config.json", CONFIG),
        ("model.safetensors.index.json", index),
        ("model-00001-of-00002.safetensors", b"one"),
        ("model-00002-of-00002.safetensors", b"two"),
        ("consolidated.safetensors", b"never"),
    ]);
    let (_folder, options) = options(&server.endpoint);
    quiet("owner/name", &options).unwrap();
    assert_eq!(snapshot_files(&options).len(), 4);

    server.behaviour().files.remove("model-00002-of-00002.safetensors");
    server.behaviour().commit = "e".repeat(40);
    assert_says(&fetch(&repo(), &options, &mut |_| {}).unwrap_err(), &["model-00002-of-00002.safetensors"]);
}

#[test]
fn a_cut_download_goes_on_where_it_ended() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().cuts = vec![CONFIG.len(), TOKENIZER.len(), 1000, 0, 200_000];
    let folder = quiet("owner/name", &options).unwrap();
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
    let requests = server.take_requests("model.safetensors");
    let ranges: Vec<_> =
        requests.iter().filter(|r| r.method == "GET").map(|r| r.headers.get("range").cloned()).collect();
    let range = |from: &str| Some(format!("bytes={from}-"));
    assert_eq!(ranges, [None, range("1000"), range("1000"), range("201000")]);
}

#[test]
fn the_next_call_goes_on_too() {
    let server = model();
    let (_folder, mut options) = options(&server.endpoint);
    options.attempts = 1;
    server.behaviour().cuts = vec![CONFIG.len(), TOKENIZER.len(), 70_000];
    assert_says(&quiet("owner/name", &options).unwrap_err(), &["model.safetensors"]);
    assert_eq!(snapshot_files(&options), ["config.json", "tokenizer.json"]);
    assert!(matches!(
        quiet("owner/name", &HubOptions { offline: true, ..options.clone() }),
        Err(HubError::Offline { .. })
    ));

    server.take_requests("");
    let folder = quiet("owner/name", &options).unwrap();
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
    let requests = server.take_requests("model.safetensors");
    assert!(requests.iter().any(|r| r.headers.get("range").is_some_and(|r| r == "bytes=70000-")), "{requests:?}");
}

#[test]
fn a_server_without_ranges_sends_all_again() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().ignore_ranges = true;
    server.behaviour().cuts = vec![CONFIG.len(), TOKENIZER.len(), 1000];
    let folder = quiet("owner/name", &options).unwrap();
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
}

#[test]
fn a_broken_partial_file_is_replaced() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    let blobs = options.cache.join("models--owner--name/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    let partial = |server: &Server, content: &[u8]| {
        let etag = server.behaviour().etags["model.safetensors"].clone();
        std::fs::write(blobs.join(format!("{etag}.incomplete")), content).unwrap();
    };
    use sha2::{Digest, Sha256};
    let etag = format!("{:x}", Sha256::digest(weights()));
    server.behaviour().etags.insert("model.safetensors".into(), etag);
    for content in [vec![9; 5000], vec![9; weights().len()], vec![9; weights().len() + 5]] {
        partial(&server, &content);
        let folder = fetch(&repo(), &options, &mut |_| {}).unwrap();
        assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
        std::fs::remove_dir_all(options.cache.join("models--owner--name/snapshots")).unwrap();
        std::fs::remove_file(blobs.join(&server.behaviour().etags["model.safetensors"])).unwrap();
    }
}

#[test]
fn wrong_content_is_not_kept() {
    for content in [vec![7; weights().len()], vec![7; weights().len() + 1], Vec::new()] {
        let server = model();
        let (_folder, options) = options(&server.endpoint);
        server.behaviour().files.remove("tokenizer.json");
        server.behaviour().files.insert("config.json".into(), content.clone());
        server.behaviour().content = Some(content);
        let error = quiet("owner/name", &options).unwrap_err();
        assert_says(&error, &["model.safetensors"]);
        assert_eq!(snapshot_files(&options), ["config.json"]);
        assert!(!options.cache.join("models--owner--name/refs/main").exists());
    }
}

#[test]
fn refusals_are_explained() {
    let server = model();
    let (_folder, mut options) = options(&server.endpoint);
    let refused = |status| {
        server.behaviour().statuses = vec![("/api/".into(), status, 1)];
        quiet("owner/name@v1", &options).unwrap_err()
    };
    assert_says(&refused(404), &["owner/name@v1", "no such model"]);
    assert_says(&refused(401), &["owner/name", "401", "HF_TOKEN"]);
    assert_says(&refused(403), &["owner/name", "403", "gated"]);
    options.token = Some("secret".into());
    server.behaviour().statuses = vec![("config.json".into(), 401, 1)];
    assert_says(&quiet("owner/name", &options).unwrap_err(), &["token is not valid"]);
    server.behaviour().statuses = vec![("config.json".into(), 404, 1)];
    assert_says(&quiet("owner/name", &options).unwrap_err(), &["config.json", "404"]);
    assert!(snapshot_files(&options).is_empty());
}

#[test]
fn failures_that_may_pass_are_tried_again() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().statuses =
        vec![("/api/".into(), 503, 2), ("config.json".into(), 500, 1), ("model.safetensors".into(), 429, 2)];
    quiet("owner/name", &options).unwrap();

    server.behaviour().statuses = vec![("/api/".into(), 502, 99)];
    server.take_requests("");
    assert_says(&fetch(&repo(), &options, &mut |_| {}).unwrap_err(), &["502"]);
    assert_eq!(server.take_requests("/api/").len(), 3);
}

#[test]
fn no_server_no_wait() {
    let endpoint = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let (_folder, mut options) = options(&endpoint);
    options.pause = Duration::from_secs(60);
    assert_says(&quiet("owner/name", &options).unwrap_err(), &[&endpoint, "refused"]);
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let other = model();
    let server = model();
    let (_folder, mut options) = options(&server.endpoint);
    options.token = Some("secret".into());
    server.behaviour().redirect = Some(other.endpoint.clone());
    other.behaviour().cuts = vec![CONFIG.len(), TOKENIZER.len(), 500];
    let folder = quiet("owner/name", &options).unwrap();
    assert_eq!(std::fs::read(folder.join("model.safetensors")).unwrap(), weights());
    assert!(server.take_requests("").iter().all(|r| r.headers["authorization"] == "Bearer secret"));
    let elsewhere = other.take_requests("");
    assert!(
        !elsewhere.is_empty() && elsewhere.iter().all(|r| !r.headers.contains_key("authorization")),
        "{elsewhere:?}"
    );
}

#[test]
fn redirects_and_listings_end() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    server.behaviour().redirect = Some(server.endpoint.clone());
    assert_says(&quiet("owner/name", &options).unwrap_err(), &["redirects"]);
    for listing in ["", "{", "[]", r#"{"sha": 3}"#, r#"{"sha": "abc", "siblings": 7}"#] {
        server.behaviour().listing = Some(listing.into());
        assert_says(&quiet("owner/name", &options).unwrap_err(), &[&server.endpoint, "list of a model's files"]);
    }
    server.behaviour().listing = Some(format!(
        r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "config.json"}}, {{"rfilename": "x.bin"}}]}}"#
    ));
    assert_says(&quiet("owner/name", &options).unwrap_err(), &["owner/name", ".safetensors", "x.bin"]);
}

#[test]
fn names_from_the_server_stay_in_the_folder() {
    for name in ["../../../escaped", "/tmp/escaped", "..", "", "a/b", "a\\b", "C:x"] {
        let server = model();
        let (folder, options) = options(&server.endpoint);
        server.behaviour().commit = name.into();
        assert!(matches!(quiet("owner/name", &options), Err(HubError::UnsafeName { what: "commit", .. })), "{name}");

        server.behaviour().commit = COMMIT.into();
        server.behaviour().etags.insert("config.json".into(), name.into());
        assert!(matches!(quiet("owner/name", &options), Err(HubError::UnsafeName { what: "etag", .. })), "{name}");

        server.behaviour().etags.clear();
        let index = serde_json::json!({"weight_map": {"a": name}}).to_string().into_bytes();
        server.behaviour().files.remove("model.safetensors");
        server.behaviour().files.insert("model.safetensors.index.json".into(), index);
        assert!(matches!(quiet("owner/name", &options), Err(HubError::UnsafeName { what: "shard", .. })), "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the cache is there");
    }
}

#[test]
fn offline_uses_the_cache_alone() {
    let server = model();
    let (_folder, online) = options(&server.endpoint);
    let offline = HubOptions { offline: true, ..online.clone() };
    assert_says(&quiet("owner/name", &offline).unwrap_err(), &["owner/name", "not in the cache", "--offline"]);
    let folder = quiet("owner/name", &online).unwrap();
    server.take_requests("");
    assert_eq!(quiet("owner/name", &offline).unwrap(), folder);
    assert!(matches!(fetch(&repo(), &offline, &mut |_| {}), Err(HubError::Offline { .. })));
    std::fs::remove_file(folder.join("model.safetensors")).unwrap();
    assert_says(&quiet("owner/name", &offline).unwrap_err(), &["model.safetensors is not in the cache"]);
    assert!(server.take_requests("").is_empty());
}

#[test]
fn several_at_once_download_once() {
    let server = model();
    let (_folder, options) = options(&server.endpoint);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| quiet("owner/name", &options).unwrap());
        }
    });
    assert_eq!(server.take_requests("model.safetensors").iter().filter(|r| r.method == "GET").count(), 1);
}

#[test]
fn folders_come_first_and_paths_are_no_names() {
    let (folder, options) = options("http://127.0.0.1:9");
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    assert_eq!(quiet(&path(folder.path()), &options).unwrap(), folder.path());
    let file = folder.path().join("config.json");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(quiet(&path(&file), &options), Err(HubError::NotAFolder { .. })));
    for model in [
        "./a", "../a/b", "/a", "/a/b", "a/", "a/b/", "a/b/c", "a", "", "~/a", "a\\b", "a/../b", "a/b@", "a/b@../c",
        "a b/c",
    ] {
        let error = quiet(model, &options).unwrap_err();
        assert!(matches!(error, HubError::NotFound { .. }), "{model:?}: {error}");
    }
    let repo = Repo::parse("a.b-c/D_1@refs/pr/2").unwrap();
    assert_eq!(
        (repo.id().as_str(), repo.revision(), repo.to_string().as_str()),
        ("a.b-c/D_1", "refs/pr/2", "a.b-c/D_1@refs/pr/2")
    );
}

#[test]
fn options_come_from_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let from = |vars: &[(&str, &str)]| {
        let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        HubOptions::from_vars(&var, Some(home.path().into())).unwrap()
    };
    let plain = from(&[]);
    assert_eq!(plain.cache, home.path().join(".cache/huggingface/hub"));
    assert_eq!((plain.endpoint.as_str(), plain.token, plain.offline), ("https://huggingface.co", None, false));
    assert_eq!(from(&[("HF_HOME", "/h")]).cache, Path::new("/h/hub"));
    assert_eq!(from(&[("HF_HOME", "/h"), ("HF_HUB_CACHE", "/c")]).cache, Path::new("/c"));
    assert_eq!(from(&[("XDG_CACHE_HOME", "/x")]).cache, Path::new("/x/huggingface/hub"));
    assert_eq!(from(&[("HF_ENDPOINT", "http://h:1/")]).endpoint, "http://h:1");
    assert!(from(&[("HF_HUB_OFFLINE", "true")]).offline && !from(&[("HF_HUB_OFFLINE", "0")]).offline);
    std::fs::write(home.path().join("token"), " saved\n").unwrap();
    let with_home = ("HF_HOME", home.path().to_str().unwrap());
    assert_eq!(from(&[with_home]).token.as_deref(), Some("saved"));
    assert_eq!(from(&[with_home, ("HF_TOKEN", " given ")]).token.as_deref(), Some("given"));
    assert!(!format!("{:?}", from(&[("HF_TOKEN", "hf_secret")])).contains("secret"));
    assert!(matches!(HubOptions::from_vars(&|_| None, None), Err(HubError::NoHome)));
}
