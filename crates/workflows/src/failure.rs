//! Failures of jobs: the message, a hint, the causes, and who can put it right.

use gorgon_draft::settings::SettingsErrors;
use gorgon_runs::visible;
use gorgon_train::error::TrainError;
use std::any::Any;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::Path;

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
    causes: Vec<String>,
}

impl Failure {
    fn new(message: String, kind: FailureKind) -> Self {
        Self { message, hint: None, kind, causes: vec![] }
    }

    /// A file or folder that cannot be read or written. A full or broken disk is no fault of the input.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::NotADirectory => {
                let file = path.ancestors().skip(1).find(|part| part.exists()).unwrap_or(path);
                format!("{} is no folder", file.display())
            }
            io::ErrorKind::IsADirectory => "it is a folder, and a file is expected".into(),
            _ => error.to_string(),
        };
        Self::new(one_line(&format!("{}: {reason}", path.display())), kind_of(error))
    }

    /// A place where a test file could not be written before the work began; classified as by [`Self::io`].
    pub fn not_writable(path: &Path, error: &io::Error) -> Self {
        Self::new(one_line(&format!("{}: cannot be written: {error}", path.display())), kind_of(error))
    }

    /// Wrong use, config or input.
    pub fn input(error: impl Display) -> Self {
        Self::new(one_line(&error), FailureKind::Input)
    }

    /// Wrong settings of a config, a line for each.
    pub fn settings(errors: &SettingsErrors) -> Self {
        Self::lines(errors.iter())
    }

    /// Several wrong inputs, a line for each.
    pub fn lines(errors: impl IntoIterator<Item = impl Display>) -> Self {
        let lines: Vec<String> = errors.into_iter().map(|error| one_line(&error)).collect();
        Self::new(visible::few(lines).join("\n"), FailureKind::Input)
    }

    /// The job ran and failed.
    pub fn run(error: impl Display) -> Self {
        Self::new(one_line(&error), FailureKind::Run)
    }

    /// Failure of a training. Numbers that are not finite are no fault of the input.
    pub fn training(error: TrainError) -> Self {
        match error {
            TrainError::NotFinite { .. } | TrainError::Overflow { .. } => {
                Self::run(error).hint("a lower training.learning_rate may help, if the data is valid")
            }
            TrainError::Settings(errors) => Self::settings(&errors),
            error => error.into(),
        }
    }

    /// The message: one line, or one for each wrong setting.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The errors behind it, the nearest first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// The hint, where a person can act.
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

    /// As a failure of the job rather than of its input.
    pub fn of_machine(self) -> Self {
        Self { kind: FailureKind::Run, ..self }
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

/// Most errors are about input; those of the machine are not.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let message = one_line(&error);
        let (mut machine, mut causes) = (false, vec![]);
        let mut next: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = next {
            machine |= error.downcast_ref::<io::Error>().is_some_and(is_of_machine);
            let cause = one_line(&error);
            if !message.contains(&cause) {
                causes.push(cause);
            }
            next = error.source();
        }
        let kind = if machine { FailureKind::Run } else { FailureKind::Input };
        Self { causes, ..Self::new(message, kind) }
    }
}

fn kind_of(error: &io::Error) -> FailureKind {
    if is_of_machine(error) { FailureKind::Run } else { FailureKind::Input }
}

/// Whether an operation failed for a reason that lies in the machine: a full or broken disk, no memory, no network.
fn is_of_machine(error: &io::Error) -> bool {
    /// `EIO` of Unix: the device failed.
    const BROKEN_DEVICE: i32 = 5;
    use io::ErrorKind as Kind;
    let known = [
        Kind::StorageFull,
        Kind::QuotaExceeded,
        Kind::FileTooLarge,
        Kind::OutOfMemory,
        Kind::TimedOut,
        Kind::ConnectionRefused,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::NotConnected,
        Kind::NetworkUnreachable,
        Kind::HostUnreachable,
        Kind::NetworkDown,
    ];
    known.contains(&error.kind()) || (cfg!(unix) && error.raw_os_error() == Some(BROKEN_DEVICE))
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests;
