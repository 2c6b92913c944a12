//! Failures and their exit codes.

use crate::printer::complain;
use gorgon_draft::settings::SettingsErrors;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// A failure with its exit code and, where a person can act, a hint.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// Wrong use, config or input: exit code 2.
    pub fn input(error: impl Display) -> Self {
        Self { message: one_line(&error), hint: None, code: 2 }
    }

    /// Wrong settings of a config, a line for each: exit code 2.
    pub fn settings(errors: &SettingsErrors) -> Self {
        Self::lines(errors.iter())
    }

    /// Several wrong inputs, a line for each: exit code 2.
    pub fn lines(errors: impl IntoIterator<Item = impl Display>) -> Self {
        let lines: Vec<String> = errors.into_iter().map(|error| one_line(&error)).collect();
        Self { message: lines.join("\n"), hint: None, code: 2 }
    }

    /// It ran and failed: exit code 1.
    pub fn run(error: impl Display) -> Self {
        Self { message: one_line(&error), hint: None, code: 1 }
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Of one of several things of a kind, by its name.
    pub fn of(self, name: &str) -> Self {
        Self { message: format!("{name}: {}", self.message), ..self }
    }

    /// With something to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Reports the failure: a JSON document on standard output, or lines on standard error.
    pub fn report(&self, json: bool) -> ExitCode {
        if json {
            let mut document = serde_json::json!({ "error": self.message.replace('\n', "; ") });
            if let Some(hint) = &self.hint {
                document["hint"] = hint.as_str().into();
            }
            // The exit code is the failure's own, whether the document can be written or not.
            let _ = writeln!(std::io::stdout(), "{document}");
        } else {
            self.message.split('\n').for_each(|line| complain(&format!("error: {line}")));
            if let Some(hint) = &self.hint {
                complain(&format!("hint: {hint}"));
            }
        }
        ExitCode::from(self.code)
    }
}

/// Messages of other libraries may span lines; a person reads one.
fn one_line(error: &impl Display) -> String {
    error.to_string().split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Most errors are about input.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::input(error)
    }
}
