//! Tests of `forecast`.

use super::*;

fn asked(rows: std::ops::Range<u64>, bytes: usize) -> Vec<Asked> {
    rows.map(|row| Asked { row, bytes, turns: 1 }).collect()
}

#[test]
fn slots_grow_to_the_longest_conversation_to_come() {
    // Four are done in two slots: a token for two bytes, answers of 10 and 30 tokens.
    let all = [asked(0..4, 40), asked(4..6, 80), asked(6..12, 20)].concat();
    let done: BTreeMap<u64, Read> = (0..4)
        .map(|i| {
            (
                i,
                Read {
                    slot: (i % 2) as usize,
                    tokens: 30 + 20 * (i % 2) as usize,
                    answers: 10 + 20 * (i % 2) as usize,
                },
            )
        })
        .collect();
    let left = Left { asked: &all, done: &done, slots: 2, capacity: 1000, per_token: 100 };
    // Lengths are 40 + 20 for the next two, give or take 10; slots hold 30 (half of 60 at work) and 50.
    let found = left.growth();
    assert_eq!(found.held, (50.0 - 30.0) + (70.0 - 50.0));
    assert_eq!(found.memory, 4000.0 + 8.0 * 20.0 * KEPT_PER_TOKEN + 8.0 * KEPT_PER_ANSWER);
    // Nothing is longer than a slot.
    assert_eq!(Left { capacity: 55, ..left }.growth().held, 20.0 + 5.0);
    let nothing = BTreeMap::new();
    let left = Left { asked: &[], done: &nothing, slots: 0, capacity: 10, per_token: 1 };
    assert_eq!(left.growth(), Growth::default());
}

#[test]
fn tokens_grow_less_than_their_rows() {
    // A power of a half, nearly 0.8, and one.
    let of = |quarter, rows| (Tokens { rows: 100, all: 800.0, quarter }.of(rows, 1600)).round();
    assert_eq!([of(400.0, 100), of(400.0, 1600), of(400.0, 3300)], [800.0, 3200.0, 7200.0]);
    assert_eq!([of(264.0, 100), of(264.0, 1600)], [800.0, 7346.0]);
    assert_eq!([of(200.0, 150), of(200.0, 1600), of(200.0, 1650)], [1200.0, 12_800.0, 13_200.0]);
    // Nothing grows faster than its rows.
    assert_eq!(of(100.0, 200), 1600.0);
    let (none, few) = (Tokens { rows: 0, all: 0.0, quarter: 0.0 }, Tokens { rows: 3, all: 60.0, quarter: 0.0 });
    assert_eq!([none.of(5, 0), few.of(6, 100)], [0.0, 120.0]);
}
