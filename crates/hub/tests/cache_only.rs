//! Built without the feature `network`: the cache, and one clear error beyond it.
#![cfg(not(feature = "network"))]

use gorgon_hub::{DataSet, HubError, HubOptions, Push, Repo, fetch, push, resolve};
use std::path::Path;

#[test]
fn the_cache_serves_and_the_feature_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap().to_owned();
    let var = |name: &str| (name == "HF_HOME").then(|| home.clone());
    let options = HubOptions::from_vars(&var, None).unwrap();
    let repo = Repo::parse("owner/name").unwrap();
    let upload = Push { repo: &repo, folder: Path::new("."), private: false, message: "" };
    let errors = [
        resolve("owner/name", &options, &mut |_| {}).unwrap_err(),
        fetch(&repo, &options, &mut |_| {}).unwrap_err(),
        DataSet::open("datasets/owner/name", &options).unwrap_err(),
    ];
    for error in errors {
        let message = error.to_string();
        assert!(matches!(error, HubError::NoNetwork { .. }), "{message}");
        assert!(message.contains("owner/name") && message.contains("feature `hub`"), "{message}");
    }
    assert!(matches!(push(&upload, &options, &mut |_, _| {}), Err(HubError::NoPush { .. })));
    let snapshot = options.cache.join("models--owner--name/snapshots/0123");
    std::fs::create_dir_all(&snapshot).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::write(snapshot.join(file), "").unwrap();
    }
    assert_eq!(resolve("owner/name@0123", &options, &mut |_| {}).unwrap(), snapshot);
}
