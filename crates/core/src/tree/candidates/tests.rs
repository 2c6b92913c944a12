//! Tests of `candidates`.

use super::*;

#[test]
fn rows_are_found_again() {
    let candidate = |token| Candidate { token, probability: 0.5 };
    let rows: CandidateRows = [vec![candidate(1), candidate(2)], vec![], vec![candidate(3)]].into_iter().collect();
    let tokens: Vec<Vec<Token>> = rows.iter().map(|row| row.iter().map(|c| c.token).collect()).collect();
    assert_eq!(tokens, [vec![1, 2], vec![], vec![3]]);
    assert!(rows.row(3).is_empty() && rows.row(usize::MAX).is_empty());
    assert!(CandidateRows::default().is_empty());
}
