//! Tests of `text`.

use super::*;
use gorgon_text::tokenizer::Tokenizer;
use std::path::Path;

fn tokenizer() -> Tokenizer {
    Tokenizer::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny")).unwrap()
}

/// The text that is let through for each piece, and at the end.
fn pieces(stops: &[&str], given: &[&str]) -> (Vec<String>, String, bool) {
    let stops = stops.iter().map(|&stop| stop.to_owned()).collect();
    let mut text = Text::new(tokenizer().stream(true), stops);
    let out = given.iter().map(|piece| text.add(piece)).collect();
    let rest = text.finish().unwrap();
    (out, rest, text.is_stopped())
}

fn expect(stops: &[&str], given: &[&str], out: &[&str], rest: &str, stopped: bool) {
    let out: Vec<String> = out.iter().map(|&piece| piece.to_owned()).collect();
    assert_eq!(pieces(stops, given), (out, rest.to_owned(), stopped), "{stops:?} {given:?}");
}

#[test]
fn stop_strings_are_found_over_the_borders_of_pieces() {
    expect(&[], &["a", "b"], &["a", "b"], "", false);
    expect(&["END"], &["xE", "ND", "y"], &["x", "", ""], "", true);
    expect(&["END"], &["xE", "NE", "ND"], &["x", "EN", ""], "", true);
    expect(&["END"], &["xEN"], &["x"], "EN", false);
    expect(&["aab"], &["aa", "ab", "c"], &["", "a", ""], "", true);
    expect(&["é!"], &["caf", "é", "?"], &["caf", "", "é?"], "", false);
    expect(&["é!"], &["caf", "é", "!"], &["caf", "", ""], "", true);
}

#[test]
fn the_first_of_several_stop_strings_counts() {
    expect(&["world", "lo"], &["hello world"], &["hel"], "", true);
    expect(&["\n\n", "\n"], &["one\n", "\ntwo"], &["one", ""], "", true);
}

#[test]
fn text_passes_as_the_tokenizer_decodes_it() {
    let tokenizer = tokenizer();
    let ids = tokenizer.encode("List three colours: red, green.", false).unwrap();
    for stops in [vec![], vec!["zebra".to_owned()]] {
        let mut text = Text::new(tokenizer.stream(true), stops);
        let mut out: String = ids.iter().map(|&id| text.push(id).unwrap()).collect();
        out.push_str(&text.finish().unwrap());
        assert_eq!(out, tokenizer.decode(&ids, true).unwrap());
    }
}
