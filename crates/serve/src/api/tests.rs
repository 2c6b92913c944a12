//! Tests of parsing: what clients send, and what they should not.

use super::chat::Chat;
use super::completion::{Completion, Prompt};
use super::tools::{Call, Held, split};
use serde_json::{Value, json};

fn chat(more: Value) -> Result<Chat, String> {
    let mut body = json!({"messages": [{"role": "user", "content": "x"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Chat::parse(body.to_string().as_bytes(), 8).map_err(|error| error.message)
}

#[test]
fn what_clients_send_is_understood() {
    let parsed = chat(json!({
        "model": "m", "temperature": 0.5, "top_p": 1, "top_k": -1, "seed": -3, "n": 2.0, "max_tokens": 10,
        "max_completion_tokens": 20, "stop": "x", "stream": true, "stream_options": {"include_usage": true},
        "user": "someone", "metadata": {"a": "b"}, "store": false, "logit_bias": {}, "presence_penalty": 0.0,
        "frequency_penalty": 0, "response_format": {"type": "text"}, "tools": null, "tool_choice": "auto",
        "logprobs": true, "top_logprobs": 3, "parallel_tool_calls": true, "service_tier": "auto", "min_p": 0,
    }));
    let Chat { sampling, logprobs, tools, .. } = parsed.unwrap();
    assert_eq!((sampling.n, sampling.max_tokens, sampling.seed), (2, Some(20), Some((-3i64).cast_unsigned())));
    assert!(sampling.stream && sampling.include_usage && sampling.stop == ["x"]);
    assert_eq!((sampling.transform.top_k(), sampling.transform.top_p()), (None, None));
    assert_eq!((logprobs, tools), (Some(3), None));
}

#[test]
fn what_would_change_the_answer_is_refused_by_name() {
    for (name, value) in [
        ("presence_penalty", json!(0.5)),
        ("logit_bias", json!({"3": 1})),
        ("response_format", json!({"type": "json_object"})),
        ("best_of", json!(3)),
        ("tool_choice", json!("required")),
        ("functions", json!([])),
        ("reasoning_effort", json!("high")),
        ("guided_json", json!({})),
        ("top_logprobs", json!(3)),
    ] {
        let error = chat(json!({name: value})).unwrap_err();
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn wrong_types_and_numbers_name_their_field() {
    for (name, value) in [
        ("temperature", json!("hot")),
        ("temperature", json!(1e300)),
        ("top_k", json!(0.5)),
        ("n", json!(9)),
        ("n", json!(0)),
        ("n", json!(1e30)),
        ("seed", json!(1.5)),
        ("seed", json!(1e40)),
        ("max_tokens", json!(-1)),
        ("stream", json!("yes")),
        ("stop", json!({})),
        ("stop", json!(vec!["a"; 17])),
        ("messages", json!("hello")),
        ("messages", json!([{"role": "user", "content": 5}])),
        ("messages", json!([{"role": "user"}])),
        ("messages", json!([{"role": "user", "content": "x", "image": "y"}])),
        ("messages", json!([{"role": "assistant", "tool_calls": [{}]}])),
        ("tools", json!([1])),
        ("logprobs", json!(5)),
    ] {
        let error = chat(json!({name: value})).unwrap_err();
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn numbers_out_of_range_have_their_field_as_param() {
    for (name, value) in [("temperature", -1.0), ("top_p", 2.0)] {
        let body = json!({"messages": [{"role": "user", "content": "x"}], name: value});
        let error = Chat::parse(body.to_string().as_bytes(), 8).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(name), "{}", error.message);
    }
}

#[test]
fn messages_become_what_templates_expect() {
    let messages = json!([
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "refusal": null, "annotations": [],
         "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "2"},
    ]);
    let parsed = chat(json!({"messages": messages})).unwrap();
    assert_eq!(parsed.messages[0], json!({"role": "system", "content": "ab"}));
    assert_eq!(parsed.messages[1]["tool_calls"][0]["function"]["arguments"], json!({"x": 1}));
    assert_eq!(parsed.messages[2]["tool_call_id"], "1");
}

#[test]
fn prompts_are_texts_or_ids() {
    let parse = |prompt: Value| {
        Completion::parse(json!({"prompt": prompt}).to_string().as_bytes(), 4, 100).map(|parsed| parsed.prompts)
    };
    let text = |text: &str| Prompt::Text(text.into());
    assert_eq!(parse(json!("a")).unwrap(), [text("a")]);
    assert_eq!(parse(json!(["a", [1, 99]])).unwrap(), [text("a"), Prompt::Ids(vec![1, 99])]);
    assert_eq!(parse(json!([1, 2])).unwrap(), [Prompt::Ids(vec![1, 2])]);
    for wrong in [json!([100]), json!([[1], 2]), json!(vec!["a"; 5]), json!(5), json!([]), json!([1.5])] {
        assert!(parse(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn calls_are_found_as_models_write_them() {
    let call = |name: &str, arguments: &str| Call { name: name.into(), arguments: arguments.into() };
    let (text, calls) = split("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>");
    assert_eq!((text.as_str(), calls), ("Let me see.", vec![call("f", "{\"x\":1}")]));
    let two = "<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>";
    assert_eq!(split(two).1, [call("f", "{}"), call("g", "{}")]);
    assert_eq!(split("{\"name\": \"f\", \"parameters\": {\"y\": []}}"), (String::new(), vec![call("f", "{\"y\":[]}")]));
    assert_eq!(split("[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]").1, [call("f", "{}")]);
    for text in ["plain", "<tool_call>broken</tool_call>", "{\"a\": 1}", "[1, 2]", "x <tool_call>", ""] {
        assert_eq!(split(text), (text.to_owned(), vec![]));
    }
}

#[test]
fn a_stream_holds_back_what_may_be_a_call() {
    let mut held = Held::default();
    let out: Vec<String> =
        ["I ", "look", "<", "b> <tool", "_call>{", "}"].iter().map(|piece| held.push(piece)).collect();
    assert_eq!(out, ["I ", "look", "", "<b> ", "", ""]);
    assert_eq!(held.finish(), "<tool_call>{}");
    let mut held = Held::default();
    assert_eq!((held.push(" "), held.push("{\"a\""), held.finish()), (String::new(), String::new(), " {\"a\"".into()));
}

#[test]
fn bodies_of_random_bytes_are_errors() {
    // Bytes that mutate a valid body, one at a time and cut anywhere.
    let body = json!({"messages": [{"role": "user", "content": "hé"}], "n": 1, "stop": ["a"], "seed": 5}).to_string();
    for at in 0..body.len() {
        for byte in [0, b'"', b'{', b'9', 0xff, b'\\'] {
            let mut wrong = body.clone().into_bytes();
            wrong[at] = byte;
            let _ = Chat::parse(&wrong, 8);
            let _ = Completion::parse(&wrong, 8, 100);
        }
        assert!(Chat::parse(&body.as_bytes()[..at], 8).is_err());
    }
}
