//! JSON documents that tell whether they were changed after they were written.

use crate::provenance::hash_bytes;
use serde_json::Value;

/// The key that the hash stands under.
const KEY: &str = "sha256";

/// The hashes of a document that was changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it was changed after it was written: its SHA-256 is {found}, and {written} when it was written")]
pub struct Changed {
    /// The hash of what is there.
    pub found: String,
    /// The hash that stands there.
    pub written: String,
}

/// An object with the SHA-256 of everything else in it (as JSON without white space) under `sha256`; anything but an
/// object stays as it is.
#[must_use]
pub fn seal(document: &Value) -> Value {
    let mut sealed = document.clone();
    if let Value::Object(fields) = &mut sealed {
        fields.shift_remove(KEY);
        let hash = hash_bytes(Value::Object(fields.clone()).to_string().as_bytes());
        fields.insert(KEY.into(), hash.into());
    }
    sealed
}

/// The document that [`seal`] was given; one without a hash is taken as it is.
///
/// # Errors
/// When the hash is not that of the document.
pub fn open(mut document: Value) -> Result<Value, Changed> {
    let Some(fields) = document.as_object_mut() else {
        return Ok(document);
    };
    let Some(written) = fields.shift_remove(KEY) else {
        return Ok(document);
    };
    let found = hash_bytes(document.to_string().as_bytes());
    match written.as_str() == Some(&found) {
        true => Ok(document),
        false => Err(Changed { found, written: written.as_str().map_or_else(|| written.to_string(), str::to_owned) }),
    }
}

#[cfg(test)]
mod tests;
