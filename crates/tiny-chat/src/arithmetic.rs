//! Sums and the like. Every answer works in steps that each need one look-up in a table of one-digit sums, because a
//! small model learns those tables and not the sums of all pairs of numbers.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::lexicon::{NAMES, ask, commas, fill};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "sum", weight: 10.0, write: sum },
    Kind { name: "difference", weight: 5.0, write: difference },
    Kind { name: "product", weight: 2.0, write: product },
    Kind { name: "sum_three", weight: 2.0, write: sum_three },
    Kind { name: "word_problem", weight: 3.0, write: word_problem },
    Kind { name: "compare", weight: 3.0, write: compare },
    Kind { name: "parity", weight: 1.0, write: parity },
    Kind { name: "sequence", weight: 2.0, write: sequence },
    Kind { name: "double_half", weight: 1.5, write: double_half },
];

const SUM: &[&str] = &[
    "What is {a} + {b}?",
    "What is {a} plus {b}?",
    "{a} + {b} = ?",
    "{a} + {b}",
    "Add {a} and {b}.",
    "add {a} and {b}",
    "Please add {a} and {b}.",
    "What is the sum of {a} and {b}?",
    "Calculate {a} + {b}.",
    "please calculate {a} plus {b}",
    "How much is {a} plus {b}?",
    "how much is {a} + {b}",
    "Can you add {a} and {b} for me?",
    "Work out {a} plus {b}.",
    "I need the sum of {a} and {b}.",
    "What do you get when you add {a} and {b}?",
    "Tell me {a} plus {b}, please.",
    "sum of {a} and {b}?",
    "Can you tell me what {a} + {b} is?",
    "I have to add {a} and {b}. What do I get?",
    "Please work out {a} + {b}.",
    "How much do you get when you add {a} and {b}?",
    "Can you tell me what {a} plus {b} is?",
    "Please calculate the sum of {a} and {b}.",
    "what is {a} plus {b}, please?",
    "I need to add {a} and {b}. How much is it?",
];

const DIFFERENCE: &[&str] = &[
    "What is {a} - {b}?",
    "What is {a} minus {b}?",
    "{a} - {b} = ?",
    "{a} - {b}",
    "{a} minus {b}?",
    "How much is {a} minus {b}?",
    "how much is {a} - {b}",
    "Calculate {a} - {b}.",
    "please calculate {a} minus {b}",
    "Work out {a} minus {b}.",
    "Tell me {a} minus {b}, please.",
    "What is left when you start with {a} and take away {b}?",
    "Start with {a} and take away {b}.",
    "Can you tell me what {a} - {b} is?",
    "I have {a} and take away {b}. What is left?",
    "Please work out {a} - {b}.",
    "Can you tell me what {a} minus {b} is?",
    "what is {a} minus {b}, please?",
    "Please start with {a} and take away {b}. What is left?",
    "Please calculate {a} - {b}.",
];

const PRODUCT: &[&str] = &[
    "What is {a} x {b}?",
    "What is {a} times {b}?",
    "{a} x {b} = ?",
    "{a} times {b}",
    "Multiply {a} by {b}.",
    "multiply {a} and {b}",
    "How much is {a} times {b}?",
    "Calculate {a} x {b}.",
    "Work out {a} times {b}.",
    "What is the product of {a} and {b}?",
    "Tell me {a} times {b}, please.",
    "Can you multiply {a} by {b}?",
    "Please work out {a} x {b}.",
    "Please multiply {a} and {b}.",
    "Can you tell me what {a} times {b} is?",
    "how much is {a} x {b}?",
];

const SUM_THREE: &[&str] = &[
    "What is {a} + {b} + {c}?",
    "{a} + {b} + {c}",
    "{a} + {b} + {c} = ?",
    "What is {a} plus {b} plus {c}?",
    "Add {a}, {b} and {c}.",
    "add {a}, {b} and {c}, please",
    "What is the sum of {a}, {b} and {c}?",
    "Calculate {a} + {b} + {c}.",
    "How much is {a} plus {b} plus {c}?",
    "Work out {a} + {b} + {c}.",
    "Can you add {a}, {b} and {c} for me?",
    "I need the sum of {a}, {b} and {c}.",
    "Please add {a}, {b} and {c}.",
    "how much is {a} + {b} + {c}?",
    "Please work out the sum of {a}, {b} and {c}.",
    "Can you tell me what {a} + {b} + {c} is?",
];

const MORE: &[&str] = &[
    "{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?",
    "{name} has {a} {thing}. Then {name} buys {b} more. How many {thing} does {name} have now?",
    "There are {a} {thing} on the table. {name} adds {b} more. How many {thing} are there now?",
    "{name} finds {a} {thing} on Monday and {b} {thing} on Tuesday. How many {thing} is that in all?",
    "A box holds {a} {thing} and a bag holds {b} {thing}. How many {thing} are there in all?",
    "{name} bought {a} {thing}. A friend gave {name} {b} more. How many {thing} is that in all?",
    "{name} has {a} {thing} and a friend has {b} {thing}. How many {thing} do they have together?",
    "how many {thing} does {name} have after starting with {a} and getting {b} more?",
    "If {name} has {a} {thing} and buys {b} more, how many {thing} does {name} have?",
    "{name} has {a} {thing}. A friend gives {name} {b} more. How many {thing} does {name} have now?",
    "There are {a} {thing} in a box. {name} adds {b} more. How many {thing} are in the box now?",
    "{name} buys {a} {thing} on Monday and {b} {thing} on Tuesday. How many {thing} is that in all?",
];

const LESS: &[&str] = &[
    "{name} has {a} {thing} and gives away {b}. How many {thing} are left?",
    "{name} has {a} {thing} and loses {b}. How many {thing} does {name} have now?",
    "There are {a} {thing} on the table. {name} takes {b} away. How many {thing} are left?",
    "{name} had {a} {thing} and sold {b} of them. How many {thing} are left?",
    "A box holds {a} {thing}. {name} takes out {b}. How many {thing} are left in the box?",
    "{name} bought {a} {thing} and gave {b} to a friend. How many {thing} does {name} have left?",
    "how many {thing} are left when {name} has {a} and gives away {b}?",
    "If {name} has {a} {thing} and loses {b}, how many are left?",
    "{name} starts with {a} {thing} and gives {b} to a friend. How many are left?",
    "There are {a} {thing} in a box. {name} takes {b} away. How many {thing} are left?",
    "{name} had {a} {thing} and gave away {b}. How many {thing} does {name} have left?",
    "If {name} has {a} {thing} and gives away {b}, how many {thing} are left?",
];

const THINGS: &[&str] = &["apples", "coins", "books", "cards", "eggs", "pens", "stones", "stamps", "cookies", "balls"];

const COMPARE: &[&str] = &[
    "Which is {which}, {a} or {b}?",
    "Which number is {which}: {a} or {b}?",
    "which is {which}: {a} or {b}",
    "What is the {which} number, {a} or {b}?",
    "{a} or {b}: which is {which}?",
    "Tell me the {which} number: {a}, {b}.",
    "Give me the {which} of {a} and {b}.",
    "Compare {a} and {b}. Which is {which}?",
    "Of {a} and {b}, which is {which}?",
    "Is {a} or {b} the {which} number?",
    "Find the {which} number of {a} and {b}.",
    "Can you tell me which is {which}, {a} or {b}?",
    "Please tell me which number is {which}, {a} or {b}.",
    "Please compare {a} and {b} and give me the {which} number.",
    "{a} and {b}: which number is {which}?",
    "What is the {which} of {a} and {b}?",
];

const PARITY: &[&str] = &[
    "Is {a} even or odd?",
    "is {a} odd or even?",
    "Is the number {a} even or odd?",
    "{a}: even or odd?",
    "Tell me if {a} is even or odd.",
    "Even or odd: {a}",
    "Is {a} an even number or an odd number?",
    "Please tell me if the number {a} is odd or even.",
    "Can you tell me if {a} is odd or even?",
    "What is {a}, even or odd?",
    "Please tell me if {a} is even or odd.",
    "Can you tell me if the number {a} is even or odd?",
    "{a}: odd or even?",
];

const SEQUENCE: &[&str] = &[
    "What comes next: {list}?",
    "What is the next number: {list}, ?",
    "{list}, ... What comes next?",
    "Which number comes after {list}?",
    "Continue the sequence {list}.",
    "Find the next number in {list}.",
    "next number: {list}",
    "Give me the next number in the sequence {list}.",
    "The sequence starts {list}. What is the next number?",
    "{list}: which number is next?",
    "Look at the sequence {list}. Which number comes next?",
    "what comes after {list}?",
    "Please find the next number in the sequence {list}.",
    "Please continue {list}.",
    "Look at {list}. What comes next?",
    "{list}. Which number comes next?",
];

const DOUBLE_HALF: &[&str] = &[
    "What is {which} {a}?",
    "{which} {a}?",
    "How much is {which} {a}?",
    "how much is {which} {a}",
    "Calculate {which} {a}.",
    "Tell me {which} {a}.",
    "Work out {which} {a}.",
    "Give me {which} {a}, please.",
    "Can you work out {which} {a}?",
    "I need {which} {a}.",
    "Please work out {which} {a}.",
    "Can you tell me {which} {a}?",
    "what is {which} {a}, please?",
];

/// A number below 100, with more than their share of those below 10.
fn small(writer: &mut Writer) -> i64 {
    if writer.chance(0.12) { writer.between(0, 9) } else { writer.between(0, 99) }
}

/// Two numbers, the larger one first.
fn ordered(writer: &mut Writer) -> (i64, i64) {
    let (a, b) = (small(writer), small(writer));
    (a.max(b), a.min(b))
}

/// Column addition: the ones, then the tens and the carry, then both results side by side.
pub(crate) fn add_steps(a: i64, b: i64) -> String {
    let (ones, tens) = (a % 10 + b % 10, a / 10 + b / 10);
    let carry = ones / 10;
    format!(
        "{a} + {b}. Ones: {} + {} = {ones}, carry {carry}. Tens: {} + {} = {tens}, {tens} + {carry} = {}. The answer is {}.",
        a % 10,
        b % 10,
        a / 10,
        b / 10,
        tens + carry,
        a + b
    )
}

/// Column subtraction of a smaller number, in the same order.
pub(crate) fn subtract_steps(a: i64, b: i64) -> String {
    let borrow = i64::from(a % 10 < b % 10);
    let (from, tens) = (a % 10 + 10 * borrow, a / 10 - b / 10);
    format!(
        "{a} - {b}. Ones: {from} - {} = {}, borrow {borrow}. Tens: {} - {} = {tens}, {tens} - {borrow} = {}. The answer is {}.",
        b % 10,
        from - b % 10,
        a / 10,
        b / 10,
        tens - borrow,
        a - b
    )
}

fn sum(writer: &mut Writer) -> Dialogue {
    let (a, b) = writer.operands("sum", |writer| (small(writer), small(writer)));
    ask("sum", writer, SUM, &[("a", &a), ("b", &b)], (add_steps(a, b), Check::number(a + b)))
}

fn difference(writer: &mut Writer) -> Dialogue {
    let (a, b) = writer.operands("difference", ordered);
    ask("difference", writer, DIFFERENCE, &[("a", &a), ("b", &b)], (subtract_steps(a, b), Check::number(a - b)))
}

/// The times table has to be known by heart, so only the wordings are held out.
fn product(writer: &mut Writer) -> Dialogue {
    let (a, b) = (writer.between(0, 10), writer.between(0, 10));
    let answer = format!("{a} x {b} = {}. The answer is {}.", a * b, a * b);
    ask("product", writer, PRODUCT, &[("a", &a), ("b", &b)], (answer, Check::number(a * b)))
}

fn sum_three(writer: &mut Writer) -> Dialogue {
    let (a, b, c) =
        writer.operands("sum_three", |writer| (writer.between(0, 9), writer.between(0, 9), writer.between(0, 9)));
    let (two, all) = (a + b, a + b + c);
    let answer = format!("{a} + {b} = {two}. {two} + {c} = {all}. The answer is {all}.");
    ask("sum_three", writer, SUM_THREE, &[("a", &a), ("b", &b), ("c", &c)], (answer, Check::number(all)))
}

fn word_problem(writer: &mut Writer) -> Dialogue {
    let (name, thing) = (writer.pick(NAMES), writer.pick(THINGS));
    let (more, a, b) = writer.operands("word_problem", |writer| {
        // Two or more of each, so that the plural is right.
        let (a, b) = (writer.between(2, 99), writer.between(2, 99));
        let more = writer.chance(0.5);
        if more { (more, a, b) } else { (more, a.max(b), a.min(b)) }
    });
    let (wordings, answer, right) =
        if more { (MORE, add_steps(a, b), a + b) } else { (LESS, subtract_steps(a, b), a - b) };
    let fields: &[(&str, &dyn std::fmt::Display)] = &[("name", &name), ("thing", &thing), ("a", &a), ("b", &b)];
    ask("word_problem", writer, wordings, fields, (answer, Check::number(right)))
}

fn compare(writer: &mut Writer) -> Dialogue {
    let (which, a, b) = writer.operands("compare", |writer| {
        let two: Vec<i64> = writer.distinct(&(0..100).collect::<Vec<_>>(), 2);
        (writer.pick(&["bigger", "larger", "smaller"]), two[0], two[1])
    });
    let right = if which == "smaller" { a.min(b) } else { a.max(b) };
    let answer = format!("The {which} number is {right}.");
    ask("compare", writer, COMPARE, &[("which", &which), ("a", &a), ("b", &b)], (answer, Check::number(right)))
}

fn parity(writer: &mut Writer) -> Dialogue {
    let a = writer.operands("parity", |writer| writer.between(0, 199));
    let right = if a % 2 == 0 { "even" } else { "odd" };
    let answer = format!("{a} ends in {}, so it is {right}.", a % 10);
    ask("parity", writer, PARITY, &[("a", &a)], (answer, Check::contains(right)))
}

fn sequence(writer: &mut Writer) -> Dialogue {
    let (start, step) = writer.operands("sequence", |writer| (writer.between(0, 50), writer.between(1, 10)));
    let terms: Vec<i64> = (0..4).map(|n| start + n * step).collect();
    let last = start + 3 * step;
    let answer = format!("Each step adds {step}. {}", add_steps(last, step));
    ask("sequence", writer, SEQUENCE, &[("list", &commas(&terms))], (answer, Check::number(last + step)))
}

fn double_half(writer: &mut Writer) -> Dialogue {
    let (double, n) = writer.operands("double_half", |writer| (writer.chance(0.5), writer.between(1, 49)));
    let (which, a, answer, right) = if double {
        ("double", n, add_steps(n, n), 2 * n)
    } else {
        let (a, tens) = (2 * n, 2 * n / 10 * 10);
        let steps = "Half of {tens} is {h}, half of {ones} is {o}. {h} + {o} = {n}. The answer is {n}.";
        let steps =
            fill(steps, &[("tens", &tens), ("h", &(tens / 2)), ("ones", &(a % 10)), ("o", &(a % 10 / 2)), ("n", &n)]);
        ("half of", a, steps, n)
    };
    let user = fill(writer.wording(DOUBLE_HALF), &[("which", &which), ("a", &a)]);
    Dialogue::single("double_half", Exchange::checked(user, answer, Check::number(right)))
}
