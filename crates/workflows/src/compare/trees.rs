//! Trees that a method is measured with: one, or a list.

use gorgon_core::tree::TreeChoice;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::str::FromStr;

/// One tree or a list of trees; the drafter's own where there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "OneOrMany")]
pub struct Trees(pub Vec<TreeChoice>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a tree or a list of trees")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl TryFrom<OneOrMany> for Trees {
    type Error = <TreeChoice as FromStr>::Err;

    fn try_from(given: OneOrMany) -> Result<Self, Self::Error> {
        let names = match given {
            OneOrMany::One(name) => vec![name],
            OneOrMany::Many(names) => names,
        };
        names.iter().map(|name| name.parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl Trees {
    /// Each tree to measure with; `None` is the drafter's own.
    pub fn each(&self) -> Vec<Option<TreeChoice>> {
        match self.0.is_empty() {
            true => vec![None],
            false => self.0.iter().cloned().map(Some).collect(),
        }
    }
}

impl JsonSchema for Trees {
    fn schema_name() -> Cow<'static, str> {
        "Trees".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}
