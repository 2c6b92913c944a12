//! Tests of `tuning`.

use super::*;

#[test]
fn it_goes_where_caches_go() {
    let at = |named: Option<&str>, home: Option<&str>| {
        folder(&|name| named.filter(|_| name == "XDG_CACHE_HOME").map(str::to_owned), home.map(PathBuf::from))
    };
    let path = |path: &str| Some(PathBuf::from(path));
    assert_eq!(at(Some("/c"), Some("/h")), path("/c/gorgon/tuning"));
    assert_eq!(at(Some("c"), Some("/h")), path("/h/.cache/gorgon/tuning"));
    assert_eq!(at(None, Some("/h")), path("/h/.cache/gorgon/tuning"));
    assert_eq!(at(None, None), None);
}

#[test]
fn what_is_not_as_it_was_sealed_is_deleted() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("tuning");
    let there = || names(&dir).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    let held = hold(&dir).unwrap();
    assert!(hold(&dir).is_err(), "one process at a time");
    for name in [DATABASE, "default.db-wal", "default.db-tshm"] {
        write(name, "pages");
    }
    write_seal(&dir).unwrap();
    drop(held);
    drop(hold(&dir).unwrap());
    assert_eq!(there(), [DATABASE, "default.db-wal"], "its table of readers goes, the rest stays");
    write("default.db-wal", "pagez");
    drop(hold(&dir).unwrap());
    assert!(there().is_empty(), "damaged");
    write(DATABASE, "pages");
    drop(hold(&dir).unwrap());
    assert!(there().is_empty(), "never sealed");
    std::fs::write(root.path().join("file"), "").unwrap();
    assert!(hold(&root.path().join("file")).is_err());
}
