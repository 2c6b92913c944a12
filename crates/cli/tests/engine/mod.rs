//! A serving engine on the loopback interface: it answers with a real model, and can be told to misbehave.

use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Limits, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_text::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Behaviour towards a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Answers with ids.
    Honest,
    /// Answers without ids.
    TextOnly,
    /// Refuses prompts of ids, answers without ids.
    NoIdsAtAll,
    /// Answers with ids of another text.
    WrongIds,
    /// Answers with ids beyond the vocabulary.
    MadUpIds,
    /// Status 500.
    Broken,
    /// Status 429 with `Retry-After`.
    Busy,
    /// Ends the connection in the middle of the answer.
    Cut,
    /// Half an answer as if it were whole.
    HalfJson,
    /// Something else than an answer.
    OtherJson,
    /// No answer at all.
    Silent,
    /// Status 307.
    Moved,
    /// Status 418.
    Teapot,
    /// A body of 12 MB.
    Huge,
    /// An answer with a key twice.
    KeyTwice,
    /// Goes on far past the limit, without ids.
    Endless,
    /// A byte now and then, for longer than anyone waits.
    Drip,
}

struct Engine {
    decoder: Arc<Decoder>,
    text: Tokenizer,
    moods: Vec<Mood>,
    asked: AtomicUsize,
    /// Seeds of all questions.
    seeds: Mutex<Vec<u64>>,
}

/// A running engine. It ends with the process.
pub struct Server {
    pub url: String,
    engine: Arc<Engine>,
}

impl Server {
    /// Starts an engine with a model; its moods take turns.
    pub fn start(model: &Path, moods: &[Mood]) -> Self {
        let decoder = Arc::new(Decoder::load(model, &Compute::cpu(FloatFormat::F32)).unwrap());
        let engine = Arc::new(Engine {
            decoder,
            text: Tokenizer::load(model).unwrap(),
            moods: moods.to_vec(),
            asked: AtomicUsize::new(0),
            seeds: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared = engine.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let engine = shared.clone();
                std::thread::spawn(move || {
                    let _ = engine.serve(&stream);
                });
            }
        });
        Self { url, engine }
    }

    /// Questions so far.
    pub fn asked(&self) -> usize {
        self.engine.asked.load(Ordering::Relaxed)
    }

    /// Their seeds.
    pub fn seeds(&self) -> Vec<u64> {
        self.engine.seeds.lock().unwrap().clone()
    }
}

impl Engine {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let (path, body) = request(stream)?;
        if path.contains("/models") {
            return reply(stream, 200, "", &json!({"data": [{"id": "served"}]}).to_string());
        }
        let question: Value = serde_json::from_slice(&body)?;
        let mood = self.moods[self.asked.fetch_add(1, Ordering::Relaxed) % self.moods.len()];
        match mood {
            Mood::Silent => return Ok(()),
            Mood::Moved => return reply(stream, 307, "Location: http://127.0.0.1:9/\r\n", ""),
            Mood::Teapot => return reply(stream, 418, "", "short and stout"),
            Mood::Huge => return reply(stream, 200, "", &"x".repeat(12 << 20)),
            Mood::Broken => return reply(stream, 500, "", "overloaded"),
            Mood::Busy => return reply(stream, 429, "Retry-After: 0\r\n", ""),
            Mood::OtherJson => return reply(stream, 200, "", "{\"weather\": \"fine\"}"),
            Mood::NoIdsAtAll if question["prompt"].is_array() => return reply(stream, 422, "", "prompt: a string"),
            _ => {}
        }
        let answer = self.answer(&question, mood).to_string();
        match mood {
            Mood::KeyTwice => reply(stream, 200, "", &answer.replacen('{', "{\"choices\": [],", 1)),
            Mood::HalfJson => reply(stream, 200, "", &answer[..answer.len() / 2]),
            Mood::Cut => part(stream, &answer, answer.len() / 2, Duration::ZERO),
            Mood::Drip => part(stream, &answer, answer.len(), Duration::from_millis(100)),
            _ => reply(stream, 200, "", &answer),
        }
    }

    fn answer(&self, question: &Value, mood: Mood) -> Value {
        assert_eq!(question["model"], "served");
        self.seeds.lock().unwrap().push(question["seed"].as_u64().unwrap());
        let prompt: Vec<u32> = match &question["prompt"] {
            Value::String(text) => self.text.encode(text, question["add_special_tokens"].as_bool().unwrap()).unwrap(),
            ids => serde_json::from_value(ids.clone()).unwrap(),
        };
        let ends = self.decoder.config().eos_tokens.clone();
        let max_new_tokens = question["max_tokens"].as_u64().unwrap() as usize;
        let limits = Limits { max_new_tokens, end_tokens: ends.clone() };
        let mut target = DecoderTarget::new(self.decoder.clone(), self.decoder.config().max_positions, Hooks::none());
        let mut go_on = |_| ControlFlow::Continue(());
        let mut random = SeededRandom::new(0);
        let ids = decode(&mut target, &prompt, &Greedy, &mut random, &limits, &mut go_on).unwrap().ids;
        let ended = ids.last().is_some_and(|last| ends.contains(last));
        let text = self.text.decode(&ids, true).unwrap();
        let mut choice = json!({"index": 0, "text": text, "finish_reason": if ended { "stop" } else { "length" }});
        choice["token_ids"] = match mood {
            Mood::Endless => {
                choice["text"] = "on and on ".repeat(20_000).into();
                return json!({"choices": [choice]});
            }
            Mood::TextOnly | Mood::NoIdsAtAll => return json!({"choices": [choice]}),
            Mood::WrongIds => ids.iter().map(|id| (id + 1) % 300).collect::<Vec<_>>().into(),
            Mood::MadUpIds => ids.iter().map(|id| u64::from(*id) + (1 << 33)).collect::<Vec<_>>().into(),
            _ => ids.into(),
        };
        choice["prompt_token_ids"] = prompt.into();
        json!({"choices": [choice]})
    }
}

fn reply(mut stream: &TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let head =
        format!("HTTP/1.1 {status} Status\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The path and the body of a request.
fn request(stream: &TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((first, body))
}

/// Announces a whole answer, and sends so many bytes of it, each after a pause.
fn part(mut stream: &TcpStream, answer: &str, bytes: usize, pause: Duration) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", answer.len());
    stream.write_all(head.as_bytes())?;
    for byte in &answer.as_bytes()[..bytes] {
        stream.write_all(&[*byte])?;
        stream.flush()?;
        std::thread::sleep(pause);
    }
    Ok(())
}
