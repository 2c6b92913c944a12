//! Lists: sorting, searching and counting. An answer's list always follows a colon, so that its items are the same
//! tokens as those of the question.

use crate::check::Check;
use crate::dialogue::Dialogue;
use crate::kind::Kind;
use crate::lexicon::{GROUPS, ask, commas, listed, words};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "sort_ascending", weight: 20.0, write: sort_ascending },
    Kind { name: "sort_descending", weight: 8.0, write: sort_descending },
    Kind { name: "sort_words", weight: 5.0, write: sort_words },
    Kind { name: "extreme", weight: 3.0, write: extreme },
    Kind { name: "count_items", weight: 1.5, write: count_items },
    Kind { name: "reverse_list", weight: 2.0, write: reverse_list },
    Kind { name: "nth_item", weight: 2.0, write: nth_item },
    Kind { name: "category", weight: 2.0, write: category },
];

const ASCENDING: &[&str] = &[
    "Sort these numbers: {list}",
    "Sort these numbers from smallest to largest: {list}",
    "sort the numbers {list}",
    "Sort in ascending order: {list}",
    "Put these numbers in order: {list}",
    "Put the numbers {list} in ascending order.",
    "Please sort: {list}",
    "Please sort these numbers from smallest to largest: {list}.",
    "Can you sort {list}?",
    "Can you put these numbers in ascending order: {list}?",
    "Order these numbers from smallest to largest: {list}",
    "{list}: sort these numbers.",
    "Here are some numbers: {list}. Sort them.",
    "Here are some numbers: {list}. Put them in order, smallest first.",
    "Write the numbers {list} from smallest to largest.",
    "I need these numbers sorted: {list}",
    "smallest to largest: {list}",
    "Arrange these numbers in ascending order: {list}",
    "Please put these numbers in order: {list}",
    "Can you sort these numbers from smallest to largest: {list}?",
    "Here are some numbers: {list}. Please sort them in ascending order.",
    "sort these numbers, smallest first: {list}",
    "Please write these numbers in ascending order: {list}.",
    "I need the numbers {list} in order, from smallest to largest.",
];

const DESCENDING: &[&str] = &[
    "Sort these numbers from largest to smallest: {list}",
    "sort the numbers {list}, largest first",
    "Sort in descending order: {list}",
    "Put these numbers in descending order: {list}",
    "Put the numbers {list} in order, largest first.",
    "Please sort these numbers from largest to smallest: {list}.",
    "Can you put these numbers in descending order: {list}?",
    "Order these numbers from largest to smallest: {list}",
    "{list}: sort these numbers in descending order.",
    "Here are some numbers: {list}. Sort them, largest first.",
    "Write the numbers {list} from largest to smallest.",
    "I need these numbers in descending order: {list}",
    "largest to smallest: {list}",
    "Can you sort these numbers from largest to smallest: {list}?",
    "Please put these numbers in order, largest first: {list}",
    "Here are some numbers: {list}. Please sort them in descending order.",
    "Write these numbers in descending order: {list}.",
];

const ALPHABETICAL: &[&str] = &[
    "Sort these words: {list}",
    "Sort these words alphabetically: {list}",
    "sort the words {list}",
    "Sort in alphabetical order: {list}",
    "Put these words in alphabetical order: {list}",
    "Put the words {list} in alphabetical order.",
    "Please sort alphabetically: {list}",
    "Please sort these words from A to Z: {list}.",
    "Can you put these words in alphabetical order: {list}?",
    "Order these words from A to Z: {list}",
    "{list}: sort these words alphabetically.",
    "Here are some words: {list}. Sort them.",
    "Write the words {list} in alphabetical order.",
    "I need these words in order from A to Z: {list}",
    "A to Z: {list}",
    "Arrange these words alphabetically: {list}",
    "Can you sort these words alphabetically: {list}?",
    "Please put these words in alphabetical order: {list}",
    "Here are some words: {list}. Please sort them from A to Z.",
    "sort these words in alphabetical order: {list}",
    "Please write the words {list} in order from A to Z.",
];

const EXTREME: &[&str] = &[
    "What is the {which} number in this list: {list}?",
    "Which number is the {which}: {list}?",
    "{which} of {list}?",
    "Find the {which} number: {list}",
    "find the {which} of {list}",
    "What is the {which} of {list}?",
    "Here are some numbers: {list}. Which is the {which}?",
    "{list}: which is the {which}?",
    "Tell me the {which} of these numbers: {list}.",
    "Give me the {which} number: {list}",
    "Please find the {which} of these numbers: {list}.",
    "Which of {list} is the {which}?",
    "Can you tell me the {which} number in {list}?",
    "Here are some numbers: {list}. What is the {which} number?",
    "Please tell me the {which} number: {list}.",
    "Can you find the {which} of {list}?",
    "Which of these numbers is the {which}: {list}?",
];

const COUNT: &[&str] = &[
    "How many items are in this list: {list}?",
    "Count the items: {list}",
    "how many words are here: {list}",
    "How many things are listed: {list}?",
    "Count the words in this list: {list}.",
    "Here is a list: {list}. How many items are there?",
    "{list}: how many items is that?",
    "Please count these items: {list}",
    "Tell me how many items there are: {list}.",
    "Can you count these words: {list}?",
    "Here is a list: {list}. Count the words.",
    "How many words are in {list}?",
    "Please tell me how many items are in this list: {list}.",
    "Can you count the items in this list: {list}?",
    "Count these words: {list}",
    "Here is a list: {list}. How many words are there?",
];

const REVERSE: &[&str] = &[
    "Reverse this list: {list}",
    "Reverse the list {list}.",
    "reverse: {list}",
    "Write this list backwards: {list}",
    "Write the items in reverse order: {list}",
    "Put this list in reverse order: {list}",
    "Please reverse these items: {list}.",
    "Can you reverse the list {list}?",
    "Here is a list: {list}. Reverse it.",
    "Give me {list} in reverse order.",
    "{list}: write these items backwards.",
    "Here is a list: {list}. Write it in reverse order.",
    "Please reverse this list: {list}.",
    "Can you write this list in reverse order: {list}?",
    "Here is a list: {list}. Please write it backwards.",
    "Put these items in reverse order: {list}",
];

const NTH: &[&str] = &[
    "What is the {nth} item in this list: {list}?",
    "Which item is {nth}: {list}?",
    "{nth} item of {list}?",
    "Give me the {nth} word: {list}",
    "give me the {nth} item of {list}",
    "Here is a list: {list}. What is the {nth} item?",
    "Tell me the {nth} word of {list}.",
    "{list}: which one is {nth}?",
    "Which word comes {nth} in {list}?",
    "Please find the {nth} item in this list: {list}.",
    "Can you give me the {nth} item: {list}?",
    "Find the {nth} word in this list: {list}",
    "Please tell me the {nth} item in this list: {list}.",
    "Here is a list: {list}. Which word is {nth}?",
    "Can you find the {nth} word: {list}?",
    "What is the {nth} word of {list}?",
];

const CATEGORY: &[&str] = &[
    "Which of these is {a} {group}: {list}?",
    "Which one is {a} {group}: {list}?",
    "which is {a} {group}: {list}",
    "Find the {group}: {list}",
    "Find the {group} in this list: {list}.",
    "{list}: which is {a} {group}?",
    "Here is a list: {list}. Which item is {a} {group}?",
    "Tell me which of these is {a} {group}: {list}.",
    "Which item in the list {list} is {a} {group}?",
    "Please find the {group}: {list}",
    "One of these is {a} {group}: {list}. Which one?",
    "Of {list}, which is {a} {group}?",
    "Please tell me which one is {a} {group}: {list}.",
    "Here is a list: {list}. Find the {group}.",
    "Can you find the {group} in this list: {list}?",
    "Which of {list} is {a} {group}?",
];

/// The largest number of a list.
const SORTED: i64 = 40;

const ORDINALS: &[&str] = &["first", "second", "third", "fourth", "fifth"];

/// `low` to `high` different small numbers: so few that a small model meets every two of them often enough to know
/// which is less.
fn numbers(writer: &mut Writer, low: i64, high: i64) -> Vec<i64> {
    let n = writer.between(low, high) as usize;
    writer.distinct(&(1..=SORTED).collect::<Vec<_>>(), n)
}

fn some_words(writer: &mut Writer, low: i64, high: i64) -> Vec<&'static str> {
    let n = writer.between(low, high) as usize;
    writer.distinct(&words(), n)
}

fn sort_ascending(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("sort_ascending", |writer| numbers(writer, 3, 5));
    let mut sorted = given.clone();
    sorted.sort_unstable();
    let answer = (format!("Sorted: {}", commas(&sorted)), Check::list(&sorted));
    let list = listed(writer, &given);
    ask("sort_ascending", writer, ASCENDING, &[("list", &list)], answer)
}

fn sort_descending(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("sort_descending", |writer| numbers(writer, 3, 5));
    let mut sorted = given.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let answer = (format!("Sorted: {}", commas(&sorted)), Check::list(&sorted));
    let list = listed(writer, &given);
    ask("sort_descending", writer, DESCENDING, &[("list", &list)], answer)
}

/// No two words begin with the same letter: the order then depends on one letter of each, which can be learnt by heart.
fn sort_words(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("sort_words", |writer| {
        let n = writer.between(3, 5) as usize;
        let mut chosen: Vec<&str> = Vec::new();
        for word in writer.distinct(&words(), words().len()) {
            if chosen.len() < n && chosen.iter().all(|other| other[..1] != word[..1]) {
                chosen.push(word);
            }
        }
        chosen
    });
    let mut sorted = given.clone();
    sorted.sort_unstable();
    let answer = (format!("Sorted: {}", commas(&sorted)), Check::list(&sorted));
    let list = listed(writer, &given);
    ask("sort_words", writer, ALPHABETICAL, &[("list", &list)], answer)
}

fn extreme(writer: &mut Writer) -> Dialogue {
    let (which, given) =
        writer.operands("extreme", |writer| (writer.pick(&["largest", "smallest"]), numbers(writer, 3, 5)));
    let (low, high) = given.iter().fold((i64::MAX, i64::MIN), |(low, high), &n| (low.min(n), high.max(n)));
    let right = if which == "largest" { high } else { low };
    let answer = (format!("The {which} number is {right}."), Check::number(right));
    let list = listed(writer, &given);
    ask("extreme", writer, EXTREME, &[("which", &which), ("list", &list)], answer)
}

/// Items with their numbers in front, which is how the answers count.
fn counted(items: &[&str]) -> String {
    let numbered: Vec<_> = items.iter().enumerate().map(|(i, item)| format!("{} {item}", i + 1)).collect();
    commas(&numbered)
}

fn count_items(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("count_items", |writer| some_words(writer, 2, 7));
    let answer = (format!("{}. The answer is {}.", counted(&given), given.len()), Check::number(given.len()));
    let list = listed(writer, &given);
    ask("count_items", writer, COUNT, &[("list", &list)], answer)
}

fn reverse_list(writer: &mut Writer) -> Dialogue {
    let given = writer.operands("reverse_list", |writer| some_words(writer, 3, 5));
    let reversed: Vec<_> = given.iter().rev().collect();
    let answer = (format!("Reversed: {}", commas(&reversed)), Check::list(&reversed));
    ask("reverse_list", writer, REVERSE, &[("list", &commas(&given))], answer)
}

fn nth_item(writer: &mut Writer) -> Dialogue {
    let (given, at) = writer.operands("nth_item", |writer| {
        let given = some_words(writer, 3, 5);
        let at = writer.below(given.len());
        (given, at)
    });
    let nth = if at + 1 == given.len() && writer.chance(0.6) { "last" } else { ORDINALS[at] };
    let answer = (format!("{}.\nAnswer: {}", counted(&given[..=at]), given[at]), Check::list(&given[at..=at]));
    ask("nth_item", writer, NTH, &[("nth", &nth), ("list", &commas(&given))], answer)
}

fn category(writer: &mut Writer) -> Dialogue {
    let (group, right, given) = writer.operands("category", |writer| {
        let groups = writer.distinct(GROUPS, 2);
        let right = writer.pick(groups[0].1);
        let n = writer.between(2, 4) as usize;
        let mut given = writer.distinct(groups[1].1, n);
        given.insert(writer.below(n + 1), right);
        (groups[0].0, right, given)
    });
    let answer = (format!("The {group} is: {right}"), Check::list(&[right]));
    let a = if group.starts_with('a') { "an" } else { "a" };
    ask("category", writer, CATEGORY, &[("a", &a), ("group", &group), ("list", &commas(&given))], answer)
}
