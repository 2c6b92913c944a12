//! Endpoints, streams, stop strings, log-probabilities, turns.

use super::client::{self, events, get};
use super::server::{Testing, start};
use serde_json::{Value, json};

const QUESTION: &str = "Tell me a story about a fox and a river.";

fn ask(content: &str, more: Value) -> Value {
    let mut body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 60
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn chat(server: &Testing, content: &str, more: Value) -> Value {
    let reply = server.post("/v1/chat/completions", &ask(content, more));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn every_endpoint_answers() {
    let server = start(|_| {});
    let at = server.address;
    assert_eq!(get(at, "/health").json()["status"], "ok");
    let page = get(at, "/");
    assert!(page.status == 200 && page.headers.contains("content-security-policy"), "{}", page.headers);
    assert_eq!(get(at, "/v1/models").json()["data"][0]["id"], "tiny");
    assert_eq!(get(at, "/v1/models/tiny").json()["max_model_len"], 1024);
    assert_eq!(get(at, "/v1/models/other").status, 404);
    assert_eq!(get(at, "/v1/nothing").status, 404);
    assert_eq!(get(at, "/v1/completions").status, 405);
    let answer = chat(&server, QUESTION, json!({}));
    assert_eq!(answer["object"], "chat.completion");
    assert!(!content(&answer).is_empty());
    let usage = &answer["usage"];
    let sum = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);
    assert_eq!(answer["timings"]["predicted_n"], usage["completion_tokens"]);
    let text = server.post("/v1/completions", &json!({"prompt": "Once", "max_tokens": 5, "temperature": 0}));
    assert_eq!(text.json()["choices"][0]["finish_reason"], "length", "{}", text.body);
    assert_eq!(server.metric("answers_total"), 2.0);
    assert!(server.metric("sequence_steps_total") > 0.0 && server.metric("kv_rows_used") > 0.0);
}

#[test]
fn a_stream_has_the_text_of_the_whole_answer() {
    let server = start(|_| {});
    for temperature in [0.0, 0.8] {
        let more = json!({"temperature": temperature, "seed": 5});
        let whole = chat(&server, QUESTION, more);
        let more = json!({"temperature": temperature, "seed": 5, "stream": true, "pieces": true,
                          "stream_options": {"include_usage": true}});
        let events = events(&server.post("/v1/chat/completions", &ask(QUESTION, more)));
        let delta = |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
        assert_eq!(events.iter().map(delta).collect::<String>(), content(&whole));
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        let piece = |event: &Value| event["choices"][0]["pieces"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(events.iter().map(piece).collect::<String>(), content(&whole));
        let [.., closing, usage] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(closing["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
        assert_eq!(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
    }
}

#[test]
fn stop_strings_end_the_text_before_them_wherever_tokens_end() {
    let server = start(|_| {});
    let whole = chat(&server, QUESTION, json!({"max_tokens": 40}));
    let whole = content(&whole).to_owned();
    let letters: Vec<(usize, char)> = whole.char_indices().collect();
    for from in (1..letters.len().saturating_sub(6)).step_by(3) {
        let stop = &whole[letters[from].0..letters[from + 5].0];
        let expected = &whole[..whole.find(stop).unwrap()];
        for stream in [false, true] {
            let more = json!({"max_tokens": 40, "stop": ["never written", stop], "stream": stream});
            let reply = server.post("/v1/chat/completions", &ask(QUESTION, more));
            let (text, reason) = match stream {
                false => (content(&reply.json()).to_owned(), reply.json()["choices"][0]["finish_reason"].clone()),
                true => {
                    let events = events(&reply);
                    let text =
                        |event: &Value| event["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
                    (events.iter().map(text).collect(), events.last().unwrap()["choices"][0]["finish_reason"].clone())
                }
            };
            assert_eq!((text.as_str(), reason), (expected, "stop".into()), "{stop:?}");
        }
    }
}

#[test]
fn logprobs_are_those_of_the_tokens_drafted_or_not() {
    let server = start(|_| {});
    let more = |drafts: bool| json!({"logprobs": true, "top_logprobs": 3, "drafts": drafts, "return_token_ids": true});
    let plain = chat(&server, QUESTION, more(false));
    let drafted = chat(&server, QUESTION, more(true));
    assert_eq!(plain["choices"], drafted["choices"]);
    let shown = plain["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let text: String = shown.iter().map(|one| one["token"].as_str().unwrap()).collect();
    assert_eq!(text.trim(), content(&plain).trim());
    for one in shown {
        let (own, top) = (one["logprob"].as_f64().unwrap(), one["top_logprobs"].as_array().unwrap());
        assert!(own <= 0.0 && top.len() == 3 && top[0]["logprob"] == one["logprob"], "{one}");
    }
    let body = json!({"prompt": "Once upon", "max_tokens": 4, "temperature": 0, "logprobs": 2});
    let text = server.post("/v1/completions", &body).json();
    let shown = &text["choices"][0]["logprobs"];
    assert_eq!(shown["tokens"].as_array().unwrap().len(), 4, "{text}");
    assert_eq!(shown["text_offset"][0], 0);
}

#[test]
fn several_answers_and_prompts_have_their_own_places() {
    let server = start(|_| {});
    let body = json!({"prompt": ["Once", "The fox"], "n": 2, "max_tokens": 8, "temperature": 1.0, "seed": 3});
    let answer = server.post("/v1/completions", &body).json();
    let texts: Vec<&str> = (0..4).map(|at| answer["choices"][at]["text"].as_str().unwrap()).collect();
    assert!(texts[0] != texts[1], "two samples are two texts: {texts:?}");
    for (at, prompt) in ["Once", "The fox"].into_iter().enumerate() {
        let body = json!({"prompt": prompt, "max_tokens": 8, "temperature": 1.0, "seed": 3});
        let lone = server.post("/v1/completions", &body).json();
        assert_eq!(lone["choices"][0]["text"], texts[2 * at]);
    }
    let ids = json!({"prompt": [0, 17, 99], "max_tokens": 3, "return_token_ids": true});
    let ids = server.post("/v1/completions", &ids).json();
    assert!(!ids["choices"][0]["token_ids"].as_array().unwrap().is_empty(), "{ids}");
}

/// The prompt of several answers is read once; the answers are those that are read and decoded one after the other.
#[test]
fn several_answers_read_their_prompt_once() {
    let together = start(|_| {});
    let alone = start(|options| options.limits.batch = 1);
    // More tokens than are read at a time.
    let long = QUESTION.repeat(60);
    for question in [QUESTION, &long] {
        let more = json!({"n": 4, "temperature": 0.9, "seed": 8, "max_tokens": 12, "logprobs": true});
        let before = together.metric("prompt_tokens_read_total");
        let answer = chat(&together, question, more.clone());
        let prompt = answer["usage"]["prompt_tokens"].as_u64().unwrap();
        assert!(question == QUESTION || (300..1000).contains(&prompt), "it counts once: {prompt}");
        // What the cache of an answer before had in common with it is known.
        let read = together.metric("prompt_tokens_read_total") - before;
        assert!(read <= prompt as f64 && read > 0.0, "{read} of {prompt} tokens, four answers");
        assert_eq!(chat(&alone, question, more)["choices"], answer["choices"]);
    }
}

#[test]
fn a_second_turn_reads_its_new_tokens_only() {
    let server = start(|_| {});
    let first = chat(&server, QUESTION, json!({}));
    let (prompt, new) = (&first["usage"]["prompt_tokens"], &first["usage"]["completion_tokens"]);
    let known = prompt.as_u64().unwrap() + new.as_u64().unwrap() - 1;
    // Others come in between.
    for other in ["What is two plus two?", "Name a colour.", "Say hello."] {
        chat(&server, other, json!({"max_tokens": 10}));
    }
    let before = (server.metric("prompt_tokens_read_total"), server.metric("prompt_tokens_reused_total"));
    let messages = json!([
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": content(&first)},
        {"role": "user", "content": "And then?"},
    ]);
    let second = chat(&server, "", json!({"messages": messages}));
    let prompt = second["usage"]["prompt_tokens"].as_u64().unwrap();
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached + 2 >= known && cached <= known, "{cached} of {known} known tokens were used");
    let read = server.metric("prompt_tokens_read_total") - before.0;
    let reused = server.metric("prompt_tokens_reused_total") - before.1;
    assert_eq!((read, reused), ((prompt - cached) as f64, cached as f64));
}

#[test]
fn distillation_can_ask_this_server() {
    let server = start(|_| {});
    let body = json!({"model": "tiny", "prompt": [0, 5, 9], "max_tokens": 7, "temperature": 0.0, "top_p": 1.0,
                      "seed": 1, "n": 1, "stream": false, "return_token_ids": true});
    let answer = server.post("/v1/completions", &body).json();
    let choice = &answer["choices"][0];
    assert!(choice["token_ids"].as_array().is_some_and(|ids| !ids.is_empty() && ids.len() <= 7), "{answer}");
}

#[test]
fn keys_and_hosts_are_checked() {
    let server = start(|options| options.api_key = Some("secret".into()));
    let at = server.address;
    let status = |more: &str| client::head(client::send(at, "GET", "/v1/models", more, b"")).rest().status;
    assert_eq!(status(""), 401);
    assert_eq!(status("Authorization: Bearer wrong!\r\n"), 401);
    assert_eq!(status("Authorization: Bearer secret\r\n"), 200);
    assert_eq!(get(at, "/health").status, 200);
    let host = |host: &str| {
        let bytes = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client::head(client::raw(at, bytes.as_bytes())).rest().status
    };
    assert_eq!(["evil.example", "127.0.0.1:99", "[::1]:80", "LOCALHOST"].map(host), [403, 200, 200, 200]);
}
