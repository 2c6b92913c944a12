//! Clients that leave, stall, come in numbers, or send nonsense; and the server's end.

use super::client::{self, events, get, head, raw, send};
use super::server::{Testing, start};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

fn long(prompt: &str) -> Value {
    json!({"prompt": prompt, "max_tokens": 50, "temperature": 0, "ignore_eos": true, "stream": true})
}

/// Sends a request for a stream.
fn stream(server: &Testing, prompt: &str) -> TcpStream {
    send(server.address, "POST", "/v1/completions", "", long(prompt).to_string().as_bytes())
}

/// A request that has its first token, while the gate holds its first step.
fn held(server: &Testing, prompt: &str) -> client::Sent {
    server.gate.set_shut(true);
    let mut sent = head(stream(server, prompt));
    assert!(sent.chunk().is_some());
    sent
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    let server = start(|options| options.limits.batch = 1);
    let sent = held(&server, "Once");
    drop(sent);
    // Only the connection that asks is left.
    server.wait_for("connections", 1.0);
    server.gate.set_shut(false);
    server.wait_for("answers_cancelled_total", 1.0);
    assert_eq!(server.metric("batch"), 0.0);
    let next = head(stream(&server, "The")).rest();
    assert_eq!(events(&next).last().unwrap()["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_back() {
    let server = start(|options| (options.limits.batch, options.limits.queue) = (1, 2));
    let first = held(&server, "Once");
    let waiting = [stream(&server, "One"), stream(&server, "Two")];
    server.wait_for("queue", 2.0);
    let refused = head(stream(&server, "Three")).rest();
    assert_eq!((refused.status, refused.error().contains("waiting")), (429, true));
    assert!(refused.headers.to_ascii_lowercase().contains("retry-after: "), "{}", refused.headers);
    assert_eq!(server.metric("requests_refused_total"), 1.0);
    // A client that leaves the queue makes room.
    let [one, two] = waiting;
    drop(one);
    server.wait_for("connections", 3.0);
    let third = stream(&server, "Three");
    server.wait_for("queue", 2.0);
    server.gate.set_shut(false);
    for sent in [first, head(two), head(third)] {
        assert!(sent.rest().body.ends_with("data: [DONE]\n\n"));
    }
}

#[test]
fn a_server_that_stops_finishes_what_it_has_begun() {
    let server = start(|options| options.limits.batch = 1);
    let lone = head(stream(&server, "One")).rest();
    let first = held(&server, "Once");
    let waiting = stream(&server, "One");
    server.wait_for("queue", 1.0);
    // A connection from before the stop, on which a request comes after it.
    let mut late = raw(server.address, b"GET /health HTTP/1.1\r\n");
    server.wait_for("connections", 4.0);
    server.stop.stop();
    late.write_all(b"Host: localhost\r\n\r\n").unwrap();
    drop(late);
    server.gate.set_shut(false);
    assert!(first.rest().body.ends_with("data: [DONE]\n\n"));
    let waited = head(waiting).rest();
    let text = |reply: &client::Reply| -> String {
        events(reply).iter().filter_map(|event| event["choices"][0]["text"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(text(&waited), text(&lone));
    server.join();
}

#[test]
fn a_request_that_takes_too_long_is_an_error() {
    let server = start(|options| options.limits.request_time = Duration::ZERO);
    let body = json!({"prompt": "Once", "max_tokens": 50});
    let reply = server.post("/v1/completions", &body);
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (504, Some("timeout")));
    assert_eq!(server.metric("answers_failed_total"), 1.0);
}

/// Bodies that are refused, with their paths.
fn nonsense() -> Vec<(&'static str, String)> {
    let (chat, text) = ("/v1/chat/completions", "/v1/completions");
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let user = r#""messages": [{"role": "user", "content": "x"}]"#;
    vec![
        (chat, String::new()),
        (chat, "{".into()),
        (chat, "[]".into()),
        (chat, "nul".into()),
        (chat, deep),
        (chat, r#"{"messages": []}"#.into()),
        (chat, r#"{"messages": [{"role": "user"}], "messages": []}"#.into()),
        (chat, r#"{"messages": [{"role": "wizard", "content": "x"}]}"#.into()),
        (chat, r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#.into()),
        (chat, format!(r#"{{{user}, "temperature": -1}}"#)),
        (chat, format!(r#"{{{user}, "temperature": 1e999}}"#)),
        (chat, format!(r#"{{{user}, "top_p": 2}}"#)),
        (chat, format!(r#"{{{user}, "max_tokens": 0}}"#)),
        (chat, format!(r#"{{{user}, "max_tokens": 1.5}}"#)),
        (chat, format!(r#"{{{user}, "n": 100000}}"#)),
        (chat, format!(r#"{{{user}, "seed": "one"}}"#)),
        (chat, format!(r#"{{{user}, "stop": [1]}}"#)),
        (chat, format!(r#"{{{user}, "stop": ""}}"#)),
        (chat, format!(r#"{{{user}, "logit_bias": {{"5": 100}}}}"#)),
        (chat, format!(r#"{{{user}, "presence_penalty": 0.5}}"#)),
        (chat, format!(r#"{{{user}, "unheard_of": 1}}"#)),
        (chat, format!(r#"{{{user}, "stream_options": {{}}}}"#)),
        (chat, format!(r#"{{{user}, "tools": [{{"type": "function"}}]}}"#)),
        (chat, format!(r#"{{{user}, "chat_template_kwargs": {{"messages": 1}}}}"#)),
        (text, r#"{"prompt": [4096]}"#.into()),
        (text, r#"{"prompt": [-1]}"#.into()),
        (text, r#"{"prompt": []}"#.into()),
        (text, r#"{"prompt": {"a": 1}}"#.into()),
        (text, r#"{"prompt": [1, "a"]}"#.into()),
        (text, format!(r#"{{"prompt": "{}"}}"#, "word ".repeat(3000))),
    ]
}

#[test]
fn nonsense_gets_an_error_object_and_the_server_goes_on() {
    let server = start(|options| options.limits.body_bytes = 20_000);
    let text = "/v1/completions";
    let bodies = nonsense();
    for (path, body) in &bodies {
        let reply = head(send(server.address, "POST", path, "", body.as_bytes())).rest();
        assert_eq!(reply.status, 400, "{body:.100}: {}", reply.body);
        assert!(!reply.error().is_empty());
    }
    let wrong = r#"{"model": "gpt-9", "prompt": "x"}"#;
    assert_eq!(head(send(server.address, "POST", text, "", wrong.as_bytes())).rest().status, 404);
    let latin = b"{\"prompt\": \"\xff\xfe\"}";
    assert_eq!(head(send(server.address, "POST", text, "", latin)).rest().status, 400);
    let large = format!(r#"{{"prompt": "{}"}}"#, "x".repeat(30_000));
    assert_eq!(head(send(server.address, "POST", text, "", large.as_bytes())).rest().status, 413);
    let untyped =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(head(raw(server.address, untyped.as_bytes())).rest().status, 415);
    let headers: String = (0..200).map(|i| format!("X-{i}: y\r\n")).collect();
    assert_eq!(head(send(server.address, "GET", "/health", &headers, b"")).rest().status, 431);
    assert!(matches!(head(raw(server.address, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")).rest().status, 0 | 400));
    assert_eq!(get(server.address, "/health").status, 200);
    assert_eq!(server.metric("answers_failed_total"), 0.0);
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let server = start(|options| options.limits.connections = 2);
    let idle: Vec<TcpStream> = (0..2).map(|_| raw(server.address, b"GET /health HTTP/1.1\r\n")).collect();
    let refused = loop {
        // The idle ones may not have been accepted yet.
        let reply = get(server.address, "/health");
        if reply.status == 503 {
            break reply;
        }
    };
    assert!(refused.error().contains("connections"));
    drop(idle);
    while get(server.address, "/health").status != 200 {}
}
