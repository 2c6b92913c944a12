//! Tests of `visible`.

use super::*;

/// Clears the screen, rings, returns, opens a C1 sequence, reorders, breaks the line.
const HOSTILE: &str = "a\u{1b}[2J\u{7}\r\u{9b}31m\u{202e}\u{2066}\u{2028}\n\tz";

#[test]
fn commands_are_escaped() {
    assert_eq!(lines(HOSTILE), "a\\u{1b}[2J\\u{7}\\r\\u{9b}31m\\u{202e}\\u{2066}\\u{2028}\n\tz");
    assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
    assert_eq!(line("schön 漢字 עברית \u{fffd}"), "schön 漢字 עברית \u{fffd}");
}

#[test]
fn a_document_says_the_same() {
    let value = serde_json::json!({ HOSTILE: [HOSTILE, "\u{7f}"] });
    for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
        let shown = json(&text);
        assert!(!shown.chars().any(|c| is_command(c) && c != '\n'), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}

#[test]
fn long_texts_and_lists_are_cut_with_a_count() {
    assert_eq!(clipped("äöü", 3), "äöü");
    assert_eq!(clipped("äöüß", 3), "äöü… (1 more characters)");
    let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    assert_eq!(listed(&names[..8]), "0, 1, 2, 3, 4, 5, 6, 7");
    assert_eq!(listed(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}
