//! Uploads to the hub, against a server on the loopback interface.

mod hub_server;

use std::time::Duration;

use gorgon_hub::{HubError, HubOptions, Push, Repo, push};
use hub_server::{Server, options};
use serde_json::Value;
use tempfile::TempDir;

/// "card", "heads" and "[0]" in base64.
const FILES: [(&str, &str, &str); 3] =
    [("README.md", "card", "Y2FyZA=="), ("medusa_lm_head.safetensors", "heads", "aGVhZHM="), ("x.json", "[0]", "WzBd")];

fn exported() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, _) in FILES {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    std::fs::write(folder.path().join(".hidden"), "never").unwrap();
    folder
}

fn with_token(endpoint: &str) -> (TempDir, HubOptions) {
    let (folder, options) = options(endpoint);
    (folder, HubOptions { token: Some("secret".into()), ..options })
}

fn upload(private: bool, options: &HubOptions) -> Result<String, HubError> {
    let folder = exported();
    let repo = Repo::parse("owner/name").unwrap();
    push(&Push { repo: &repo, folder: folder.path(), private, message: "Heads" }, options, &mut |_, _| {})
}

#[test]
fn a_folder_becomes_one_commit() {
    let server = Server::start(&[]);
    let (_folder, options) = with_token(&server.endpoint);
    assert_eq!(upload(true, &options).unwrap(), format!("{}/owner/name", server.endpoint));
    let requests = server.take_requests("");
    assert!(requests.iter().all(|r| r.headers["authorization"] == "Bearer secret"), "{requests:?}");
    let steps: Vec<_> = requests.iter().map(|r| (r.method.as_str(), r.path.as_str())).collect();
    let api = "/api/models/owner/name";
    let (sorted, commit) = (format!("{api}/preupload/main"), format!("{api}/commit/main"));
    assert_eq!(steps, [("GET", api), ("POST", "/api/repos/create"), ("POST", &sorted), ("POST", &commit)]);

    let created: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert_eq!(
        (&created["organization"], &created["name"], &created["private"], &created["type"]),
        (&"owner".into(), &"name".into(), &true.into(), &"model".into())
    );
    let lines: Vec<Value> =
        requests[3].body.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
    assert_eq!(lines[0]["value"]["summary"], "Heads");
    let files: Vec<_> =
        lines[1..].iter().map(|l| (l["value"]["path"].as_str(), l["value"]["content"].as_str())).collect();
    assert_eq!(files, FILES.map(|(name, _, content)| (Some(name), Some(content))));
}

#[test]
fn a_public_repository_does_not_get_private_files() {
    let server = Server::start(&[]);
    let (_folder, options) = with_token(&server.endpoint);
    server.behaviour().private = Some(false);
    let error = upload(true, &options).unwrap_err();
    assert!(matches!(error, HubError::Unusable { .. }), "{error}");
    assert!(server.take_requests("").iter().all(|r| r.method == "GET"));
    upload(false, &options).unwrap();
    assert!(server.take_requests("/repos/create").is_empty(), "it is there already");
}

#[test]
fn refusals_are_one_line() {
    let server = Server::start(&[]);
    let (_folder, options) = with_token(&server.endpoint);
    for step in ["/api/models/owner/name", "/repos/create", "/preupload/", "/commit/"] {
        for (status, words) in [(401, "check HF_TOKEN"), (403, "HF_TOKEN"), (500, "500 Internal Server Error")] {
            server.behaviour().statuses = vec![(step.into(), status, 99)];
            let error = upload(false, &options).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(words) && !message.contains('\n'), "{step} {status}: {message}");
            assert_eq!(matches!(error, HubError::Denied { .. }), status != 500, "{step}: {message}");
            assert_eq!(matches!(error, HubError::Transfer { .. }), status == 500, "{step}: {message}");
        }
    }
    server.behaviour().statuses = vec![("/commit/".into(), 503, 1)];
    upload(false, &options).unwrap();
}

#[test]
fn nothing_is_sent_without_token_or_network() {
    let server = Server::start(&[]);
    let (_folder, options) = options(&server.endpoint);
    assert!(matches!(upload(false, &options), Err(HubError::NoToken { .. })));
    let offline = HubOptions { offline: true, token: Some("secret".into()), ..options };
    assert!(matches!(upload(false, &offline), Err(HubError::OfflinePush { .. })));
    assert!(server.take_requests("").is_empty());
}

#[test]
fn a_silent_hub_ends_an_upload() {
    let server = Server::start(&[]);
    let (_folder, options) = with_token(&server.endpoint);
    let options = HubOptions { timeout: Duration::from_millis(100), ..options };
    server.behaviour().silent = true;
    let error = upload(false, &options).unwrap_err().to_string();
    assert!(error.contains("no answer within"), "{error}");
}
