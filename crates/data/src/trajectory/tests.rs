//! Tests of trajectories.

use super::*;
use crate::render::Example;

fn row(assistant: &[bool]) -> Row {
    Row {
        row: 3,
        key: 9,
        id: "a".into(),
        source: "b".into(),
        line: 1,
        category: None,
        example: Example { ids: (0..assistant.len() as Token).collect(), assistant: assistant.into(), corrected: None },
        ends: vec![],
        shard: String::new(),
    }
}

#[test]
fn blocks_cover_answers() {
    let own = [false, false, true, true, true, true, true, false, true, true, true, true];
    assert_eq!(blocks(&row(&own), 3), [2..5, 5..7, 8..11]);
    assert_eq!(blocks(&row(&[true, true, true]), 8), std::slice::from_ref(&(1..3)));
    assert!(blocks(&row(&[false]), 8).is_empty());
}

#[test]
fn files_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(file_name(7));
    let states = vec![vec![1, 2], vec![5, 6], vec![5, 7]];
    let all = vec![Trajectory { row: 4, prefix: 3, states }, Trajectory { row: 5, prefix: 1, states: vec![vec![8]] }];
    let metadata = BTreeMap::from([("gorgon.block".to_owned(), "2".to_owned())]);
    write(&path, &all, &metadata).unwrap();
    let (found, read_metadata) = read(&path, 9).unwrap();
    assert_eq!((&found, read_metadata["gorgon.block"].as_str()), (&all, "2"));
    // A flipped bit is an error or changes nothing.
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, bytes).unwrap();
        assert!(read(&path, 9).is_ok_and(|(found, _)| found == all) || read(&path, 9).is_err(), "byte {at}");
    }
    std::fs::write(&path, whole).unwrap();
    let error = read(&path, 8).unwrap_err().to_string();
    assert!(error.contains("token 8 of a vocabulary of 8") && error.contains("trajectories-00007"), "{error}");
    std::fs::write(&path, b"PAR1 nonsense PAR1").unwrap();
    assert!(read(&path, 9).is_err());
}

#[test]
fn repetitive_fixed_points_are_told() {
    let of = |token: Token, count: usize| Trajectory { row: 0, prefix: 1, states: vec![vec![token; count]] };
    assert!(of(1, REPEATED).is_repetitive() && !of(1, REPEATED - 1).is_repetitive());
}

#[test]
fn states_end_with_the_first_end_token_of_the_fixed_point() {
    let states = vec![vec![4, 4, 4, 4], vec![7, 2, 4, 4], vec![7, 2, 9, 2], vec![7, 2, 9, 6]];
    let mut one = Trajectory { row: 0, prefix: 1, states: states.clone() };
    one.end_at(&[5]);
    assert_eq!(one.states, states);
    one.end_at(&[2, 5]);
    assert_eq!(one.states, [[4, 4], [7, 2]]);
}
