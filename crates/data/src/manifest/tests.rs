//! Tests of `manifest`.

use super::*;

#[test]
fn what_was_written_is_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, names) = (dir.path(), ["shard-00000.parquet", "shard-00001.parquet"]);
    std::fs::write(dir.join(IDENTITY), "{}").unwrap();
    names.iter().for_each(|name| std::fs::write(dir.join(name), name).unwrap());
    assert!(verify(dir).unwrap_err().to_string().contains("has not finished"));
    write(dir, &names.map(|name| (name.to_owned(), 7))).unwrap();
    verify(dir).unwrap();
    let damage = |name: &str, bytes: &[u8]| {
        let before = std::fs::read(dir.join(name)).ok();
        std::fs::write(dir.join(name), bytes).unwrap();
        let error = verify(dir).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        match before {
            Some(before) => std::fs::write(dir.join(name), before).unwrap(),
            None => std::fs::remove_file(dir.join(name)).unwrap(),
        }
        verify(dir).unwrap();
    };
    damage("shard-00001.parquet", b"shard-00001.parqueu");
    damage("shard-00000.parquet", b"");
    damage("shard-00002.parquet", b"stray");
    damage(MANIFEST, b"{");
    let outside = BTreeMap::from([("../x".to_owned(), Written { rows: 7, sha256: String::new() })]);
    let outside = Manifest { sha256: digest(&outside).unwrap(), shards: outside };
    damage(MANIFEST, serde_json::to_string(&outside).unwrap().as_bytes());
    let twice = std::fs::read_to_string(dir.join(MANIFEST)).unwrap().replacen('{', "{\"shards\": {},", 1);
    damage(MANIFEST, twice.as_bytes());
    let altered = std::fs::read_to_string(dir.join(MANIFEST)).unwrap().replacen('7', "8", 1);
    damage(MANIFEST, altered.as_bytes());
    std::fs::remove_file(dir.join(names[0])).unwrap();
    assert!(verify(dir).unwrap_err().to_string().contains(names[0]));
}
