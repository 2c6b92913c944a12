//! Small jobs on words. Only words of the shared list occur, since spelling and capitals have to be known by heart.

use crate::check::Check;
use crate::dialogue::Dialogue;
use crate::kind::Kind;
use crate::lexicon::{COLOURS, GROUPS, ask, commas, fill, words};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "upper_case", weight: 2.0, write: upper_case },
    Kind { name: "lower_case", weight: 1.0, write: lower_case },
    Kind { name: "replace_word", weight: 2.0, write: replace_word },
    Kind { name: "remove_word", weight: 2.0, write: remove_word },
    Kind { name: "repeat_word", weight: 1.5, write: repeat_word },
    Kind { name: "join_words", weight: 2.0, write: join_words },
    Kind { name: "first_letter", weight: 1.0, write: first_letter },
    Kind { name: "spell_word", weight: 1.5, write: spell_word },
    Kind { name: "quote_words", weight: 1.0, write: quote_words },
    Kind { name: "swap_words", weight: 1.5, write: swap_words },
];

const UPPER: &[&str] = &[
    "Write {text} in capital letters.",
    "write {text} in capitals",
    "Write this in upper case: {text}",
    "Change to upper case: {text}",
    "Put {text} in upper case.",
    "Please write {text} in upper case.",
    "Can you write this in capital letters: {text}?",
    "Upper case, please: {text}",
    "Make this upper case: {text}",
    "What is {text} in capital letters?",
    "I need this in capitals: {text}",
    "{text}: write this in capitals.",
    "Please change this to upper case: {text}",
    "Can you write {text} in capitals?",
    "I need this in upper case: {text}",
    "What is {text} in upper case?",
];

const LOWER: &[&str] = &[
    "Write {text} in small letters.",
    "write {text} in lower case",
    "Write this in lower case: {text}",
    "Change to lower case: {text}",
    "Put {text} in lower case.",
    "Please write {text} in lower case.",
    "Can you write this in small letters: {text}?",
    "Lower case, please: {text}",
    "Make this lower case: {text}",
    "What is {text} in small letters?",
    "I need this in small letters: {text}",
    "{text}: write this in lower case.",
    "Please change this to lower case: {text}",
    "Can you write {text} in small letters?",
    "I need this in lower case: {text}",
    "What is {text} in lower case?",
];

const REPLACE: &[&str] = &[
    "Replace {old} with {new}: {text}",
    "replace {old} with {new} in this sentence: {text}",
    "In this sentence, replace {old} with {new}: {text}",
    "Replace the word {old} with {new}: {text}",
    "Change {old} to {new}: {text}",
    "Change the word {old} to {new} in this sentence: {text}",
    "Please replace {old} with {new}.\n{text}",
    "{text}\nReplace {old} with {new}.",
    "{text}\nChange {old} to {new}.",
    "Write this sentence with {new} instead of {old}: {text}",
    "Use {new} instead of {old}: {text}",
    "Can you change {old} to {new}? {text}",
    "Please change the word {old} to {new}: {text}",
    "{text}\nPlease use {new} instead of {old}.",
    "Can you replace the word {old} with {new}? {text}",
    "In this sentence, change {old} to {new}: {text}",
];

const REMOVE: &[&str] = &[
    "Remove the word {old}: {text}",
    "remove {old} from this sentence: {text}",
    "Remove {old} from: {text}",
    "Delete the word {old}: {text}",
    "Delete {old} in this sentence: {text}",
    "Write this sentence without {old}: {text}",
    "Write this without the word {old}: {text}",
    "Please remove {old}.\n{text}",
    "{text}\nRemove the word {old}.",
    "{text}\nDelete {old}.",
    "Take the word {old} out of this sentence: {text}",
    "Can you delete the word {old}? {text}",
    "Please write this sentence without the word {old}: {text}",
    "Can you remove {old} from this sentence? {text}",
    "{text}\nPlease delete the word {old}.",
    "Take {old} out of this: {text}",
];

const REPEAT: &[&str] = &[
    "Write {word} {n} times.",
    "write the word {word} {n} times",
    "Repeat {word} {n} times.",
    "Repeat the word {word} {n} times.",
    "Say {word} {n} times.",
    "Please repeat {word} {n} times.",
    "Can you say {word} {n} times?",
    "{n} times the word {word}, please.",
    "{word}, {n} times",
    "I want to see {word} {n} times.",
    "Give me the word {word} {n} times.",
    "Type {word} {n} times.",
    "Please say the word {word} {n} times.",
    "Can you repeat the word {word} {n} times?",
    "Please write {word} {n} times.",
    "I want you to say {word} {n} times.",
];

const JOIN: &[&str] = &[
    "Join these words with a {sign}: {list}",
    "join {list} with a {sign}",
    "Put a {sign} between these words: {list}",
    "Write these words with a {sign} between them: {list}",
    "Join the words {list} with a {sign}.",
    "Connect these words with a {sign}: {list}",
    "Please put a {sign} between the words {list}.",
    "Can you join these with a {sign}: {list}?",
    "Here are some words: {list}. Join them with a {sign}.",
    "{list}: put a {sign} between them.",
    "Use a {sign} to join these words: {list}",
    "Please connect {list} with a {sign}.",
    "Please join these words with a {sign}: {list}",
    "Can you put a {sign} between these words: {list}?",
    "Here are some words: {list}. Put a {sign} between them.",
    "Connect the words {list} with a {sign}.",
];

const FIRST: &[&str] = &[
    "What is the first letter of {word}?",
    "what letter does {word} start with",
    "Which letter does {word} start with?",
    "First letter of {word}?",
    "Tell me the first letter of {word}.",
    "Give me the first letter of the word {word}.",
    "The word {word} starts with which letter?",
    "Please tell me the first letter of the word {word}.",
    "Find the first letter of {word}.",
    "With which letter does {word} begin?",
    "Which letter comes first in {word}?",
    "Please give me the first letter of {word}.",
    "What is the first letter of the word {word}?",
    "Can you tell me the first letter of {word}?",
    "Which letter does the word {word} begin with?",
];

const SPELL: &[&str] = &[
    "Spell the word {word}.",
    "spell {word}",
    "How do you spell {word}?",
    "Please spell {word}.",
    "Spell {word} letter by letter.",
    "Can you spell {word}?",
    "Write {word} letter by letter.",
    "What are the letters of {word}?",
    "List the letters of {word}.",
    "How is {word} spelled?",
    "Give me the letters of the word {word}.",
    "Tell me how to spell {word}.",
    "Please spell the word {word} letter by letter.",
    "How do you spell the word {word}?",
    "Can you list the letters of {word}?",
    "Please tell me how to spell {word}.",
];

const QUOTE: &[&str] = &[
    "Put quotes around this: {text}",
    "put {text} in quotes",
    "Write this in quotes: {text}",
    "Put quotation marks around {text}.",
    "Add quotes to this: {text}",
    "Please put quotes around {text}.",
    "Can you write {text} in quotes?",
    "Write {text} with quotes around it.",
    "{text}: put this in quotes.",
    "I need quotes around this: {text}",
    "Please put {text} in quotation marks.",
    "Quote this: {text}",
    "Please write this with quotes around it: {text}",
    "Can you put quotes around {text}?",
    "Please add quotation marks to this: {text}",
    "I need {text} in quotes.",
];

const SWAP: &[&str] = &[
    "Swap these two words: {text}",
    "swap the words {text}",
    "Swap the order of {text}.",
    "Write these two words in the other order: {text}",
    "Change the order of these words: {text}",
    "Please swap {text}.",
    "Can you swap these words: {text}?",
    "{text}: swap the two words.",
    "Turn these two words around: {text}",
    "Put the second word first: {text}",
    "Put these two words in the other order: {text}",
    "Here are two words: {text}. Swap them.",
    "Please swap the order of these two words: {text}",
    "Can you write {text} in the other order?",
    "Here are two words: {text}. Put the second word first.",
    "Please turn the words {text} around.",
];

const SENTENCES: &[&str] = &[
    "The {colour} {animal} sleeps under the {place}.",
    "The {colour} {animal} sits near the {place}.",
    "The {animal} runs to the {colour} {place}.",
    "My {colour} {animal} likes the {place}.",
    "The {place} hides the {colour} {animal} from us.",
    "We saw the {colour} {animal} behind the {place}.",
];

const PLACES: &[&str] = &["table", "chair", "window", "river", "desk", "stone", "sofa", "ladder"];

const SIGNS: &[(&str, &str)] =
    &[("dash", " - "), ("plus sign", " + "), ("slash", " / "), ("comma", ", "), ("semicolon", "; ")];

const TIMES: &[&str] = &["two", "three", "four", "five"];

fn phrase(writer: &mut Writer, low: i64, high: i64) -> Vec<&'static str> {
    let n = writer.between(low, high) as usize;
    writer.distinct(&words(), n)
}

/// A sentence and the colour, the animal and the place in it.
fn sentence(writer: &mut Writer) -> (String, [&'static str; 3]) {
    let template = writer.pick(SENTENCES);
    let [colour, animal, place] = [writer.pick(COLOURS), writer.pick(GROUPS[1].1), writer.pick(PLACES)];
    (fill(template, &[("colour", &colour), ("animal", &animal), ("place", &place)]), [colour, animal, place])
}

fn exactly(text: String) -> (String, Check) {
    (text.clone(), Check::Exact(text))
}

fn upper_case(writer: &mut Writer) -> Dialogue {
    let text = writer.operands("upper_case", |writer| phrase(writer, 2, 3)).join(" ");
    ask("upper_case", writer, UPPER, &[("text", &text)], exactly(text.to_uppercase()))
}

fn lower_case(writer: &mut Writer) -> Dialogue {
    let text = writer.operands("lower_case", |writer| phrase(writer, 2, 3)).join(" ");
    ask("lower_case", writer, LOWER, &[("text", &text.to_uppercase())], exactly(text))
}

fn replace_word(writer: &mut Writer) -> Dialogue {
    let (text, old, new) = writer.operands("replace_word", |writer| {
        let (text, chosen) = sentence(writer);
        let at = writer.below(3);
        let new = *writer
            .distinct([COLOURS, GROUPS[1].1, PLACES][at], 2)
            .iter()
            .find(|new| **new != chosen[at])
            .unwrap_or(&"");
        (text, chosen[at], new)
    });
    let answer = exactly(text.replace(old, new));
    ask("replace_word", writer, REPLACE, &[("old", &old), ("new", &new), ("text", &text)], answer)
}

fn remove_word(writer: &mut Writer) -> Dialogue {
    let (text, old) = writer.operands("remove_word", |writer| {
        let (text, chosen) = sentence(writer);
        // Most often the colour, without which the sentence still is one.
        let at = if writer.chance(0.7) { 0 } else { 1 };
        (text, chosen[at])
    });
    let answer = exactly(text.replace(&format!(" {old}"), ""));
    ask("remove_word", writer, REMOVE, &[("old", &old), ("text", &text)], answer)
}

fn repeat_word(writer: &mut Writer) -> Dialogue {
    let (word, n) = writer.operands("repeat_word", |writer| (writer.pick(&words()), writer.between(2, 5) as usize));
    let times = if writer.chance(0.5) { n.to_string() } else { TIMES[n - 2].to_owned() };
    let answer = exactly(vec![word; n].join(" "));
    ask("repeat_word", writer, REPEAT, &[("word", &word), ("n", &times)], answer)
}

fn join_words(writer: &mut Writer) -> Dialogue {
    let ((sign, between), given) =
        writer.operands("join_words", |writer| (SIGNS[writer.below(SIGNS.len())], phrase(writer, 2, 4)));
    let answer = exactly(given.join(between));
    // The words come apart by spaces where the answer has commas, so that there is something to do.
    let list = if sign == "comma" { given.join(" ") } else { commas(&given) };
    ask("join_words", writer, JOIN, &[("sign", &sign), ("list", &list)], answer)
}

/// The first letters of words have to be known by heart, so only the wordings are held out.
fn first_letter(writer: &mut Writer) -> Dialogue {
    let word = writer.pick(&words());
    let answer = (format!("The first letter is: {}", &word[..1]), Check::list(&[&word[..1]]));
    ask("first_letter", writer, FIRST, &[("word", &word)], answer)
}

/// As with first letters, only the wordings are held out.
fn spell_word(writer: &mut Writer) -> Dialogue {
    let word = writer.pick(&words());
    let letters: Vec<char> = word.chars().collect();
    let answer = (format!("Letters: {}", commas(&letters)), Check::list(&letters));
    ask("spell_word", writer, SPELL, &[("word", &word)], answer)
}

fn quote_words(writer: &mut Writer) -> Dialogue {
    let text = writer.operands("quote_words", |writer| phrase(writer, 2, 3)).join(" ");
    ask("quote_words", writer, QUOTE, &[("text", &text)], exactly(format!("\"{text}\"")))
}

fn swap_words(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("swap_words", |writer| phrase(writer, 2, 2));
    let answer = exactly(format!("{} {}", given[1], given[0]));
    ask("swap_words", writer, SWAP, &[("text", &given.join(" "))], answer)
}
