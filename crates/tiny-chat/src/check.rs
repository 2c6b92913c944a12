//! Telling whether an answer is right, by program.

use serde_json::{Value, json};

/// How to tell whether an answer is right. Only what was asked for counts, not the wording around it.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// The last number in the answer is this one (`-3`, `12`, `4.5`).
    Number(String),
    /// These items, in this order and with none of them missing, make up the last line's list.
    List(Vec<String>),
    /// The answer contains each of these as whole words, whatever the case.
    Contains(Vec<String>),
    /// The answer is exactly this, up to surrounding white space.
    Exact(String),
    /// Of these, the first is the one that the answer names last: an answer may quote a row before it says a value of
    /// it.
    Choice(Vec<String>),
}

impl Check {
    /// The last number must be this one.
    pub fn number(number: impl ToString) -> Self {
        Self::Number(number.to_string())
    }

    /// The last line's list must be this one.
    pub fn list<T: ToString>(items: &[T]) -> Self {
        Self::List(items.iter().map(T::to_string).collect())
    }

    /// This word or phrase must occur.
    pub fn contains(phrase: impl ToString) -> Self {
        Self::Contains(vec![phrase.to_string()])
    }

    /// `right` must be named last among itself and `others`.
    pub fn choice<'a>(right: &str, others: impl IntoIterator<Item = &'a String>) -> Self {
        let mut choices = vec![right.to_owned()];
        for other in others {
            if !choices.contains(other) {
                choices.push(other.clone());
            }
        }
        Self::Choice(choices)
    }

    /// Whether an answer is right.
    pub fn passes(&self, answer: &str) -> bool {
        match self {
            Self::Number(wanted) => match (last_number(answer), wanted.parse::<f64>()) {
                (Some(found), Ok(wanted)) => found == wanted,
                _ => false,
            },
            Self::List(items) => {
                let found = last_list(answer);
                found.len() == items.len() && found.iter().zip(items).all(|(a, b)| same(a, b))
            }
            Self::Contains(phrases) => phrases.iter().all(|phrase| last_named(answer, phrase).is_some()),
            Self::Exact(wanted) => answer.trim() == wanted.trim(),
            Self::Choice(choices) => {
                let mut named = choices.iter().map(|choice| last_named(answer, choice));
                let right = named.next().flatten();
                right.is_some() && named.all(|other| other < right)
            }
        }
    }

    /// The check as JSON, for files of prompts.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Number(number) => json!({ "number": number }),
            Self::List(items) => json!({ "list": items }),
            Self::Contains(phrases) => json!({ "contains": phrases }),
            Self::Exact(text) => json!({ "exact": text }),
            Self::Choice(choices) => json!({ "choice": choices }),
        }
    }

    /// Reads the output of [`Check::to_json`]; `None` for anything else.
    pub fn from_json(value: &Value) -> Option<Self> {
        let object = value.as_object().filter(|object| object.len() == 1)?;
        let (key, value) = object.iter().next()?;
        match key.as_str() {
            "number" => value.as_str().map(|number| Self::Number(number.to_owned())),
            "exact" => value.as_str().map(|text| Self::Exact(text.to_owned())),
            "list" => strings(value).map(Self::List),
            "contains" => strings(value).map(Self::Contains),
            "choice" => strings(value).filter(|choices| !choices.is_empty()).map(Self::Choice),
            _ => None,
        }
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// A minus sign counts only where a number can begin, so that `10-3` ends in 3, and a point only between digits.
fn last_number(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let mut start = digits_before(bytes, end);
    if start > 1 && bytes[start - 1] == b'.' && bytes[start - 2].is_ascii_digit() {
        start = digits_before(bytes, start - 1);
    }
    let free = start == 1 || (start > 1 && !bytes[start - 2].is_ascii_alphanumeric());
    if free && bytes[start - 1] == b'-' {
        start -= 1;
    }
    text[start..end].parse().ok()
}

/// Where the run of digits that ends before `end` begins.
fn digits_before(bytes: &[u8], end: usize) -> usize {
    bytes[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1)
}

fn last_list(answer: &str) -> Vec<String> {
    let line = answer.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let list = line.rsplit_once(':').map_or(line, |(_, after)| after).trim();
    let list = list.strip_suffix('.').unwrap_or(list).replace(", and ", ", ");
    list.split(',').flat_map(|part| part.split(" and ")).map(|item| item.trim().to_owned()).collect()
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// Where a phrase ends for the last time in an answer, as whole words and whatever the case.
fn last_named(answer: &str, phrase: &str) -> Option<usize> {
    let (answer, phrase) = (answer.to_lowercase(), phrase.to_lowercase());
    let bounded = |side: Option<char>| side.is_none_or(|c| !c.is_alphanumeric());
    let whole = |&(at, found): &(usize, &str)| {
        bounded(answer[..at].chars().next_back()) && bounded(answer[at + found.len()..].chars().next())
    };
    answer.match_indices(&phrase).filter(whole).last().map(|(at, found)| at + found.len())
}

#[cfg(test)]
mod tests;
