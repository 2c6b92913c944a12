//! Failures of jobs: what happened, what can be done about it, and whose fault it is.

use gorgon_draft::settings::SettingsErrors;
use gorgon_train::error::TrainError;
use std::any::Any;
use std::fmt::Display;

/// Who can put a failure right. The command line makes an exit code of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Wrong use, config or input.
    Input,
    /// The job ran and failed.
    Run,
}

/// A failure and, where a person can act, a hint.
#[derive(Clone, Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    kind: FailureKind,
}

impl Failure {
    /// Wrong use, config or input.
    pub fn input(error: impl Display) -> Self {
        Self { message: one_line(&error), hint: None, kind: FailureKind::Input }
    }

    /// Wrong settings of a config, a line for each.
    pub fn settings(errors: &SettingsErrors) -> Self {
        Self::lines(errors.iter())
    }

    /// Several wrong inputs, a line for each.
    pub fn lines(errors: impl IntoIterator<Item = impl Display>) -> Self {
        let lines: Vec<String> = errors.into_iter().map(|error| one_line(&error)).collect();
        Self { message: lines.join("\n"), hint: None, kind: FailureKind::Input }
    }

    /// The job ran and failed.
    pub fn run(error: impl Display) -> Self {
        Self { message: one_line(&error), hint: None, kind: FailureKind::Run }
    }

    /// What went wrong in a training. Numbers that are not finite are no fault of the input.
    pub fn training(error: TrainError) -> Self {
        match error {
            TrainError::NotFinite { .. } | TrainError::Overflow { .. } => {
                Self::run(error).hint("a lower training.learning_rate may help, if the data is valid")
            }
            TrainError::Settings(errors) => Self::settings(&errors),
            error => Self::input(error),
        }
    }

    /// What happened: one line, or one for each wrong setting.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What can be done about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Who can put it right.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// With the name of the thing that failed, where there are several of its kind.
    pub fn of(self, name: &str) -> Self {
        Self { message: format!("{name}: {}", self.message), ..self }
    }

    /// With something to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
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

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown").to_owned()
}
