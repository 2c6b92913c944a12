//! Tests of `parts`.

use super::*;

#[test]
fn parts_are_named_and_cover_everything_once() {
    for wrong in ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"] {
        assert!(wrong.parse::<Part>().is_err(), "{wrong}");
    }
    let prompt = |row| Prompt {
        row,
        key: row,
        id: String::new(),
        source: String::new(),
        line: 1,
        category: None,
        system: None,
        users: vec![],
        ..Prompt::default()
    };
    let all: Vec<Prompt> = (0..17).map(prompt).collect();
    let part = |text: &str| text.parse::<Part>().unwrap().prompts(&all);
    let mut joined = [part("1/3"), part("2/3"), part("3/3")].concat();
    joined.sort_by_key(|prompt| prompt.row);
    assert_eq!(joined, all);
}
