//! Tests of `replaying`.

use super::*;

#[test]
fn a_quotation_is_half_of_the_words_in_place() {
    let text = "  one two\tthree four\n five — six, seven eight nine";
    let mut starts = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let quote = quotation(text, &mut SeededRandom::new(seed)).unwrap();
        assert!(text.contains(quote) && quote.split_whitespace().count() == 5, "{quote:?}");
        assert_eq!(quote, quote.trim());
        starts.insert(quote.split_whitespace().next().map(str::to_owned));
        assert_eq!(Some(quote), quotation(text, &mut SeededRandom::new(seed)));
    }
    assert_eq!(starts.len(), 6, "every place is taken");
    assert_eq!(quotation("one two three four five six seven", &mut SeededRandom::new(0)), None);
    let long = "word ".repeat(1000);
    assert_eq!(quotation(&long, &mut SeededRandom::new(0)).map(|quote| quote.split(' ').count()), Some(128));
}

#[test]
fn an_edited_text_keeps_most_lines() {
    let text: String = (0..400).map(|line| format!("let name_{line} = call({line}, other_{line});\n\n")).collect();
    let changed = edited(&text, &mut SeededRandom::new(3));
    assert_eq!(changed, edited(&text, &mut SeededRandom::new(3)));
    assert_ne!(changed, edited(&text, &mut SeededRandom::new(4)));
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    let new = changed.lines().filter(|line| !lines.contains(line)).count();
    assert!((2..40).contains(&new), "{new} of 400 lines have another word");
    let words: std::collections::BTreeSet<&str> = text.split_whitespace().collect();
    assert!(changed.split_whitespace().all(|word| words.contains(word)), "words are the text's own");
    let blank = "\n \n\r\n";
    assert_eq!(edited(blank, &mut SeededRandom::new(0)), blank);
    assert_eq!(edited("", &mut SeededRandom::new(0)), "");
}
