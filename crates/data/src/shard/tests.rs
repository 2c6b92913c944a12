//! Tests of `shard`.

use super::*;

fn rows() -> Vec<Row> {
    let row = |i: u64| Row {
        row: i,
        key: i + 7,
        id: format!("id-{i}"),
        source: "prompts.jsonl".into(),
        line: 10 * i + 1,
        category: i.is_multiple_of(2).then(|| "maths".to_owned()),
        example: Example { ids: (0..i as u32 + 1).collect(), assistant: (0..=i).map(|k| k % 3 == 0).collect() },
        ends: vec!["end_token".into(); i as usize % 3],
        shard: file_name(0),
    };
    (0..20).map(row).collect()
}

#[test]
fn rows_and_metadata_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file_name(0));
    let metadata = BTreeMap::from([("gorgon.seed".to_owned(), "7".to_owned())]);
    write(&path, &rows(), &metadata).unwrap();
    assert_eq!(read(&path, 20).unwrap(), (rows(), metadata.clone()));
    assert_eq!(files(dir.path()).unwrap(), std::slice::from_ref(&path));
    // The same rows are the same bytes.
    let first = std::fs::read(&path).unwrap();
    write(&path, &rows(), &metadata).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), first);
}

#[test]
fn what_is_no_shard_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(files(dir.path()).unwrap_err().to_string().contains("gorgon distill"));
    let path = dir.path().join(file_name(0));
    write(&path, &rows(), &BTreeMap::new()).unwrap();
    assert!(read(&path, 19).unwrap_err().to_string().contains("token 19"));
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(read(&path, 100).is_err());
    }
    let mut short = rows();
    short[3].example.assistant.pop();
    write(&path, &short, &BTreeMap::new()).unwrap();
    assert!(read(&path, 100).unwrap_err().to_string().contains("row 3"));
}
