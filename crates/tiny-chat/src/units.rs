//! Units and the calendar. Where there are few operands (days of the week, small multiples), only wordings are held
//! out.

use crate::check::Check;
use crate::dialogue::Dialogue;
use crate::kind::Kind;
use crate::lexicon::{MONTHS, NAMES, ask, commas};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "metric_units", weight: 3.0, write: metric_units },
    Kind { name: "time_units", weight: 1.5, write: time_units },
    Kind { name: "minutes_to_hours", weight: 1.0, write: minutes_to_hours },
    Kind { name: "weekday_next", weight: 1.0, write: weekday_next },
    Kind { name: "month_next", weight: 1.0, write: month_next },
    Kind { name: "days_later", weight: 1.5, write: days_later },
    Kind { name: "hours_later", weight: 1.5, write: hours_later },
];

const CONVERT: &[&str] = &[
    "How many {small} are {n} {big}?",
    "how many {small} are {n} {big}",
    "Convert {n} {big} to {small}.",
    "convert {n} {big} to {small}",
    "What is {n} {big} in {small}?",
    "{n} {big} in {small}?",
    "Change {n} {big} to {small}.",
    "{n} {big} is how many {small}?",
    "Please convert {n} {big} to {small}.",
    "How many {small} are there in {n} {big}?",
    "Tell me how many {small} are in {n} {big}.",
    "I need {n} {big} in {small}.",
    "Can you change {n} {big} to {small}?",
    "Work out {n} {big} in {small}.",
    "Can you convert {n} {big} to {small}?",
    "Please tell me how many {small} are in {n} {big}.",
    "Please change {n} {big} to {small}.",
    "what is {n} {big} in {small}, please?",
];

const HOURS: &[&str] = &[
    "How many hours and minutes are {n} minutes?",
    "how many hours and minutes is {n} minutes",
    "Convert {n} minutes to hours and minutes.",
    "What is {n} minutes in hours and minutes?",
    "{n} minutes in hours and minutes?",
    "Change {n} minutes to hours and minutes.",
    "Write {n} minutes as hours and minutes.",
    "Please convert {n} minutes to hours and minutes.",
    "A film takes {n} minutes. How many hours and minutes is that?",
    "I need {n} minutes in hours and minutes.",
    "Can you change {n} minutes to hours and minutes?",
    "Tell me what {n} minutes is in hours and minutes.",
    "Can you convert {n} minutes to hours and minutes?",
    "Please write {n} minutes as hours and minutes.",
    "A film takes {n} minutes. What is that in hours and minutes?",
    "Please change {n} minutes to hours and minutes.",
];

const NEXT: &[&str] = &[
    "What {unit} comes {way} {given}?",
    "which {unit} comes {way} {given}",
    "Which {unit} is {way} {given}?",
    "What is the {unit} {way} {given}?",
    "The {unit} {way} {given}?",
    "Tell me the {unit} {way} {given}.",
    "Name the {unit} {way} {given}.",
    "Which {unit} do we have right {way} {given}?",
    "Please name the {unit} that comes {way} {given}.",
    "Which {unit} comes right {way} {given}?",
    "Give me the {unit} {way} {given}.",
    "Do you know which {unit} is {way} {given}?",
    "Please tell me which {unit} comes {way} {given}.",
    "What {unit} is right {way} {given}?",
    "Please give me the {unit} {way} {given}.",
    "Do you know which {unit} comes {way} {given}?",
];

const LATER: &[&str] = &[
    "Today is {day}. Which day is it in {n} days?",
    "today is {day}. what day is it in {n} days?",
    "Which day is {n} days after {day}?",
    "What day comes {n} days after {day}?",
    "What is the day {n} days after {day}?",
    "{n} days after {day}: which day is it?",
    "It is {day}. What day will it be in {n} days?",
    "If today is {day}, which day is it in {n} days?",
    "{name} comes on {day} and leaves {n} days later. On which day does {name} leave?",
    "Tell me the day {n} days after {day}.",
    "Count {n} days from {day}. Which day is it?",
    "{name} has a test {n} days after {day}. Which day is the test?",
    "It is {day} today. Which day will it be in {n} days?",
    "Please tell me which day is {n} days after {day}.",
    "If it is {day} today, what day is it in {n} days?",
    "{name} comes on {day} and leaves {n} days later. Which day is that?",
];

const CLOCK: &[&str] = &[
    "It is {time}. What time is it in {n} hours?",
    "it is {time}. what time will it be in {n} hours?",
    "What time is {n} hours after {time}?",
    "What is {time} plus {n} hours?",
    "{time} plus {n} hours?",
    "Add {n} hours to {time}.",
    "A train leaves at {time} and takes {n} hours. When does it arrive?",
    "If it is {time} now, what time is it in {n} hours?",
    "{name} starts work at {time} and works for {n} hours. When is {name} done?",
    "Tell me the time {n} hours after {time}.",
    "The bus leaves at {time}. It takes {n} hours. At what time does it arrive?",
    "A film starts at {time} and takes {n} hours. When is it over?",
    "Please tell me what time it is {n} hours after {time}.",
    "It is {time} now. What time will it be in {n} hours?",
    "A train leaves at {time}. It takes {n} hours. At what time does it arrive?",
    "Please add {n} hours to {time}.",
];

/// The larger unit (one and many), the smaller one and how many of it make one of the larger.
const METRIC: &[(&str, &str, &str, i64)] = &[
    ("metre", "metres", "centimetres", 100),
    ("kilometre", "kilometres", "metres", 1000),
    ("kilogram", "kilograms", "grams", 1000),
    ("centimetre", "centimetres", "millimetres", 10),
    ("litre", "litres", "millilitres", 1000),
    ("euro", "euros", "cents", 100),
];

const TIME: &[(&str, &str, &str, i64)] = &[
    ("hour", "hours", "minutes", 60),
    ("minute", "minutes", "seconds", 60),
    ("week", "weeks", "days", 7),
    ("dozen", "dozen", "items", 12),
    ("year", "years", "months", 12),
    ("day", "days", "hours", 24),
];

const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

fn metric_units(writer: &mut Writer) -> Dialogue {
    let (unit, n) = writer.operands("metric_units", |writer| (writer.below(METRIC.len()), writer.between(2, 60)));
    let (one, many, small, factor) = METRIC[unit];
    let answer = format!("1 {one} is {factor} {small}, so {n} {many} are {} {small}.", n * factor);
    ask(
        "metric_units",
        writer,
        CONVERT,
        &[("small", &small), ("big", &many), ("n", &n)],
        (answer, Check::number(n * factor)),
    )
}

fn time_units(writer: &mut Writer) -> Dialogue {
    let ((one, many, small, factor), n) = (TIME[writer.below(TIME.len())], writer.between(2, 10));
    let answer = format!("1 {one} is {factor} {small}. {n} x {factor} = {}. The answer is {}.", n * factor, n * factor);
    ask(
        "time_units",
        writer,
        CONVERT,
        &[("small", &small), ("big", &many), ("n", &n)],
        (answer, Check::number(n * factor)),
    )
}

/// A number of things, with the plural where it is due.
fn amount(n: i64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn minutes_to_hours(writer: &mut Writer) -> Dialogue {
    let (h, m) = writer.operands("minutes_to_hours", |writer| (writer.between(1, 4), writer.between(1, 59)));
    let (n, hours, minutes) = (60 * h + m, amount(h, "hour"), amount(m, "minute"));
    let answer = format!("{n} = {} + {m}. {} minutes is {hours}.\nAnswer: {hours} and {minutes}", 60 * h, 60 * h);
    ask("minutes_to_hours", writer, HOURS, &[("n", &n)], (answer, Check::list(&[hours, minutes])))
}

/// The one before or after another, in a year or week without end.
fn neighbour(kind: &'static str, unit: &str, circle: &'static [&'static str], writer: &mut Writer) -> Dialogue {
    let (at, after) = (writer.below(circle.len()), writer.chance(0.6));
    let (way, step) = if after { ("after", 1) } else { ("before", circle.len() - 1) };
    let right = circle[(at + step) % circle.len()];
    let answer = (format!("The {unit} {way} {} is: {right}", circle[at]), Check::list(&[right]));
    ask(kind, writer, NEXT, &[("unit", &unit), ("way", &way), ("given", &circle[at])], answer)
}

fn weekday_next(writer: &mut Writer) -> Dialogue {
    neighbour("weekday_next", "day", DAYS, writer)
}

fn month_next(writer: &mut Writer) -> Dialogue {
    neighbour("month_next", "month", MONTHS, writer)
}

fn days_later(writer: &mut Writer) -> Dialogue {
    let (from, n) = writer.operands("days_later", |writer| (writer.below(7), writer.between(2, 10) as usize));
    let counted: Vec<_> = (1..=n).map(|i| format!("{i} {}", DAYS[(from + i) % 7])).collect();
    let right = DAYS[(from + n) % 7];
    let answer = (format!("{}.\nAnswer: {right}", commas(&counted)), Check::list(&[right]));
    let name = writer.pick(NAMES);
    ask("days_later", writer, LATER, &[("day", &DAYS[from]), ("n", &n), ("name", &name)], answer)
}

fn hours_later(writer: &mut Writer) -> Dialogue {
    let (h, m, n) = writer.operands("hours_later", |writer| {
        let n = writer.between(2, 9);
        (writer.between(1, 23 - n), *writer.pick(&[&0, &15, &30, &45]), n)
    });
    let (time, later) = (format!("{h}:{m:02}"), format!("{}:{m:02}", h + n));
    let answer = (format!("{h} + {n} = {}, so it is {later}.", h + n), Check::contains(&later));
    let name = writer.pick(NAMES);
    ask("hours_later", writer, CLOCK, &[("time", &time), ("n", &n), ("name", &name)], answer)
}
