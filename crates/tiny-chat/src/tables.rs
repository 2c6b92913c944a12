//! Small tables and questions about them. An answer says the row before it answers, name and values side by side
//! whatever stands between them in the table: a small model finds what followed a word the first time, and then has the
//! value at hand.

use crate::check::Check;
use crate::dialogue::Dialogue;
use crate::kind::Kind;
use crate::lexicon::{COLOURS, NAMES, ask, fill, goods};
use crate::phrase::capital;
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "table_lookup", weight: 10.0, write: table_lookup },
    Kind { name: "table_columns", weight: 5.0, write: table_columns },
    Kind { name: "table_extreme", weight: 3.0, write: table_extreme },
    Kind { name: "table_reverse", weight: 3.0, write: table_reverse },
    Kind { name: "price_list", weight: 3.0, write: price_list },
    Kind { name: "phone_list", weight: 2.0, write: phone_list },
    Kind { name: "opening_hours", weight: 2.0, write: opening_hours },
];

/// Content of a column.
#[derive(Clone, Copy)]
enum Values {
    Between(i64, i64),
    Of(&'static [&'static str]),
}

/// A column of a table of people.
#[derive(Clone, Copy)]
struct Column {
    label: &'static str,
    heading: &'static str,
    /// A row as part of a sentence.
    clause: &'static str,
    values: Values,
}

const COLUMNS: &[Column] = &[
    Column { label: "age", heading: "Age", clause: "{n} is {v}", values: Values::Between(5, 90) },
    Column { label: "score", heading: "Score", clause: "{n} has a score of {v}", values: Values::Between(10, 99) },
    Column { label: "weight", heading: "Weight", clause: "{n} has a weight of {v}", values: Values::Between(40, 99) },
    Column { label: "room", heading: "Room", clause: "{n} is in room {v}", values: Values::Between(1, 60) },
    Column { label: "colour", heading: "Colour", clause: "{n} likes {v}", values: Values::Of(COLOURS) },
    Column { label: "city", heading: "City", clause: "{n} lives in {v}", values: Values::Of(CITIES) },
    Column { label: "sport", heading: "Sport", clause: "{n} plays {v}", values: Values::Of(SPORTS) },
];

const CITIES: &[&str] =
    &["Paris", "London", "Rome", "Berlin", "Madrid", "Vienna", "Oslo", "Dublin", "Prague", "Athens", "Lisbon", "Cairo"];

const SPORTS: &[&str] = &["tennis", "football", "chess", "golf", "hockey", "rugby", "basketball", "cricket"];

const PLACES: &[&str] = &["bakery", "library", "museum", "bank", "pool", "gym", "zoo", "cinema", "market", "school"];

const LOOKUP: &[&str] = &[
    "What is {name}'s {label}?",
    "what is {name}'s {label}",
    "What is the {label} of {name}?",
    "Tell me {name}'s {label}.",
    "Please tell me {name}'s {label}.",
    "{name}'s {label}?",
    "Give me the {label} of {name}.",
    "Look up {name}'s {label}.",
    "Look up the {label} of {name}.",
    "Which {label} does {name} have?",
    "Tell me which {label} {name} has.",
    "Find the {label} of {name}.",
    "find {name}'s {label}",
    "I need {name}'s {label}.",
    "Can you tell me the {label} of {name}?",
    "Can you look up {name}'s {label}?",
    "Which {label} is listed for {name}?",
    "Please look up the {label} of {name}.",
    "Can you find {name}'s {label}?",
    "I need the {label} of {name}, please.",
    "Please give me {name}'s {label}.",
    "Can you tell me which {label} {name} has?",
];

const EXTREME: &[&str] = &[
    "Who has the {which} {label}?",
    "who has the {which} {label}",
    "Tell me who has the {which} {label}.",
    "Please tell me who has the {which} {label}.",
    "Whose {label} is the {which}?",
    "Find the person with the {which} {label}.",
    "Which person has the {which} {label}?",
    "Look up who has the {which} {label}.",
    "The {which} {label}: who has it?",
    "I need the person with the {which} {label}.",
    "Can you tell me whose {label} is the {which}?",
    "Which of them has the {which} {label}?",
    "Can you tell me who has the {which} {label}?",
    "Please find the person with the {which} {label}.",
    "Tell me whose {label} is the {which}.",
    "Please look up who has the {which} {label}.",
];

const REVERSE: &[&str] = &[
    "Whose {label} is {value}?",
    "whose {label} is {value}",
    "Who has the {label} {value}?",
    "Tell me whose {label} is {value}.",
    "Find the person with the {label} {value}.",
    "Which person has the {label} {value}?",
    "Please tell me who has the {label} {value}.",
    "For whom is the {label} {value} listed?",
    "Look up who has the {label} {value}.",
    "I need the person with the {label} {value}.",
    "Can you tell me whose {label} is {value}?",
    "The {label} {value}: who has it?",
    "Can you find the person with the {label} {value}?",
    "Tell me who has the {label} {value}.",
    "Please look up whose {label} is {value}.",
    "Please find the person with the {label} {value}.",
];

const PRICE: &[&str] = &[
    "How much is the {thing}?",
    "how much is the {thing}",
    "What is the price of the {thing}?",
    "How much does the {thing} cost?",
    "What does the {thing} cost?",
    "Tell me the price of the {thing}.",
    "Look up the price of the {thing}.",
    "{thing}: what does it cost?",
    "I want to buy the {thing}. How much is it?",
    "Please tell me what the {thing} costs.",
    "Give me the price of the {thing}.",
    "I need the price of the {thing}.",
    "Can you tell me how much the {thing} costs?",
    "Please look up the price of the {thing}.",
    "I want to buy the {thing}. What does it cost?",
    "Can you tell me the price of the {thing}?",
];

const PHONE: &[&str] = &[
    "What is {name}'s phone number?",
    "what is {name}'s number",
    "What is the phone number of {name}?",
    "I want to call {name}. Which number is it?",
    "Give me {name}'s phone number.",
    "Which number do I call for {name}?",
    "Look up {name}'s number.",
    "Tell me the phone number of {name}.",
    "I need {name}'s phone number.",
    "phone number of {name}?",
    "Please find {name}'s number.",
    "How can I call {name}?",
    "Please give me the phone number of {name}.",
    "I want to call {name}. What is the number?",
    "Please look up {name}'s phone number.",
    "I need the number of {name}.",
];

const HOURS: &[&str] = &[
    "When does the {place} {verb}?",
    "when does the {place} {verb}",
    "At what time does the {place} {verb}?",
    "What time does the {place} {verb}?",
    "Tell me when the {place} {verb}s.",
    "Please tell me when the {place} {verb}s.",
    "I want to go to the {place}. When does it {verb}?",
    "Look up when the {place} {verb}s.",
    "The {place}: when does it {verb}?",
    "I need to know when the {place} {verb}s.",
    "Can you tell me at what time the {place} {verb}s?",
    "Do you know when the {place} {verb}s?",
    "Can you tell me when the {place} {verb}s?",
    "I want to go to the {place}. At what time does it {verb}?",
    "Please look up when the {place} {verb}s.",
    "Please tell me at what time the {place} {verb}s.",
];

/// `n` different values.
fn values(writer: &mut Writer, values: Values, n: usize) -> Vec<String> {
    match values {
        Values::Between(low, high) => {
            writer.distinct(&(low..=high).collect::<Vec<_>>(), n).iter().map(i64::to_string).collect()
        }
        Values::Of(words) => writer.distinct(words, n).iter().map(|word| (*word).to_owned()).collect(),
    }
}

fn markdown(heading: &[&str], rows: &[Vec<String>]) -> String {
    let rule = "| --- ".repeat(heading.len());
    let rows: Vec<_> = rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    format!("| {} |\n{rule}|\n{}", heading.join(" | "), rows.join("\n"))
}

/// A table as it is written, and what parts it from a question.
struct Written {
    text: String,
    gap: &'static str,
}

impl Written {
    /// Rows of cells below headings.
    fn markdown(heading: &[&str], rows: &[Vec<String>]) -> Self {
        Self { text: markdown(heading, rows), gap: "\n\n" }
    }

    /// Rows of a name and a value in one of the forms that people use.
    fn pairs(writer: &mut Writer, heading: [&str; 2], clause: &str, rows: &[(&str, String)]) -> Self {
        let each = |row: &str| {
            rows.iter().map(|(name, value)| fill(row, &[("n", name), ("v", value)])).collect::<Vec<String>>()
        };
        let title = heading[1];
        let (text, gap) = match writer.below(12) {
            0..=4 => (format!("{title}: {}", each("{n} {v}").join(", ")), "\n"),
            5..=7 => (format!("{title}\n- {}", each("{n} {v}").join("\n- ")), "\n\n"),
            8 => {
                let cells: Vec<_> = rows.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect();
                return Self::markdown(&heading, &cells);
            }
            9 => (each("{n}: {v}").join("\n"), "\n\n"),
            10 => (each("{n}: {v}").join(", "), "\n"),
            _ => (format!("{}.", capital(&each(clause).join(", "))), " "),
        };
        Self { text, gap }
    }
}

/// An answer that says a row, or a part of it, and what follows from it.
pub(crate) fn found(row: &[&str], fact: &str) -> String {
    format!("I find {}, so {fact}.", row.join(" "))
}

/// A dialogue about a table, which stands before the question or after it.
fn about(
    kind: &'static str,
    writer: &mut Writer,
    table: &Written,
    asked: impl FnOnce(&mut Writer) -> Dialogue,
) -> Dialogue {
    let mut dialogue = asked(writer);
    dialogue.kind = kind;
    let first = writer.chance(0.6);
    for exchange in &mut dialogue.exchanges {
        let (a, b) = if first { (&table.text, &exchange.user) } else { (&exchange.user, &table.text) };
        // A question without its mark must not run into the sentence after it.
        let gap = if !first && table.gap == " " { "\n" } else { table.gap };
        exchange.user = format!("{a}{gap}{b}");
    }
    dialogue
}

/// The value must be named last, of all that the table holds.
fn check<'a>(value: &str, all: impl IntoIterator<Item = &'a String>) -> Check {
    if value.parse::<i64>().is_ok() { Check::number(value) } else { Check::choice(value, all) }
}

/// The name must be the last one of the table's.
fn check_name(name: &str, rows: &[(&'static str, String)]) -> Check {
    let names: Vec<String> = rows.iter().map(|row| row.0.to_owned()).collect();
    Check::choice(name, &names)
}

/// People and one value for each, of which one row is asked about.
fn people(writer: &mut Writer, column: Column) -> (Vec<(&'static str, String)>, usize) {
    let n = writer.between(2, 5) as usize;
    let names = writer.distinct(NAMES, n);
    let rows = names.into_iter().zip(values(writer, column.values, n)).collect();
    (rows, writer.below(n))
}

fn table_lookup(writer: &mut Writer) -> Dialogue {
    let column = COLUMNS[writer.below(COLUMNS.len())];
    let (rows, at) = writer.operands("table_lookup", |writer| people(writer, column));
    let table = Written::pairs(writer, ["Name", column.heading], column.clause, &rows);
    let (name, value) = &rows[at];
    let answer = (
        found(&[name, value], &format!("{name}'s {} is {value}", column.label)),
        check(value, rows.iter().map(|row| &row.1)),
    );
    about("table_lookup", writer, &table, |writer| {
        ask("table_lookup", writer, LOOKUP, &[("name", name), ("label", &column.label)], answer)
    })
}

fn table_columns(writer: &mut Writer) -> Dialogue {
    let (columns, rows, at, which) = writer.operands("table_columns", |writer| {
        let columns = writer.distinct(&(0..COLUMNS.len()).collect::<Vec<_>>(), 2);
        let n = writer.between(2, 4) as usize;
        let names = writer.distinct(NAMES, n);
        let cells = [values(writer, COLUMNS[columns[0]].values, n), values(writer, COLUMNS[columns[1]].values, n)];
        let row = |i: usize| vec![names[i].to_owned(), cells[0][i].clone(), cells[1][i].clone()];
        let rows: Vec<_> = (0..n).map(row).collect();
        (columns, rows, writer.below(n), writer.below(2))
    });
    let heading = ["Name", COLUMNS[columns[0]].heading, COLUMNS[columns[1]].heading];
    let (label, name, value) = (COLUMNS[columns[which]].label, &rows[at][0], &rows[at][which + 1]);
    let table = Written::markdown(&heading, &rows);
    // The row, and then each value with its heading, so that the one asked for is found by its name and not by its
    // place.
    let [first, second] = [0, 1].map(|i| format!("{} {}", COLUMNS[columns[i]].label, rows[at][i + 1]));
    let fact = format!("{first}, {second}. {name}'s {label} is {value}");
    let row: Vec<&str> = rows[at].iter().map(String::as_str).collect();
    let answer = (format!("I find {}: {fact}.", row.join(" ")), check(value, rows.iter().flat_map(|row| &row[1..])));
    about("table_columns", writer, &table, |writer| {
        ask("table_columns", writer, LOOKUP, &[("name", name), ("label", &label)], answer)
    })
}

fn table_extreme(writer: &mut Writer) -> Dialogue {
    let column = COLUMNS[writer.below(3)];
    let (which, (rows, _)) =
        writer.operands("table_extreme", |writer| (writer.pick(&["highest", "lowest"]), people(writer, column)));
    let table = Written::pairs(writer, ["Name", column.heading], column.clause, &rows);
    let mut sorted: Vec<_> = rows.iter().map(|(name, value)| (value.len(), value, name)).collect();
    sorted.sort_unstable();
    let (_, value, name) = sorted[if which == "highest" { sorted.len() - 1 } else { 0 }];
    let answer = (found(&[value, name], &format!("{name} has the {which} {}", column.label)), check_name(name, &rows));
    about("table_extreme", writer, &table, |writer| {
        ask("table_extreme", writer, EXTREME, &[("which", &which), ("label", &column.label)], answer)
    })
}

fn table_reverse(writer: &mut Writer) -> Dialogue {
    let column = COLUMNS[writer.below(COLUMNS.len())];
    let (rows, at) = writer.operands("table_reverse", |writer| people(writer, column));
    let table = Written::pairs(writer, ["Name", column.heading], column.clause, &rows);
    let (name, value) = &rows[at];
    let answer =
        (found(&[value, name], &format!("the {} {value} belongs to {name}", column.label)), check_name(name, &rows));
    about("table_reverse", writer, &table, |writer| {
        ask("table_reverse", writer, REVERSE, &[("label", &column.label), ("value", value)], answer)
    })
}

fn price_list(writer: &mut Writer) -> Dialogue {
    let (rows, at) = writer.operands("price_list", |writer| {
        let n = writer.between(2, 5) as usize;
        let prices: Vec<_> = values(writer, Values::Between(2, 99), n).iter().map(|v| format!("{v} euros")).collect();
        (goods(writer, n).into_iter().zip(prices).collect::<Vec<_>>(), writer.below(n))
    });
    let table = Written::pairs(writer, ["Item", "Price"], "the {n} costs {v}", &rows);
    let (thing, price) = &rows[at];
    let answer = (
        found(&[thing, price], &format!("the {thing} costs {price}")),
        Check::number(price.trim_end_matches(" euros")),
    );
    about("price_list", writer, &table, |writer| ask("price_list", writer, PRICE, &[("thing", thing)], answer))
}

fn phone_list(writer: &mut Writer) -> Dialogue {
    let (rows, at) = writer.operands("phone_list", |writer| {
        let n = writer.between(2, 4) as usize;
        let rows: Vec<_> =
            writer.distinct(NAMES, n).into_iter().map(|name| (name, writer.between(1000, 9999).to_string())).collect();
        (rows, writer.below(n))
    });
    let table = Written::pairs(writer, ["Name", "Phone"], "{n} has the number {v}", &rows);
    let (name, number) = &rows[at];
    let answer = (found(&[name, number], &format!("{name}'s phone number is {number}")), Check::number(number));
    about("phone_list", writer, &table, |writer| ask("phone_list", writer, PHONE, &[("name", name)], answer))
}

fn opening_hours(writer: &mut Writer) -> Dialogue {
    let (rows, at, closing) = writer.operands("opening_hours", |writer| {
        let n = writer.between(2, 4) as usize;
        let mut rows: Vec<Vec<String>> = Vec::new();
        for place in writer.distinct(PLACES, n) {
            let (opens, closes) = (writer.between(6, 11), writer.between(13, 22));
            rows.push(vec![place.to_owned(), format!("{opens}:00"), format!("{closes}:00")]);
        }
        (rows, writer.below(n), writer.chance(0.5))
    });
    let table = if writer.chance(0.5) {
        Written::markdown(&["Place", "Opens", "Closes"], &rows)
    } else {
        let line = |row: &Vec<String>| format!("The {} opens at {} and closes at {}.", row[0], row[1], row[2]);
        Written { text: rows.iter().map(line).collect::<Vec<_>>().join("\n"), gap: "\n" }
    };
    let (verb, time) = if closing { ("close", &rows[at][2]) } else { ("open", &rows[at][1]) };
    let place = &rows[at][0];
    let all = rows.iter().flat_map(|row| &row[1..]);
    let answer = (
        found(&[place, &rows[at][1], &rows[at][2]], &format!("the {place} {verb}s at {time}")),
        Check::choice(time, all),
    );
    about("opening_hours", writer, &table, |writer| {
        ask("opening_hours", writer, HOURS, &[("place", place), ("verb", &verb)], answer)
    })
}
