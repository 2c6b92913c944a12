//! Metadata: values by their keys.

use crate::reader::{ReadError, Reader};
use std::collections::BTreeMap;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number of any width.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// A list.
    List(Array),
}

/// A list of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Whole numbers of at most 64 bits, or true and false as one and zero.
    Integers(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

/// Types of values by their numbers in the file.
const TEXT: u32 = 8;
const LIST: u32 = 9;

impl Value {
    /// Reads the value of `key`.
    pub(crate) fn read(reader: &mut Reader, key: &str) -> Result<Self, ReadError> {
        let kind = reader.u32()?;
        if kind == LIST {
            return Ok(Value::List(Array::read(reader, key)?));
        }
        one(reader, kind, key)
    }

    fn description(&self) -> String {
        match self {
            Value::Integer(n) => n.to_string(),
            Value::Float(n) => n.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(text) => quoted(text),
            Value::List(_) => "a list".into(),
        }
    }
}

/// One value that is no list.
fn one(reader: &mut Reader, kind: u32, key: &str) -> Result<Value, ReadError> {
    Ok(match kind {
        0..=5 | 10 | 11 => {
            let (bytes, signed) = width(kind);
            Value::Integer(reader.integer(bytes, signed)?)
        }
        6 => Value::Float(f64::from(f32::from_bits(reader.u32()?))),
        7 => match reader.integer(1, false)? {
            0 => Value::Flag(false),
            1 => Value::Flag(true),
            other => return Err(format!("{key} is {other}; 0 or 1 is expected").into()),
        },
        TEXT => Value::Text(reader.text(key)?),
        12 => Value::Float(f64::from_bits(reader.u64()?)),
        other => return Err(format!("{key} has the unknown type {other}").into()),
    })
}

/// Bytes of a whole number's type, and whether it has a sign.
fn width(kind: u32) -> (usize, bool) {
    match kind {
        0 => (1, false),
        1 => (1, true),
        2 => (2, false),
        3 => (2, true),
        4 => (4, false),
        5 => (4, true),
        10 => (8, false),
        _ => (8, true),
    }
}

impl Array {
    fn read(reader: &mut Reader, key: &str) -> Result<Self, ReadError> {
        let (kind, count) = (reader.u32()?, reader.u64()?);
        let smallest = match kind {
            0..=5 | 10 | 11 => width(kind).0,
            7 => 1,
            6 => 4,
            TEXT | 12 => 8,
            LIST => return Err(format!("{key} is a list of lists, which is not supported").into()),
            other => return Err(format!("{key} is a list of the unknown type {other}").into()),
        };
        let count = reader.check_room(&format!("elements of {key}"), count, smallest as u64)?;
        let mut list = match kind {
            6 | 12 => Array::Floats(vec![]),
            TEXT => Array::Texts(vec![]),
            _ => Array::Integers(vec![]),
        };
        for _ in 0..count {
            match (&mut list, one(reader, kind, key)?) {
                (Array::Integers(list), Value::Integer(n)) => {
                    list.push(i64::try_from(n).map_err(|_| format!("{key} holds {n}, which is too large"))?);
                }
                (Array::Integers(list), Value::Flag(flag)) => list.push(i64::from(flag)),
                (Array::Floats(list), Value::Float(n)) => list.push(n),
                (Array::Texts(list), Value::Text(text)) => list.push(text),
                _ => return Err(format!("{key} is a list of several types").into()),
            }
        }
        Ok(list)
    }
}

/// A text in quotes, short enough for a one-line message.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}

/// Values by their keys.
#[derive(Clone, Debug, Default)]
pub struct Metadata(pub(crate) BTreeMap<String, Value>);

impl Metadata {
    /// A value.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    fn wrong(key: &str, value: &Value, expected: &str) -> String {
        format!("{key} is {}; {expected} is expected", value.description())
    }

    /// A whole number from 0 on.
    ///
    /// # Errors
    /// When it is something else.
    pub fn count(&self, key: &str) -> Result<Option<u64>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Integer(n)) if u64::try_from(*n).is_ok() => Ok(u64::try_from(*n).ok()),
            Some(other) => Err(Self::wrong(key, other, "a whole number")),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// When it is something else, or not finite.
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(n)) if n.is_finite() => Ok(Some(*n)),
            Some(Value::Integer(n)) => Ok(Some(*n as f64)),
            Some(other) => Err(Self::wrong(key, other, "a number")),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// When it is something else.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Flag(flag)) => Ok(Some(*flag)),
            Some(other) => Err(Self::wrong(key, other, "true or false")),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(Self::wrong(key, other, "a text")),
        }
    }

    /// A list of texts.
    ///
    /// # Errors
    /// When it is something else.
    pub fn texts(&self, key: &str) -> Result<Option<&[String]>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(Array::Texts(list))) => Ok(Some(list)),
            Some(other) => Err(Self::wrong(key, other, "a list of texts")),
        }
    }

    /// A list of whole numbers.
    ///
    /// # Errors
    /// When it is something else.
    pub fn integers(&self, key: &str) -> Result<Option<&[i64]>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(Array::Integers(list))) => Ok(Some(list)),
            Some(other) => Err(Self::wrong(key, other, "a list of whole numbers")),
        }
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// When it is something else.
    pub fn numbers(&self, key: &str) -> Result<Option<&[f64]>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::List(Array::Floats(list))) => Ok(Some(list)),
            Some(other) => Err(Self::wrong(key, other, "a list of numbers")),
        }
    }
}
