//! Why a request failed, and whether it may pass.

use std::error::Error;
use std::io::{self, ErrorKind};

use crate::error::Cause;
use reqwest::StatusCode;

/// A failure of one request.
pub(super) enum Failure {
    /// It may pass.
    Transient(Reason),
    Fatal(Reason),
}

/// A reason in one line, and the errors behind it.
pub(super) struct Reason {
    pub text: String,
    pub cause: Option<Cause>,
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, cause: None }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Failure {
    pub fn of(error: &reqwest::Error) -> Self {
        let lasting = [ErrorKind::ConnectionRefused, ErrorKind::NotFound, ErrorKind::InvalidData];
        let fatal = error.is_builder()
            || causes(error).any(|cause| {
                let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
                kind.is_some_and(|kind| lasting.contains(&kind)) || cause.to_string().contains("dns error")
            });
        let reason = describe(error);
        if fatal { Self::Fatal(reason) } else { Self::Transient(reason) }
    }

    /// The failure that an answer stands for, if it does.
    pub fn of_status(status: StatusCode) -> Option<Self> {
        let passing = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        (passing || status.is_server_error()).then(|| Self::Transient(format!("the hub answers {status}").into()))
    }
}

/// The innermost cause, which names the thing itself, in one line.
pub(super) fn describe(error: &reqwest::Error) -> Reason {
    let connecting = error.is_connect() && error.is_timeout();
    let cause = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let cause = if connecting { "no connection in time".to_owned() } else { cause };
    let text = cause.split_whitespace().collect::<Vec<_>>().join(" ");
    Reason { text, cause: Some(Cause::of(error)) }
}

/// An error and what is behind it.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
