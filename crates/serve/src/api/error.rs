//! Errors in OpenAI's shape.

use serde_json::{Value, json};

/// A request that is refused, or failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// OpenAI's `type`.
    pub kind: &'static str,
    /// Description of the failure, in one line.
    pub message: String,
    /// The field that is wrong.
    pub param: Option<String>,
    /// OpenAI's `code`.
    pub code: Option<&'static str>,
    /// Seconds after which another attempt makes sense.
    pub retry_after: Option<u64>,
}

/// Longest part of a value that an error quotes.
const QUOTED: usize = 80;

impl ApiError {
    /// An error of a status and type.
    pub fn new(status: u16, kind: &'static str, message: impl ToString) -> Self {
        Self { status, kind, message: message.to_string(), param: None, code: None, retry_after: None }
    }

    /// A request that cannot be understood.
    pub fn request(message: impl ToString) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// A field with a wrong value.
    pub fn field(param: &str, message: impl ToString) -> Self {
        Self { param: Some(param.to_owned()), ..Self::request(message) }
    }

    /// The server failed.
    pub fn server(message: impl ToString) -> Self {
        Self::new(500, "server_error", message)
    }

    /// The queue is full.
    pub fn busy(waiting: usize, retry_after: u64) -> Self {
        let message = format!("{waiting} requests are waiting already; try again in {retry_after} s");
        let code = Some("queue_full");
        Self { retry_after: Some(retry_after), code, ..Self::new(429, "rate_limit_error", message) }
    }

    /// The server is stopping.
    pub fn stopping() -> Self {
        Self { code: Some("stopping"), ..Self::new(503, "server_error", "the server is stopping") }
    }

    /// The request took longer than it may.
    pub fn late(seconds: u64) -> Self {
        let message = format!("the request took longer than {seconds} s");
        Self { code: Some("timeout"), ..Self::new(504, "timeout_error", message) }
    }

    /// The client is too far behind.
    pub fn slow() -> Self {
        let message = "the answer was not taken in time";
        Self { code: Some("slow_client"), ..Self::new(408, "timeout_error", message) }
    }

    /// With a code.
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The body of its answer.
    pub fn body(&self) -> Value {
        let Self { kind, message, param, code, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

/// A value as an error quotes it: one line, cut where it is long.
pub(crate) fn quoted(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
