//! Why a request failed, and whether it may pass.

use std::error::Error;
use std::io::{self, ErrorKind};

use reqwest::StatusCode;

/// A failure of one request.
pub(super) enum Failure {
    /// It may pass.
    Transient(String),
    Fatal(String),
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
        (passing || status.is_server_error()).then(|| Self::Transient(format!("the hub answers {status}")))
    }
}

/// The innermost cause, which names the thing itself, in one line.
pub(super) fn describe(error: &reqwest::Error) -> String {
    let connecting = error.is_connect() && error.is_timeout();
    let cause = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let cause = if connecting { "no connection in time".to_owned() } else { cause };
    cause.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and what is behind it.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
