//! A client of a few lines: one connection, one request.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer.
pub struct Reply {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The message of an error, which must have OpenAI's shape.
    pub fn error(&self) -> String {
        let body = self.json();
        assert!(body["error"]["type"].is_string() && body["error"].get("param").is_some(), "{body}");
        body["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// A request that was sent.
pub struct Sent {
    reader: BufReader<TcpStream>,
    pub status: u16,
    pub headers: String,
}

/// Sends bytes as they are.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Sends a request.
pub fn send(address: SocketAddr, method: &str, path: &str, more: &str, body: &[u8]) -> TcpStream {
    let kind = if method == "POST" { "Content-Type: application/json\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}{more}Content-Length: {length}\r\n\r\n"
    );
    raw(address, &[head.as_bytes(), body].concat())
}

/// Reads the head of an answer.
pub fn head(stream: TcpStream) -> Sent {
    let mut reader = BufReader::new(stream);
    let mut headers = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            break;
        }
        headers.push_str(&line);
    }
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Sent { reader, status, headers }
}

impl Sent {
    fn is_chunked(&self) -> bool {
        self.headers.to_ascii_lowercase().contains("transfer-encoding: chunked")
    }

    /// The rest of the answer.
    pub fn rest(mut self) -> Reply {
        let mut body = String::new();
        if self.is_chunked() {
            while let Some(chunk) = self.chunk() {
                body.push_str(&chunk);
            }
        } else {
            self.reader.read_to_string(&mut body).unwrap();
        }
        Reply { status: self.status, headers: self.headers, body }
    }

    /// The next chunk of a chunked answer.
    pub fn chunk(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let length = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        (length > 0).then(|| String::from_utf8(bytes).unwrap())
    }
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    head(send(address, "GET", path, "", b"")).rest()
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    head(send(address, "POST", path, "", body.to_string().as_bytes())).rest()
}

/// The events of a stream, which must end with `[DONE]`.
pub fn events(reply: &Reply) -> Vec<Value> {
    let mut lines: Vec<&str> = reply.body.split("\n\n").filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.pop(), Some("data: [DONE]"), "{}", reply.body);
    lines.iter().map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()).collect()
}
