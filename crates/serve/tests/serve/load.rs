//! Many requests at once: each text is the one that it has alone.

use super::client::{self, events};
use super::server::{Testing, start};
use serde_json::{Value, json};

/// Requests of all kinds: greedy and sampled, cut in several ways, drafted or not, long and short.
fn requests() -> Vec<Value> {
    let questions = ["Tell me a story about a dog.", "What is 12 plus 30?", "List three fruits.", "Who are you?"];
    let settings = [
        json!({"temperature": 0}),
        json!({"temperature": 0.7, "top_p": 0.9}),
        json!({"temperature": 1.0}),
        json!({"temperature": 1.2, "top_k": 20}),
        json!({"temperature": 1.0, "drafts": false}),
        json!({"temperature": 0.5, "logprobs": true}),
    ];
    let mut all = vec![];
    for (at, question) in questions.iter().enumerate() {
        for (kind, setting) in settings.iter().enumerate() {
            let filler = "Please. ".repeat(if kind == 2 { 90 } else { at });
            let content = format!("{filler}{question}");
            let mut body = json!({"messages": [{"role": "user", "content": content}],
                                  "max_tokens": 20 + 17 * kind, "seed": 100 * at + kind});
            body.as_object_mut().unwrap().extend(setting.as_object().unwrap().clone());
            all.push(body);
        }
    }
    all
}

fn text(server: &Testing, body: &Value, stream: bool) -> String {
    let mut body = body.clone();
    body["stream"] = stream.into();
    let reply = server.post("/v1/chat/completions", &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    if !stream {
        return reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    }
    let delta = |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    events(&reply).iter().map(delta).collect()
}

#[test]
fn texts_under_load_are_those_of_lone_plain_requests() {
    let requests = requests();
    let plain = start(|options| options.limits.batch = 1);
    let alone: Vec<String> = requests
        .iter()
        .map(|body| {
            let mut body = body.clone();
            body["drafts"] = false.into();
            text(&plain, &body, false)
        })
        .collect();
    drop(plain);
    // Few rows, so that caches are given up and read anew.
    let server = start(|options| (options.limits.batch, options.limits.rows) = (6, 3000));
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, requests, alone) = (&server, &requests, &alone);
            scope.spawn(move || {
                for step in 0..requests.len() {
                    let at = (step * (2 * client + 5) + 3 * client) % requests.len();
                    if (step + client) % 7 == 3 {
                        leave(server, &requests[at]);
                    }
                    let found = text(server, &requests[at], (step + client) % 2 == 0);
                    assert_eq!(found, alone[at], "{}", requests[at]);
                }
            });
        }
    });
    assert!(server.metric("kv_rows_used") <= 3000.0);
    assert!(server.metric("mean_batch") > 1.5, "{}", server.metric("mean_batch"));
    assert!(server.metric("drafted_tokens_total") > 0.0);
    assert_eq!(server.metric("answers_failed_total"), 0.0);
}

/// A client that leaves in the middle of a stream.
fn leave(server: &Testing, body: &Value) {
    let mut body = body.clone();
    body["stream"] = true.into();
    let sent = client::send(server.address, "POST", "/v1/chat/completions", "", body.to_string().as_bytes());
    client::head(sent).chunk();
}
