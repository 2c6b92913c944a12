//! Tests of `journal`.

use super::*;

fn answer(row: u64) -> Answer {
    Answer {
        row,
        turn: 0,
        ids: vec![3, 14, 15],
        end: "end_token".into(),
        user: Some("wie geht's? \u{1f600}".into()),
        retokenised: false,
    }
}

/// Whatever byte is altered: the line is named, or nothing that counts has changed.
#[test]
fn an_altered_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("answers.jsonl");
    let mut journal = Journal::open(&path).unwrap();
    journal.answer(answer(0)).unwrap();
    journal.answer(answer(1)).unwrap();
    journal.done(1, Some("no room".into())).unwrap();
    assert_eq!(journal.bytes_of(&[0, 1, 7].into()), std::fs::metadata(&path).unwrap().len());
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        match Journal::open(&path) {
            Err(error) => assert!(error.to_string().contains("answers.jsonl: line"), "{error}"),
            // The first line can lose the name of its checksum, and the last line can pass for a torn one.
            Ok(read) => {
                assert!(read.answers(0).is_empty() || read.answers(0) == [answer(0)], "byte {at}");
                assert!(read.answers(1).is_empty() || read.answers(1) == [answer(1)], "byte {at}");
            }
        }
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(Journal::open(&path).unwrap().reason(1), Some("no room"));
}
