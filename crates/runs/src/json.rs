//! JSON from outside: a key that stands twice in an object is refused, since readers disagree on which one counts.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Reads a document.
///
/// # Errors
/// When it is empty, is no JSON, is none of a `T`, or an object in it has a key twice.
pub fn read<'a, T: Deserialize<'a>>(document: &'a [u8]) -> serde_json::Result<T> {
    if document.trim_ascii().is_empty() {
        return Err(serde_json::Error::custom("it is empty"));
    }
    serde_json::from_slice::<Unique>(document)?;
    serde_json::from_slice(document)
}

/// Any value whose objects have each key once.
struct Unique;

/// A key, borrowed from the document where it has no escapes.
#[derive(serde::Deserialize, PartialEq, Eq, Hash)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut keys = HashSet::<_, foldhash::fast::RandomState>::default();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            if let Some(Key(twice)) = keys.replace(key) {
                return Err(A::Error::custom(format_args!("the key {twice:?} is there twice")));
            }
            map.next_value::<Unique>()?;
        }
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
        while list.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests;
