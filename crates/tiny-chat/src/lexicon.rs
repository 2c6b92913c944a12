//! The words that checkable kinds share. One small vocabulary for all of them, since a small model sees each word only
//! as often as the corpus repeats it.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::writer::Writer;
use std::fmt::Display;

/// Given names.
pub(crate) const NAMES: &[&str] = &[
    "Mia", "Tom", "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Kate", "Leo",
    "Lucy", "Max", "Nina", "Oscar", "Paul", "Rosa", "Sam", "Tina", "Victor", "Wendy", "Adam", "Bella", "Carl", "Diana",
    "Eric", "Fiona", "George", "Helen", "Ivan", "Julia", "Kevin", "Laura", "Martin", "Nora", "Peter", "Sara",
];

/// Groups of things, each with its name.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("fruit", &["apple", "banana", "cherry", "fig", "grape", "lemon", "mango", "orange", "peach", "plum"]),
    (
        "animal",
        &["ant", "bear", "cat", "dog", "eagle", "fox", "goat", "horse", "lion", "rabbit", "tiger", "wolf", "zebra"],
    ),
    ("tool", &["axe", "drill", "hammer", "ladder", "nail", "rope", "saw", "wrench"]),
    ("piece of clothing", &["boot", "coat", "dress", "glove", "hat", "jacket", "scarf", "shirt"]),
    ("piece of furniture", &["bed", "chair", "desk", "shelf", "sofa", "table"]),
    ("colour", COLOURS),
];

/// Colours.
pub(crate) const COLOURS: &[&str] =
    &["red", "blue", "green", "yellow", "black", "white", "brown", "pink", "purple", "grey"];

/// Words of no group, which fill the alphabet up.
const OTHERS: &[&str] = &[
    "engine", "island", "kite", "music", "number", "ocean", "paper", "queen", "river", "stone", "umbrella", "violin",
    "window", "yard",
];

/// All words of the groups, and the others.
pub(crate) fn words() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, words)| words.iter()).chain(OTHERS).copied().collect()
}

/// `n` different things that can be bought.
pub(crate) fn goods(writer: &mut Writer, n: usize) -> Vec<&'static str> {
    let all: Vec<_> = GROUPS.iter().filter(|(group, _)| !matches!(*group, "animal" | "colour")).collect();
    let all: Vec<_> = all.iter().flat_map(|(_, words)| words.iter().copied()).collect();
    writer.distinct(&all, n)
}

/// Puts values in the place of their names in braces.
pub(crate) fn fill(template: &str, fields: &[(&str, &dyn Display)]) -> String {
    fields
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()))
}

/// A dialogue of one question, in one of the wordings, and its answer.
pub(crate) fn ask(
    kind: &'static str,
    writer: &mut Writer,
    wordings: &[&str],
    fields: &[(&str, &dyn Display)],
    (answer, check): (String, Check),
) -> Dialogue {
    let user = fill(writer.wording(wordings), fields);
    Dialogue::single(kind, Exchange::checked(user, answer, check))
}

/// Items with commas between them.
pub(crate) fn commas<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Items as a user writes them: with commas, and now and then with an `and` before the last one.
pub(crate) fn listed<T: ToString>(writer: &mut Writer, items: &[T]) -> String {
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() && writer.chance(0.2) => {
            format!("{} and {}", commas(rest), last.to_string())
        }
        _ => commas(items),
    }
}

/// Months, in order.
pub(crate) const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
