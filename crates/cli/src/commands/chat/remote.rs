//! A chat with a server.

use super::editor::{Editor, Typed};
use super::render::Screen;
use crate::args;
use crate::interrupt;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::chat::Piece;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::prompts;
use gorgon_workflows::remote::{Client, Streamed};
use gorgon_workflows::units;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Chats with the server at an address.
pub fn run(args: &args::Chat, url: &str, settings: &Settings) -> Result<ExitCode, Failure> {
    let prompt = args.prompt.as_deref().map(|prompt| prompts::given(prompt, std::io::stdin())).transpose()?;
    let options = json!({
        "temperature": args.temperature, "top_p": args.top_p, "top_k": args.top_k, "max_tokens": args.max_new_tokens,
        "seed": settings.seed, "pieces": true,
    });
    let system = args.system.iter().map(|system| json!({"role": "system", "content": system}));
    let (client, messages) = (Client::open(url)?, system.collect());
    let stop = Arc::new(AtomicBool::new(false));
    let mut chat = Remote { client, options, messages, turns: vec![], screen: Screen::new(settings), settings, stop };
    match prompt {
        Some(prompt) => chat.message(&prompt)?,
        None => chat.converse()?,
    }
    if settings.json {
        let document = json!({"model": chat.client.model, "url": url, "messages": chat.messages, "turns": chat.turns});
        printer::document(&document.to_string());
    }
    Ok(ExitCode::SUCCESS)
}

struct Remote<'a> {
    client: Client,
    options: Value,
    messages: Vec<Value>,
    turns: Vec<Value>,
    screen: Screen<'a>,
    settings: &'a Settings,
    /// Set by Ctrl-C while an answer is made.
    stop: Arc<AtomicBool>,
}

impl Remote<'_> {
    fn converse(&mut self) -> Result<(), Failure> {
        let mut editor = if std::io::stdin().is_terminal() && !self.settings.json {
            interrupt::stop_answers(&self.stop)?;
            self.screen
                .say(format!("{} answers; /reset forgets the conversation, Ctrl-D ends the chat", self.client.model));
            Editor::terminal()?
        } else {
            Editor::lines()
        };
        loop {
            let outcome = match editor.read()? {
                Typed::Text(text) => match text.trim() {
                    "" => Ok(()),
                    "/exit" => return Ok(()),
                    "/reset" => {
                        self.messages.retain(|message| message["role"] == "system");
                        Ok(())
                    }
                    command if command.starts_with('/') => {
                        Err(Failure::input(format!("{command}: a chat with a server knows /reset and /exit")))
                    }
                    message => self.message(message),
                },
                Typed::Interrupted => {
                    self.screen.say("Ctrl-D or /exit ends the chat");
                    Ok(())
                }
                Typed::Cleared => Ok(()),
                Typed::End => return Ok(()),
            };
            // Whatever went wrong, the conversation continues.
            if let Err(failure) = outcome {
                self.screen.failed(&failure);
            }
        }
    }

    /// Sends a message and shows its answer.
    fn message(&mut self, message: &str) -> Result<(), Failure> {
        self.stop.store(false, Ordering::Relaxed);
        let asked = [self.messages.as_slice(), &[json!({"role": "user", "content": message})]].concat();
        let (mut text, mut timings) = (String::new(), Value::Null);
        self.client.stream(&asked, &self.options, &mut |part| {
            match part {
                Streamed::Text(piece, drafted) => {
                    self.screen.piece(&Piece { text: piece.into(), drafted });
                    text.push_str(piece);
                }
                Streamed::Timings(numbers) => timings = numbers.clone(),
                Streamed::Usage(_) => {}
            }
            if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.messages = asked;
        self.messages.push(json!({"role": "assistant", "content": text}));
        self.turns.push(json!({"user": message, "text": text, "timings": timings}));
        if !self.settings.json {
            printer::line("");
        }
        if !self.settings.quiet {
            printer::faint(&status(&timings));
        }
        Ok(())
    }
}

/// The status line, as far as the server says.
fn status(timings: &Value) -> String {
    let number = |name: &str| timings.get(name).and_then(Value::as_f64);
    let mut parts = vec![];
    parts.extend(number("predicted_n").map(|tokens| units::of(tokens as usize, "token")));
    parts.extend(number("predicted_per_second").map(|speed| format!("{speed:.0} tokens/s")));
    parts.extend(number("tokens_per_step").map(|tau| format!("{tau:.2} tokens per step")));
    if let (Some(read), Some(cached)) = (number("prompt_n"), number("cache_n")) {
        parts.push(format!("prompt: {read} new, {cached} cached"));
    }
    format!("[{}]", parts.join(", "))
}
