//! The words that checkable kinds share. One small vocabulary for all of them, since a small model sees each word only
//! as often as the corpus repeats it.

use super::{Check, Dialogue, Exchange, Pen};
use std::fmt::Display;

/// Given names.
pub(super) const NAMES: &[&str] = &[
    "Mia", "Tom", "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Kate", "Leo",
    "Lucy", "Max", "Nina", "Oscar", "Paul", "Rosa", "Sam", "Tina", "Victor", "Wendy", "Adam", "Bella", "Carl", "Diana",
    "Eric", "Fiona", "George", "Helen", "Ivan", "Julia", "Kevin", "Laura", "Martin", "Nora", "Peter", "Sara",
];

/// Groups of things, each with its name.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
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
pub(super) const COLOURS: &[&str] =
    &["red", "blue", "green", "yellow", "black", "white", "brown", "pink", "purple", "grey"];

/// Words of no group, which fill the alphabet up.
const OTHERS: &[&str] = &[
    "engine", "island", "kite", "music", "number", "ocean", "paper", "queen", "river", "stone", "umbrella", "violin",
    "window", "yard",
];

/// All words of the groups, and the others.
pub(super) fn words() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, words)| words.iter()).chain(OTHERS).copied().collect()
}

/// `n` different things that can be bought.
pub(super) fn goods(pen: &mut Pen, n: usize) -> Vec<&'static str> {
    let all: Vec<_> = GROUPS.iter().filter(|(group, _)| !matches!(*group, "animal" | "colour")).collect();
    let all: Vec<_> = all.iter().flat_map(|(_, words)| words.iter().copied()).collect();
    pen.distinct(&all, n)
}

/// Puts values in the place of their names in braces.
pub(super) fn fill(template: &str, fields: &[(&str, &dyn Display)]) -> String {
    fields
        .iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()))
}

/// A dialogue of one question, in one of the wordings, and its answer.
pub(super) fn ask(
    kind: &'static str,
    pen: &mut Pen,
    wordings: &[&str],
    fields: &[(&str, &dyn Display)],
    (answer, check): (String, Check),
) -> Dialogue {
    let user = fill(pen.wording(wordings), fields);
    Dialogue::single(kind, Exchange::checked(user, answer, check))
}

/// Items with commas between them.
pub(super) fn commas<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Items as a user writes them: with commas, and now and then with an `and` before the last one.
pub(super) fn listed<T: ToString>(pen: &mut Pen, items: &[T]) -> String {
    match items.split_last() {
        Some((last, rest)) if !rest.is_empty() && pen.chance(0.2) => {
            format!("{} and {}", commas(rest), last.to_string())
        }
        _ => commas(items),
    }
}

/// What every file's kinds are tested for: answers pass their own checks, most other answers fail them, and no prompt
/// is in both splits.
#[cfg(test)]
pub(super) fn verify(kinds: &[super::Kind]) {
    use super::Split;
    use std::collections::HashSet;
    for kind in kinds {
        let draw = |split| (0..500).map(|i| (kind.write)(&mut Pen::new(7, split, i))).collect::<Vec<_>>();
        let [train, held] = [Split::Train, Split::HeldOut].map(draw);
        for half in [&train, &held] {
            let exchanges: Vec<_> = half.iter().flat_map(|dialogue| &dialogue.exchanges).collect();
            let mut wrong_passes = 0;
            for (i, exchange) in exchanges.iter().enumerate() {
                let check = exchange.check.as_ref().expect("checkable");
                assert!(check.passes(&exchange.assistant), "{}: {exchange:?}", kind.name);
                assert!(!exchange.user.contains(['{', '}']), "{}: {}", kind.name, exchange.user);
                wrong_passes += usize::from(check.passes(&exchanges[(i + 1) % exchanges.len()].assistant));
            }
            assert!(wrong_passes * 10 < exchanges.len() * 6, "{}: {wrong_passes} wrong answers pass", kind.name);
        }
        assert!(train.iter().chain(&held).all(|dialogue| dialogue.kind == kind.name), "{}", kind.name);
        let users = |half: &[Dialogue]| half.iter().map(|d| d.exchanges[0].user.clone()).collect::<HashSet<_>>();
        let shared: Vec<_> = users(&train).intersection(&users(&held)).cloned().collect();
        assert!(shared.is_empty(), "{}: {shared:?}", kind.name);
    }
}
