//! The tensors of a file by name, and what is said about them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A tensor as a file's header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape, `[out, in]` for matrices.
    pub shape: Vec<usize>,
    /// Its storage type as safetensors spells it: `F32`, `BF16`, `I64`, ….
    pub dtype: String,
}

/// Findings: problems make heads load wrongly, notes are harmless.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

impl Report {
    pub fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Tensors by name, in the order of names.
pub(super) struct TensorIndex<'a> {
    tensors: BTreeMap<&'a str, &'a TensorInfo>,
    duplicates: Vec<&'a str>,
}

impl<'a> TensorIndex<'a> {
    pub fn new(list: &'a [TensorInfo]) -> Self {
        let mut index = Self { tensors: BTreeMap::new(), duplicates: vec![] };
        for tensor in list {
            match index.tensors.entry(&tensor.name) {
                Entry::Vacant(slot) => {
                    slot.insert(tensor);
                }
                Entry::Occupied(_) => index.duplicates.push(&tensor.name),
            }
        }
        index
    }

    pub fn get(&self, name: &str) -> Option<&'a TensorInfo> {
        self.tensors.get(name).copied()
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.tensors.keys().copied()
    }

    /// Says which names were listed more than once: only the first of them is looked at.
    pub fn report_duplicates(&self, report: &mut Report) {
        for name in &self.duplicates {
            report.problem(format!("listed twice: {}", shown(name)));
        }
    }
}

/// A name from a file as it may be printed: control characters escaped, overlong names cut.
pub(super) fn shown(name: &str) -> String {
    const LIMIT: usize = 120;
    let mut text: String = name.chars().take(LIMIT).flat_map(char::escape_debug).collect();
    if name.chars().nth(LIMIT).is_some() {
        text.push('…');
    }
    text
}

/// A shape from a file as it may be printed: absurdly many dimensions are cut.
pub(super) fn shown_shape(shape: &[usize]) -> String {
    const LIMIT: usize = 6;
    let mut sizes: Vec<String> = shape.iter().take(LIMIT).map(usize::to_string).collect();
    if shape.len() > LIMIT {
        sizes.push(format!("… {} dimensions", shape.len()));
    }
    format!("[{}]", sizes.join(", "))
}

/// The number that a part of a name stands for, written as PyTorch writes it: decimal, without sign or leading zeros.
/// Numbers only ever become keys of a map, so absurd ones cost nothing.
pub(super) fn number(part: &str) -> Option<usize> {
    let plain = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
    if plain { part.parse().ok() } else { None }
}

/// Takes the number before the first dot off a name: `"3.0.weight"` is 3 and `"0.weight"`.
pub(super) fn numbered(name: &str) -> Option<(usize, &str)> {
    let (part, rest) = name.split_once('.')?;
    Some((number(part)?, rest))
}

/// Says if numbers that should run from `first`, given in ascending order, have a gap.
pub(super) fn report_gap(what: &str, first: usize, numbers: impl Iterator<Item = usize>, report: &mut Report) {
    for (i, number) in numbers.enumerate() {
        let expected = first.saturating_add(i);
        if number != expected {
            report.problem(format!("missing: {what} {expected}, although there is {what} {number}"));
            return;
        }
    }
}

/// Whether a name belongs to a full model that heads may be stored beside.
pub(super) fn is_backbone(name: &str) -> bool {
    name.starts_with("model.") || name.starts_with("lm_head.")
}
