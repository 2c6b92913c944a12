//! Answers as JSON: whole, or as the chunks of a stream.

use super::tools::{Call, Held, split};
use crate::outbox::{End, Event, Logprob, Piece, Reason, Stats};
use gorgon_core::Token;
use gorgon_text::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

/// The least log-probability that is written: JSON has no infinity.
const LEAST: f64 = -9999.0;

/// Form of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub is_chat: bool,
    /// A number that no other answer of this server has.
    pub id: String,
    pub created: u64,
    pub model: String,
    pub include_usage: bool,
    pub pieces: bool,
    pub token_ids: bool,
    pub logprobs: Option<usize>,
    /// Whether calls of tools are looked for.
    pub has_tools: bool,
}

/// One of the answers of a request.
#[derive(Debug, Default)]
struct Choice {
    text: String,
    pieces: Vec<Value>,
    ids: Vec<Token>,
    logprobs: Vec<Logprob>,
    reason: Option<Reason>,
    held: Held,
    begun: bool,
    /// Characters before the next token, for `text_offset`.
    offset: usize,
}

/// The answers of a request as they come.
pub(crate) struct Answer {
    shape: Shape,
    tokenizer: Tokenizer,
    choices: Vec<Choice>,
    /// Prompt tokens of each prompt count once.
    stats: Stats,
    open: usize,
}

impl Answer {
    /// Of `n` choices, none of which has begun.
    pub fn new(shape: Shape, tokenizer: Tokenizer, n: usize) -> Self {
        let choices = (0..n).map(|_| Choice::default()).collect();
        Self { shape, tokenizer, choices, stats: Stats::default(), open: n }
    }

    /// Whether all choices have ended.
    pub fn is_done(&self) -> bool {
        self.open == 0
    }

    /// Takes note of an event, for a whole answer.
    pub fn collect(&mut self, event: Event) {
        match event {
            Event::Piece(piece) => {
                let has_pieces = self.shape.pieces;
                let Some(choice) = self.choices.get_mut(piece.index) else { return };
                if has_pieces && !piece.text.is_empty() {
                    choice.pieces.push(shown(&piece));
                }
                choice.text.push_str(&piece.text);
                choice.ids.extend(piece.ids);
                choice.logprobs.extend(piece.logprobs);
            }
            Event::End(end) => self.end(&end),
            Event::Failed(_) => {}
        }
    }

    fn end(&mut self, end: &End) {
        let Some(choice) = self.choices.get_mut(end.index).filter(|choice| choice.reason.is_none()) else { return };
        choice.reason = Some(end.reason);
        self.open -= 1;
        let (total, new) = (&mut self.stats, end.stats);
        total.prompt += new.prompt;
        total.read += new.read;
        total.tokens += new.tokens;
        total.steps += new.steps;
        total.drafted += new.drafted;
        total.accepted += new.accepted;
        total.prefill_time = total.prefill_time.max(new.prefill_time);
        total.decode_time = total.decode_time.max(new.decode_time);
    }

    /// The whole answer.
    pub fn whole(mut self) -> Value {
        let choices = std::mem::take(&mut self.choices);
        let choices: Vec<Value> = choices.into_iter().enumerate().map(|(at, one)| self.choice(at, one)).collect();
        let mut body = self.frame(if self.shape.is_chat { "chat.completion" } else { "text_completion" }, choices);
        body["usage"] = self.usage();
        body["timings"] = self.timings();
        body
    }

    fn choice(&mut self, index: usize, choice: Choice) -> Value {
        let logprobs = self.logprobs(&choice.logprobs, 0);
        let mut shown = json!({"index": index, "finish_reason": reason(choice.reason), "logprobs": logprobs});
        if self.shape.is_chat {
            let (text, calls) = if self.shape.has_tools { split(&choice.text) } else { (choice.text, vec![]) };
            let mut message = json!({"role": "assistant", "content": text, "refusal": null});
            if !calls.is_empty() {
                message["tool_calls"] = self.calls(&calls, index, false);
                message["content"] = if text.is_empty() { Value::Null } else { text.into() };
                shown["finish_reason"] = "tool_calls".into();
            }
            shown["message"] = message;
        } else {
            shown["text"] = choice.text.into();
        }
        if self.shape.pieces {
            shown["pieces"] = choice.pieces.into();
        }
        if self.shape.token_ids {
            shown["token_ids"] = choice.ids.into();
        }
        shown
    }

    fn calls(&self, calls: &[Call], choice: usize, in_stream: bool) -> Value {
        let id = format!("{}_{choice}", self.shape.id);
        calls.iter().enumerate().map(|(at, call)| call.to_json(&id, at, in_stream)).collect()
    }

    /// The chunks that an event adds to a stream.
    pub fn chunks(&mut self, event: Event) -> Vec<Value> {
        match event {
            Event::Piece(piece) => self.piece(piece),
            Event::End(end) => self.last(&end),
            Event::Failed(error) => vec![error.body()],
        }
    }

    fn piece(&mut self, piece: Piece) -> Vec<Value> {
        let Some(choice) = self.choices.get_mut(piece.index) else { return vec![] };
        let text = if self.shape.has_tools { choice.held.push(&piece.text) } else { piece.text.clone() };
        choice.text.push_str(&piece.text);
        let offset = choice.offset;
        choice.offset += piece.text.chars().count();
        if text.is_empty() && piece.logprobs.is_empty() && !self.shape.token_ids {
            return vec![];
        }
        let mut shown = json!({"index": piece.index, "finish_reason": null});
        self.set_text(&mut shown, piece.index, text);
        if self.shape.logprobs.is_some() {
            shown["logprobs"] = self.logprobs(&piece.logprobs, offset);
        }
        if self.shape.pieces {
            shown["pieces"] = json!([self::shown(&piece)]);
        }
        if self.shape.token_ids {
            shown["token_ids"] = piece.ids.into();
        }
        vec![self.chunk(vec![shown])]
    }

    /// Puts text into a chunk's choice; the first one says whose it is.
    fn set_text(&mut self, shown: &mut Value, index: usize, text: String) {
        if !self.shape.is_chat {
            shown["text"] = text.into();
            return;
        }
        let mut delta = json!({"content": text});
        if let Some(choice) = self.choices.get_mut(index).filter(|choice| !choice.begun) {
            choice.begun = true;
            delta["role"] = "assistant".into();
        }
        shown["delta"] = delta;
    }

    /// The end of a choice: what was held back, its reason, and behind the last choice the usage.
    fn last(&mut self, end: &End) -> Vec<Value> {
        self.end(end);
        let (mut chunks, mut calls) = (vec![], vec![]);
        let (mut rest, mut whole) = (String::new(), String::new());
        if let Some(choice) = self.choices.get_mut(end.index) {
            rest = std::mem::take(&mut choice.held).finish();
            whole = std::mem::take(&mut choice.text);
        }
        if self.shape.has_tools {
            let kept = split(&rest);
            (rest, calls) = if kept.1.is_empty() { (rest, split(&whole).1) } else { kept };
        }
        if !rest.is_empty() {
            let mut shown = json!({"index": end.index, "finish_reason": null});
            self.set_text(&mut shown, end.index, rest);
            chunks.push(self.chunk(vec![shown]));
        }
        let mut shown = json!({"index": end.index, "finish_reason": reason(Some(end.reason))});
        if !calls.is_empty() {
            let calls = self.calls(&calls, end.index, true);
            let delta = json!({"role": "assistant", "tool_calls": calls});
            let called = json!({"index": end.index, "finish_reason": null, "delta": delta});
            chunks.push(self.chunk(vec![called]));
            shown["finish_reason"] = "tool_calls".into();
        }
        shown[if self.shape.is_chat { "delta" } else { "text" }] =
            if self.shape.is_chat { Map::new().into() } else { "".into() };
        let mut closing = self.chunk(vec![shown]);
        if self.is_done() {
            closing["timings"] = self.timings();
        }
        chunks.push(closing);
        if self.is_done() && self.shape.include_usage {
            let mut usage = self.chunk(vec![]);
            usage["usage"] = self.usage();
            chunks.push(usage);
        }
        chunks
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        self.frame(if self.shape.is_chat { "chat.completion.chunk" } else { "text_completion" }, choices)
    }

    fn frame(&self, object: &str, choices: Vec<Value>) -> Value {
        let Shape { is_chat, id, created, model, .. } = &self.shape;
        let id = format!("{}-{id}", if *is_chat { "chatcmpl" } else { "cmpl" });
        json!({"id": id, "object": object, "created": created, "model": model, "choices": choices})
    }

    fn usage(&self) -> Value {
        let Stats { prompt, read, tokens, .. } = self.stats;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            "prompt_tokens_details": {"cached_tokens": prompt.saturating_sub(read)},
        })
    }

    /// As llama.cpp's server reports them.
    fn timings(&self) -> Value {
        let s = &self.stats;
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let rate = |count: usize, ms: f64| (ms > 0.0).then(|| count as f64 * 1e3 / ms);
        let (prompt_ms, predicted_ms) = (millis(s.prefill_time), millis(s.decode_time));
        let decoded = s.tokens.saturating_sub(self.choices.len().max(1));
        json!({
            "prompt_n": s.read,
            "cache_n": s.prompt.saturating_sub(s.read),
            "prompt_ms": prompt_ms,
            "prompt_per_second": rate(s.read, prompt_ms),
            "predicted_n": s.tokens,
            "predicted_ms": predicted_ms,
            "predicted_per_second": rate(decoded, predicted_ms),
            "steps": s.steps,
            "draft_n": s.drafted,
            "draft_n_accepted": s.accepted,
            "tokens_per_step": (s.steps > 0).then(|| decoded as f64 / s.steps as f64),
        })
    }

    fn logprobs(&self, logprobs: &[Logprob], offset: usize) -> Value {
        if self.shape.logprobs.is_none() {
            return Value::Null;
        }
        let spell = |token: Token| self.tokenizer.decode(&[token], false).unwrap_or_default();
        if self.shape.is_chat {
            let entry = |token, logprob: f64| {
                let text = spell(token);
                json!({"bytes": text.as_bytes(), "token": text, "logprob": logprob.max(LEAST)})
            };
            let one = |one: &Logprob| {
                let mut shown = entry(one.token, one.logprob);
                shown["top_logprobs"] = one.top.iter().map(|&(token, logprob)| entry(token, logprob)).collect();
                shown
            };
            return json!({"content": logprobs.iter().map(one).collect::<Vec<_>>(), "refusal": null});
        }
        let texts: Vec<String> = logprobs.iter().map(|one| spell(one.token)).collect();
        let offsets = texts.iter().scan(offset, |at, text| {
            *at += text.chars().count();
            Some(*at - text.chars().count())
        });
        let top = |one: &Logprob| -> Value {
            let entries = one.top.iter().map(|&(token, logprob)| (spell(token), Value::from(logprob.max(LEAST))));
            entries.collect::<Map<_, _>>().into()
        };
        json!({
            "text_offset": offsets.collect::<Vec<_>>(),
            "token_logprobs": logprobs.iter().map(|one| one.logprob.max(LEAST)).collect::<Vec<_>>(),
            "tokens": texts,
            "top_logprobs": logprobs.iter().map(top).collect::<Vec<_>>(),
        })
    }
}

/// A piece and whether it was drafted.
fn shown(piece: &Piece) -> Value {
    json!({"text": piece.text, "drafted": piece.drafted})
}

fn reason(reason: Option<Reason>) -> &'static str {
    match reason {
        Some(Reason::Length) => "length",
        Some(Reason::Stop) | None => "stop",
    }
}
