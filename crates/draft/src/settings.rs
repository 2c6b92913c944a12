//! Wrong settings of a config, all of them at once.

use serde::Serialize;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// A wrong setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {reason}")]
pub struct SettingsError {
    /// The key's full path in the config, such as `training.learning_rate`.
    pub key: String,
    /// The value that it was set to.
    pub value: String,
    /// Expected form of the value.
    pub reason: String,
}

impl SettingsError {
    /// A key, its value, and what that has to be.
    pub fn new(key: impl Into<String>, value: impl Display, reason: impl Display) -> Self {
        Self { key: key.into(), value: value.to_string(), reason: reason.to_string() }
    }
}

/// The wrong settings of a config, in the order in which they were checked. There is at least one.
///
/// It is displayed with a line for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsErrors(Vec<SettingsError>);

impl SettingsErrors {
    /// The wrong settings.
    pub fn iter(&self) -> impl Iterator<Item = &SettingsError> {
        self.0.iter()
    }
}

impl From<SettingsError> for SettingsErrors {
    fn from(error: SettingsError) -> Self {
        Self(vec![error])
    }
}

impl Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(SettingsError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for SettingsErrors {}

/// Collects the wrong settings of one table of a config.
#[derive(Debug, Default)]
pub struct SettingsCheck {
    table: &'static str,
    wrong: Vec<SettingsError>,
}

impl SettingsCheck {
    /// Checks the keys at the top of a config.
    pub fn top() -> Self {
        Self::default()
    }

    /// Checks the keys of a table.
    pub fn table(table: &'static str) -> Self {
        Self { table, wrong: vec![] }
    }

    /// Notes a setting that is not `valid`.
    pub fn require(&mut self, valid: bool, key: &str, value: impl Display, reason: impl Display) {
        if !valid {
            let key = if self.table.is_empty() { key.to_owned() } else { format!("{}.{key}", self.table) };
            self.wrong.push(SettingsError::new(key, value, reason));
        }
    }

    /// Requires a finite number above 0.
    pub fn positive(&mut self, key: &str, value: f64) {
        self.require(value.is_finite() && value > 0.0, key, value, "it has to be a number above 0");
    }

    /// Requires a learning rate: above 0, and not so high that a single step overflows.
    pub fn rate(&mut self, key: &str, value: f64) {
        let valid = value > 0.0 && value <= 1000.0;
        self.require(valid, key, value, "it has to be a number above 0 and at most 1000");
    }

    /// Requires a finite number of at least 0.
    pub fn not_negative(&mut self, key: &str, value: f64) {
        self.require(value.is_finite() && value >= 0.0, key, value, "it has to be a number, 0 or more");
    }

    /// Requires a number from 0 to 1.
    pub fn share(&mut self, key: &str, value: f64) {
        self.require((0.0..=1.0).contains(&value), key, value, "it has to be between 0 and 1");
    }

    /// Requires a factor by which something shrinks: above 0 and at most 1.
    pub fn decay(&mut self, key: &str, value: f64) {
        self.require(value > 0.0 && value <= 1.0, key, value, "it has to be above 0 and at most 1");
    }

    /// Requires a whole number of at least `least`.
    pub fn at_least(&mut self, key: &str, value: usize, least: usize) {
        self.require(value >= least, key, value, format_args!("it has to be at least {least}"));
    }

    /// Requires a whole number in a range: what lies beyond has no use, and would overflow or fill any memory.
    pub fn within(&mut self, key: &str, value: u64, range: RangeInclusive<u64>) {
        let (least, most) = (range.start(), range.end());
        self.require(range.contains(&value), key, value, format_args!("it has to be from {least} to {most}"));
    }

    /// Notes a setting that is not its default where nothing would read it.
    pub fn used<T: PartialEq + Serialize>(
        &mut self,
        is_used: bool,
        key: &str,
        value: &T,
        default: &T,
        reason: impl Display,
    ) {
        if !is_used && value != default {
            self.require(false, key, serde_json::to_string(value).unwrap_or_default(), reason);
        }
    }

    /// Adds the wrong settings of another table.
    pub fn include(&mut self, other: Result<(), SettingsErrors>) {
        self.wrong.extend(other.err().into_iter().flat_map(|errors| errors.0));
    }

    /// Ends the check.
    ///
    /// # Errors
    /// All wrong settings, if there are any.
    pub fn finish(self) -> Result<(), SettingsErrors> {
        if self.wrong.is_empty() { Ok(()) } else { Err(SettingsErrors(self.wrong)) }
    }
}
