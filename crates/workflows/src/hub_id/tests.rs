//! Tests of `hub_id`.

use super::*;

#[test]
fn an_id_is_found_and_a_path_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let none = |named: &str| hub_id(named, dir.path());
    assert_eq!(none("Qwen/Qwen3-8B").as_deref(), Some("Qwen/Qwen3-8B"));
    assert_eq!(none("Qwen/Qwen3-8B@main").as_deref(), Some("Qwen/Qwen3-8B"));
    for path in ["./tiny", "../models/tiny", dir.path().to_str().unwrap(), "tiny"] {
        assert_eq!(none(path), None, "{path}");
    }
    let cached = "/cache/hub/models--meta-llama--Llama-3.1-8B/snapshots/0123";
    assert_eq!(none(cached).as_deref(), Some("meta-llama/Llama-3.1-8B"));
    assert_eq!(hub_id("./here", Path::new(cached)).as_deref(), Some("meta-llama/Llama-3.1-8B"));
    std::fs::write(dir.path().join("config.json"), "{\"_name_or_path\": \"owner/base\"}").unwrap();
    assert_eq!(none("./tiny").as_deref(), Some("owner/base"));
    std::fs::write(dir.path().join("config.json"), "{\"_name_or_path\": \"./models/base\"}").unwrap();
    assert_eq!(none("./tiny"), None);
}

#[test]
fn runs_are_named_after_repositories_and_not_after_commits() {
    let cached = Path::new("/cache/hub/models--Qwen--Qwen2.5-0.5B/snapshots/0123456789abcdef");
    for named in ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B@main", cached.to_str().unwrap()] {
        assert_eq!(stem(named, cached), "Qwen2-5-0-5B", "{named}");
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("my.model");
    assert_eq!(stem(folder.to_str().unwrap(), &folder), "my-model");
}
