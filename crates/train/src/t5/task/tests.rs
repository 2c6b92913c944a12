//! Tests of `task`.

use super::*;

#[test]
fn answers_are_the_letters_moved_on() {
    let task = Task { seed: 4, shortest: 6, longest: 12 };
    for number in 0..50 {
        let pair = task.held_out(number);
        let letters: Vec<u8> = pair.source.bytes().filter(u8::is_ascii_lowercase).collect();
        let moved: Vec<u8> = letters.iter().map(|letter| b'a' + (letter - b'a' + 1) % 26).collect();
        assert_eq!(moved, pair.answer.as_bytes());
        assert!((6..=12).contains(&letters.len()) && pair.source.len() == letters.len() + letters.len() / 3);
        assert_eq!(pair, task.held_out(number));
        assert_ne!(pair, task.held_out(number + 1));
    }
}
