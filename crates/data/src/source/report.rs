//! Report on a file's records.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    format::Format,
    reason::{Reason, Repair},
    record::Draft,
};

/// How many lines are named for each reason and repair.
const LINES_NAMED: usize = 10;

/// How many unknown keys are named.
const KEYS_NAMED: usize = 64;

/// Kept, repaired and skipped records of a file. Displayed, it is a line for the file and one for each repair and
/// reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Unit by which its records are counted: `line` or `row`.
    pub unit: &'static str,
    /// How many conversations were kept.
    pub kept: usize,
    /// How many of them came in which format.
    pub formats: BTreeMap<Format, usize>,
    /// Repairs in the records that were kept.
    pub repaired: Vec<Repaired>,
    /// Skipped records, in the file's order.
    pub skipped: Vec<Skipped>,
    /// Keys that mean nothing here, with the number of kept records that have them. Names are clipped, and later ones
    /// left out when there are too many; see `more_unknown_keys`.
    pub unknown_keys: BTreeMap<String, usize>,
    /// Whether there were more unknown keys than are named.
    pub more_unknown_keys: bool,
}

/// How often something was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Kind of repair.
    pub repair: Repair,
    /// In how many records.
    pub count: usize,
    /// The lines of the first few.
    pub lines: Vec<usize>,
}

/// Something that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The line, from 1, where it starts.
    pub line: usize,
    /// Its id, clipped, as far as it could be read.
    pub id: Option<String>,
    /// Why it was skipped.
    pub reason: Reason,
}

impl Report {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            unit: "line",
            kept: 0,
            formats: BTreeMap::new(),
            repaired: Vec::new(),
            skipped: Vec::new(),
            unknown_keys: BTreeMap::new(),
            more_unknown_keys: false,
        }
    }

    /// Counts the record at `line`, which was kept as `draft`.
    pub(super) fn keep(&mut self, line: usize, draft: &Draft) {
        self.kept += 1;
        *self.formats.entry(draft.format).or_default() += 1;
        for &repair in &draft.repairs {
            let place = self.repaired.iter().position(|repaired| repaired.repair >= repair);
            let place = place.unwrap_or(self.repaired.len());
            if self.repaired.get(place).is_none_or(|repaired| repaired.repair != repair) {
                self.repaired.insert(place, Repaired { repair, count: 0, lines: Vec::new() });
            }
            if let Some(repaired) = self.repaired.get_mut(place) {
                repaired.count += 1;
                if repaired.lines.len() < LINES_NAMED {
                    repaired.lines.push(line);
                }
            }
        }
        for key in &draft.unknown {
            if let Some(count) = self.unknown_keys.get_mut(key) {
                *count += 1;
            } else if self.unknown_keys.len() < KEYS_NAMED {
                self.unknown_keys.insert(key.clone(), 1);
            } else {
                self.more_unknown_keys = true;
            }
        }
    }

    /// In how many kept records `repair` was made.
    pub fn times(&self, repair: Repair) -> usize {
        self.repaired.iter().find(|repaired| repaired.repair == repair).map_or(0, |repaired| repaired.count)
    }

    /// Skipped records grouped by reason; the most frequent reason comes first.
    pub fn reasons(&self) -> Vec<Vec<&Skipped>> {
        let mut groups = BTreeMap::<&str, Vec<&Skipped>>::new();
        for skipped in &self.skipped {
            groups.entry(skipped.reason.code()).or_default().push(skipped);
        }
        let mut groups = groups.into_values().collect::<Vec<_>>();
        groups.sort_by_key(|group| (usize::MAX - group.len(), group.first().map(|skipped| skipped.line)));
        groups
    }

    /// The report for programs. Reasons and repairs go by their codes.
    pub fn to_json(&self) -> Value {
        let formats = self.formats.iter().map(|(format, count)| (format.to_string(), json!(count))).collect();
        let repaired = self.repaired.iter().map(|Repaired { repair, count, lines }| {
            json!({ "repair": repair.code(), "text": repair.to_string(), "count": count, "lines": lines })
        });
        let skipped = self.skipped.iter().map(|Skipped { line, id, reason }| {
            json!({ "line": line, "id": id, "reason": reason.code(), "text": reason.to_string() })
        });
        json!({
            "path": self.path.display().to_string(),
            "kept": self.kept,
            "formats": Value::Object(formats),
            "repaired": repaired.collect::<Vec<_>>(),
            "skipped": skipped.collect::<Vec<_>>(),
            "unknown_keys": self.unknown_keys,
            "more_unknown_keys": self.more_unknown_keys,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} kept", show(&self.path), self.kept)?;
        let formats = self.formats.iter().map(|(format, count)| format!("{format} {count}")).collect::<Vec<_>>();
        if !formats.is_empty() {
            write!(f, " ({})", formats.join(", "))?;
        }
        write!(f, ", {} skipped", self.skipped.len())?;
        for Repaired { repair, count, lines } in &self.repaired {
            write!(f, "\n  repaired: {repair}: {count} ({})", name_lines(self.unit, lines, *count))?;
        }
        for group in self.reasons() {
            let Some(first) = group.first() else { continue };
            let lines = group.iter().take(LINES_NAMED).map(|skipped| skipped.line).collect::<Vec<_>>();
            write!(
                f,
                "\n  skipped: {}: {} ({})",
                first.reason.title(),
                group.len(),
                name_lines(self.unit, &lines, group.len())
            )?;
        }
        if !self.unknown_keys.is_empty() {
            let keys = self.unknown_keys.iter().map(|(key, count)| format!("{key} ({count})")).collect::<Vec<_>>();
            let more = if self.more_unknown_keys { " and more" } else { "" };
            write!(f, "\n  unknown keys: {}{more}", keys.join(", "))?;
        }
        Ok(())
    }
}

/// The `lines` in words, which are the first of `count`.
fn name_lines(unit: &str, lines: &[usize], count: usize) -> String {
    let list = lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let noun = if count == 1 { unit.to_owned() } else { format!("{unit}s") };
    match count.saturating_sub(lines.len()) {
        0 => format!("{noun} {list}"),
        more => format!("{noun} {list} and {more} more"),
    }
}

/// The whole path, with nothing in it that a terminal would act on.
fn show(path: &Path) -> String {
    path.display().to_string().chars().map(|character| if character.is_control() { '�' } else { character }).collect()
}
