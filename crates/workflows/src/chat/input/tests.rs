use super::*;

#[test]
fn a_line_is_a_message() {
    let mut lines = Lines::default();
    assert_eq!(lines.push("hello").as_deref(), Some("hello"));
    assert_eq!(lines.push("from Windows\r").as_deref(), Some("from Windows"));
    assert_eq!(lines.push("").as_deref(), Some(""));
    assert_eq!(lines.finish(), None);
}

#[test]
fn a_block_is_one_message_whatever_its_lines() {
    let mut lines = Lines::default();
    assert_eq!(lines.push("\"\"\"first"), None);
    assert_eq!(lines.push(""), None);
    assert_eq!(lines.push("/help"), None);
    let whole = lines.push("\"\"\"").unwrap();
    assert_eq!(block(&whole), Block::Closed("first\n\n/help".into()));
    let one_line = lines.push("\"\"\"a b\"\"\"").unwrap();
    assert_eq!(block(&one_line), Block::Closed("a b".into()));
}

#[test]
fn a_block_without_an_end_ends_with_the_input() {
    let mut lines = Lines::default();
    assert_eq!(lines.push("\"\"\""), None);
    assert_eq!(lines.push("left open"), None);
    assert_eq!(block(&lines.finish().unwrap()), Block::Closed("left open".into()));
}

#[test]
fn marks_inside_a_line_are_text() {
    assert_eq!(block("say \"\"\" twice"), Block::Plain);
    assert_eq!(block("\"\"\"say"), Block::Open);
    assert_eq!(block("\"\"\""), Block::Open);
}
