//! Files that a config names: one, or a list.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Deref;
use std::path::PathBuf;

/// One file or a list of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct Files(pub Vec<PathBuf>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a path or a list of paths")]
enum OneOrMany {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

impl From<OneOrMany> for Files {
    fn from(given: OneOrMany) -> Self {
        match given {
            OneOrMany::One(file) => Self(vec![file]),
            OneOrMany::Many(files) => Self(files),
        }
    }
}

impl Deref for Files {
    type Target = [PathBuf];

    fn deref(&self) -> &[PathBuf] {
        &self.0
    }
}

impl JsonSchema for Files {
    fn schema_name() -> Cow<'static, str> {
        "Files".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}
