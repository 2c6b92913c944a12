//! Threads that render: each holds a template compiled and an environment for it, and waits for the next conversation.
//!
//! A thread with a deep stack takes a tenth of a millisecond to make, and compiling a template as long again, so both
//! are kept. A rendering still has limits of its own, and a thread whose rendering failed or panicked is given up with
//! all that it holds.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::SystemTime;

use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error};
use serde_json::{Map, Value};

use super::budget::{self, Budget, Limits};
use super::functions::{self, Clock};
use super::rewrite;

/// Name of the template in the engine.
const NAME: &str = "chat_template";

/// A syntax tree can be as deep as the template is long, and is dropped recursively.
const STACK_BYTES: usize = 128 << 20;

/// A template and its limits.
#[derive(Debug)]
pub(super) struct Program {
    pub source: String,
    pub limits: Limits,
}

/// A rendering to be done.
pub(super) struct Request {
    pub variables: Map<String, Value>,
    pub now: Option<SystemTime>,
}

/// Why there is no text.
pub(super) enum Failed {
    /// The engine says why.
    Template(Error),
    /// There is no thread, or it ended in the midst of its work.
    Thread(String),
}

/// The threads of one template.
#[derive(Debug)]
pub(super) struct Workers {
    program: Arc<Program>,
    /// Those without work.
    idle: Mutex<Vec<Worker>>,
    /// How many of those are kept.
    keep: usize,
}

impl Workers {
    /// Compiles a template on the first of its threads.
    ///
    /// # Errors
    /// When it is no valid Jinja, or no thread can be made.
    pub fn start(program: Program) -> Result<Self, Failed> {
        let program = Arc::new(program);
        let first = Worker::start(&program)?;
        let keep = available_parallelism().map_or(1, NonZero::get);
        Ok(Self { program, idle: Mutex::new(vec![first]), keep })
    }

    /// The template.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Renders on a thread that has nothing to do, or on a new one.
    ///
    /// # Errors
    /// When the template refuses, fails or goes beyond its limits.
    pub fn render(&self, request: Request) -> Result<String, Failed> {
        let idle = self.idle().pop();
        let worker = idle.map_or_else(|| Worker::start(&self.program), Ok)?;
        let text = worker.render(request)?;
        let mut idle = self.idle();
        if idle.len() < self.keep {
            idle.push(worker);
        }
        Ok(text)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        // A list of threads is whole at any moment.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that renders. It ends by itself when it is dropped.
#[derive(Debug)]
struct Worker {
    requests: SyncSender<Request>,
    replies: Receiver<Result<String, Error>>,
}

impl Worker {
    fn start(program: &Arc<Program>) -> Result<Self, Failed> {
        let ((requests, work), (replier, replies)) = (sync_channel(1), sync_channel(1));
        let program = program.clone();
        let thread = thread::Builder::new().name("chat template".into()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || run(&program, &work, &replier));
        begun.map_err(|error| Failed::Thread(error.to_string()))?;
        let worker = Self { requests, replies };
        // The first reply says whether the template compiles.
        worker.reply()?;
        Ok(worker)
    }

    fn render(&self, request: Request) -> Result<String, Failed> {
        self.requests.send(request).map_err(|_| gave_up())?;
        self.reply()
    }

    fn reply(&self) -> Result<String, Failed> {
        self.replies.recv().map_err(|_| gave_up())?.map_err(Failed::Template)
    }
}

/// A thread that panicked says no more.
fn gave_up() -> Failed {
    Failed::Thread("the template engine gave up".into())
}

/// Body of a thread: compiles, then renders until nobody can ask any more.
fn run(program: &Program, requests: &Receiver<Request>, replies: &SyncSender<Result<String, Error>>) {
    let served = compile_and(&program.source, |instructions, blocks| {
        let (budget, clock) = (Arc::new(Budget::new(&program.limits)), Clock::default());
        let env = functions::environment(&program.limits, &budget, &clock);
        let mut open = replies.send(Ok(String::new())).is_ok();
        while let (true, Ok(Request { variables, now })) = (open, requests.recv()) {
            budget.refill();
            clock.set(now);
            let text = text(&env, (instructions, blocks), &variables, program.limits.output_bytes);
            open = replies.send(text).is_ok();
        }
        Ok(())
    });
    if let Err(error) = served {
        // Nobody listens where the template was dropped meanwhile.
        let _ = replies.send(Err(error));
    }
}

type Blocks<'a> = std::collections::BTreeMap<&'a str, Instructions<'a>>;

/// Compiles a template and uses the result.
fn compile_and(source: &str, f: impl FnOnce(&Instructions<'_>, &Blocks<'_>) -> Result<(), Error>) -> Result<(), Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    let template = rewrite::rewrite(&parse(source, NAME, syntax)?)?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&template);
    let (instructions, blocks) = generator.finish();
    f(&instructions, &blocks)
}

fn text(
    env: &Environment<'_>,
    (instructions, blocks): (&Instructions<'_>, &Blocks<'_>),
    variables: &Map<String, Value>,
    output_bytes: usize,
) -> Result<String, Error> {
    let root = minijinja::Value::from(Serde(variables));
    let mut text = String::new();
    eval(env, instructions, root, blocks, &mut make_string_output(&mut text), AutoEscape::None)?;
    match text.len() > output_bytes {
        true => Err(budget::too_large(&format!("more than {output_bytes} bytes of text"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests;
