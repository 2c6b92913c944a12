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
        example: Example {
            ids: (0..i as u32 + 1).collect(),
            assistant: (0..=i).map(|k| k % 3 == 0).collect(),
            corrected: None,
        },
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

/// The column of corrected tokens is there where a row has some, and reads back with gaps.
#[test]
fn corrected_tokens_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file_name(0));
    write(&path, &rows(), &BTreeMap::new()).unwrap();
    let without = std::fs::read(&path).unwrap();
    let mut some = rows();
    some[4].example.corrected = Some(vec![false, true, false, false, true]);
    some[5].example.corrected = Some(vec![false; 6]);
    write(&path, &some, &BTreeMap::new()).unwrap();
    assert_eq!(read(&path, 20).unwrap().0, some);
    let names = |bytes: &[u8]| bytes.windows(9).any(|part| part == b"corrected");
    assert!(names(&std::fs::read(&path).unwrap()) && !names(&without));
    some[4].example.corrected = Some(vec![true]);
    write(&path, &some, &BTreeMap::new()).unwrap();
    assert!(read(&path, 20).unwrap_err().to_string().contains("row 4: 5 ids and a mask of 1"));
}

/// Labels are the assistant's tokens, and only the corrected ones where these are told. The path to a label is the
/// assistant's all the same.
#[test]
fn labels_are_corrected_tokens() {
    let mask = |marks: &str| marks.bytes().map(|mark| mark == b'1').collect::<Vec<bool>>();
    let example = Example { ids: (0..8).collect(), assistant: mask("00111101"), corrected: Some(mask("00010101")) };
    let counted = |head: usize| (0..8).filter(|&t| example.counts(head, t)).collect::<Vec<_>>();
    assert_eq!([counted(0), counted(1), counted(2)], [vec![1, 3], vec![2], vec![1]]);
    assert_eq!((0..9).filter(|&at| example.is_label(at)).collect::<Vec<_>>(), [3, 5, 7]);
    let all = Example { corrected: None, ..example };
    assert_eq!((0..8).filter(|&t| all.counts(0, t)).collect::<Vec<_>>(), [1, 2, 3]);
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
