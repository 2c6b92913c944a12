//! Bodies of requests to a server.

use super::sound::{SHAPE, model};
use gorgon_data::render::Renderer;
use gorgon_serve::{AnswerBounds, Limits, Model, Options, RequestParser};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::OnceLock;

/// Tokens of prompt and answer together.
const CONTEXT: usize = 512;
/// Answers that one request may ask for: as many as may wait.
const ANSWERS: usize = 64;
/// Stop strings of a request, and bytes of one.
const STOPS: (usize, usize) = (16, 1024);
/// Top tokens of which log-probabilities are reported.
const TOP_LOGPROBS: usize = 20;

/// A template that writes all that a request may bring.
const TEMPLATE: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>\
    {{ m.content }}{% if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}\
    {% if thinking is defined %}{{ thinking }}{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}";

fn parser() -> &'static RequestParser {
    static PARSER: OnceLock<RequestParser> = OnceLock::new();
    PARSER.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a folder for a model");
        for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
            std::fs::copy(model().join(name), dir.path().join(name)).expect("a file of the model");
        }
        std::fs::write(dir.path().join("chat_template.jinja"), TEMPLATE).expect("a template");
        let renderer = Renderer::load(dir.path()).expect("a tokenizer and a template");
        // Without them every request with tools would be refused before it is rendered.
        assert!(renderer.has_tools());
        let model = Model { name: "m".into(), renderer, context: CONTEXT, vocab_size: SHAPE.vocab_size, created: 1 };
        let limits = Limits { queue: ANSWERS, ..Limits::new(2, 2 * CONTEXT) };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options { address, api_key: None, cors: None, limits, store: None, entropy: 7 };
        RequestParser::new(model, options)
    })
}

/// A body is refused as the client's fault, or asks for no more than the limits allow.
pub(super) fn request(bytes: &[u8]) {
    for parsed in [parser().chat(bytes), parser().completion(bytes)] {
        match parsed {
            Ok(answers) => check(&answers),
            Err(status) => assert!((400..500).contains(&status), "status {status}"),
        }
    }
}

fn check(answers: &[AnswerBounds]) {
    assert!((1..=ANSWERS).contains(&answers.len()), "{} answers", answers.len());
    for answer in answers {
        let AnswerBounds { prompt, max_new_tokens, stop, logprobs } = answer;
        // The last new token is emitted and never read, so it needs no row of the context.
        let fits = *prompt > 0 && *max_new_tokens > 0 && prompt.saturating_add(*max_new_tokens) <= CONTEXT + 1;
        assert!(fits, "{prompt} tokens and {max_new_tokens} new ones");
        let (most, bytes) = STOPS;
        let is_short = |text: &String| (1..=bytes).contains(&text.len());
        assert!(stop.len() <= most && stop.iter().all(is_short), "{stop:?}");
        assert!(logprobs.is_none_or(|top| top <= TOP_LOGPROBS), "{logprobs:?}");
    }
}

pub(super) fn request_seeds() -> Vec<Vec<u8>> {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}});
    let seeds = [
        json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "h\u{e9}"}],
            "temperature": 0.7, "top_p": 0.9, "top_k": 40, "max_tokens": 16, "n": 2, "seed": -3, "stop": ["\n", "ab"],
            "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 20}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": "2"}],
            "tools": [tool], "tool_choice": "auto", "chat_template_kwargs": {"thinking": true}}),
        json!({"prompt": "once", "max_tokens": i64::MAX, "logprobs": 5, "add_special_tokens": false, "ignore_eos": true,
            "return_token_ids": true, "user": "u", "best_of": 1, "logit_bias": {}}),
        json!({"prompt": [[1, 2, 3], "text", [259]], "n": 4, "stop": "x", "drafts": false, "pieces": true}),
    ];
    let sound: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_string().into_bytes()).collect();
    // A body that both paths refuse would leave all that is behind the parsing untried.
    for (body, seed) in sound.iter().zip(&seeds) {
        let (chat, completion) = (parser().chat(body), parser().completion(body));
        assert!(chat.is_ok() || completion.is_ok(), "a sound body is refused: {chat:?}, {completion:?}: {seed}");
    }
    sound
}
