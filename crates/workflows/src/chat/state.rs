//! A chat with a model: messages in, answers out, and what commands do in between.

use super::answer::{Answer, Comparison, Piece, Totals};
use super::command::Setting;
use super::conversation::Conversation;
use super::engine::{Engine, Model};
use super::options::Options;
use super::saved;
use crate::drafting::Newer;
use crate::failure::Failure;
use crate::learn::{CorrectionLog, Learning};
use crate::load;
use crate::prompts;
use crate::settings::Settings;
use gorgon_core::Token;
use gorgon_data::render::Renderer;
use gorgon_draft::choice::DrafterChoice;
use gorgon_infer::{Event, Finish, Generation, Limits};
use gorgon_model::config::ModelConfig;
use gorgon_text::tokenizer::{StreamDecoder, TokenizerError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tokens of context, unless `--context` asks for another number: a conversation rarely needs all that a model has.
const CONTEXT: usize = 8192;

/// Follows an answer as it comes.
pub struct Watch<'a> {
    /// Receives each piece of text.
    pub show: &'a mut dyn FnMut(&Piece),
    /// Stops the answer after the step that is under way.
    pub stop: &'a AtomicBool,
}

/// A chat.
pub struct Chat<'a> {
    settings: &'a Settings,
    dir: PathBuf,
    renderer: Renderer,
    model: Model,
    engine: Engine,
    options: Options,
    conversation: Conversation,
    totals: Totals,
    /// Where drafts are turned off by `/drafter none`, though there are heads.
    resting: bool,
    /// Time of a plain step, and the length of the text behind which it was measured.
    plain_step: Option<(Duration, usize)>,
    /// Newer weights of what drafts, where corrections are logged.
    newer: Option<Newer>,
}

impl<'a> Chat<'a> {
    /// Loads a model, and what drafts for it. With `learn`, corrections are logged, and newer weights of
    /// what drafts are taken up between answers.
    ///
    /// # Errors
    /// When they cannot be loaded, or the model has no chat template.
    pub fn open(
        model: &str,
        options: Options,
        system: Option<String>,
        learn: Option<&Learning>,
        settings: &'a Settings,
    ) -> Result<Self, Failure> {
        options.transform()?;
        let dir = load::decoder_only(model, "chat", settings)?;
        let drafting = Engine::drafting(&options, &dir, settings)?;
        let config = ModelConfig::read(&dir)?;
        let renderer = prompts::renderer(&dir, options.heads.as_deref(), settings)?;
        if !renderer.has_template() {
            let message = format!("{}: the model has no chat template", dir.display());
            return Err(Failure::input(message).hint("gorgon generate continues a prompt"));
        }
        let whole = load::context(&config, settings)?;
        let context = if settings.context.is_some() { whole } else { whole.min(CONTEXT) };
        let log = learn.map(|learn| CorrectionLog::open(learn, &dir, &drafting)).transpose()?;
        let model = Model { decoder: load::decoder(&dir, context, settings)?, context, log };
        let engine = Engine::load(drafting, &options, &model, settings)?;
        let newer = model.log.as_ref().and_then(|_| Newer::of(&engine.drafting));
        let (conversation, totals, resting, plain_step) = (Conversation::new(system), Totals::default(), false, None);
        Ok(Self { settings, dir, renderer, model, engine, options, conversation, totals, resting, plain_step, newer })
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The options that hold now.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Totals of all answers.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Tokens that fit the context.
    pub fn context(&self) -> usize {
        self.model.context
    }

    /// Names of drafter, tree and acceptance rule, as resolved.
    pub fn method(&self) -> (String, String, String) {
        let tree = if self.drafts() { self.engine.drafting.tree_name.clone() } else { "none".into() };
        let drafter = if self.drafts() { self.engine.drafting.name() } else { "none".into() };
        (drafter, tree, self.engine.rule().to_string())
    }

    /// Whether text is, or is distributed as, plain decoding's.
    pub fn is_lossless(&self) -> bool {
        !self.drafts() || self.engine.is_lossless()
    }

    fn drafts(&self) -> bool {
        !self.resting && !self.engine.drafting.is_plain()
    }

    /// Asks a message and answers it. An answer that is stopped is kept as far as it came.
    ///
    /// # Errors
    /// When the message does not fit, the template refuses it, or decoding fails. The conversation has neither message
    /// nor answer then, and goes on.
    pub fn send(&mut self, user: &str, watch: &mut Watch<'_>) -> Result<Answer, Failure> {
        let prompt = self.ask(user)?;
        let answer = self.answer(&prompt, self.drafts(), watch)?;
        self.conversation.answer(user, &answer.ids, &self.renderer)?;
        self.totals.add(&answer);
        Ok(answer)
    }

    /// Answers the last message anew.
    ///
    /// # Errors
    /// When there is none, or as of [`Self::send`]; the conversation is unchanged then.
    pub fn retry(&mut self, watch: &mut Watch<'_>) -> Result<Answer, Failure> {
        let before = self.conversation.clone();
        let last = self.conversation.pop().ok_or_else(|| Failure::input("there is no answer yet"))?;
        let answer = self.send(&last.user, watch);
        if answer.is_err() {
            self.conversation = before;
        }
        answer
    }

    /// Answers a message both plainly and with drafts, by the same random choices, and keeps the drafted answer in the
    /// conversation. Without a message, the last one is answered again and nothing is kept.
    ///
    /// # Errors
    /// When there is no drafter or no message, or as of [`Self::send`].
    pub fn compare(&mut self, user: Option<&str>, stop: &AtomicBool) -> Result<Comparison, Failure> {
        if self.engine.drafting.is_plain() {
            let (message, hint) = match self.options.heads {
                Some(_) => {
                    ("no tree of these heads pays here, so nothing drafts", "/set tree chain:2 drafts all the same")
                }
                None => (
                    "there is no drafter to compare with",
                    "--heads RUN or --drafter suffix gives one; so does /set drafter suffix",
                ),
            };
            return Err(Failure::input(message).hint(hint));
        }
        let before = self.conversation.clone();
        let asked = match user {
            Some(user) => user.to_owned(),
            None => self.conversation.pop().ok_or_else(|| Failure::input("there is no answer to compare yet"))?.user,
        };
        let comparison = self.both(&asked, stop);
        match (&comparison, user) {
            (Ok(both), Some(_)) => self.conversation.answer(&asked, &both.drafted.ids, &self.renderer)?,
            _ => self.conversation = before,
        }
        comparison
    }

    fn both(&mut self, user: &str, stop: &AtomicBool) -> Result<Comparison, Failure> {
        let prompt = self.ask(user)?;
        let random = self.engine.random();
        let watch = &mut Watch { show: &mut |_| {}, stop };
        let plain = self.answer(&prompt, false, watch)?;
        self.engine.set_random(random);
        let drafted = self.answer(&prompt, true, watch)?;
        Ok(Comparison { plain, drafted })
    }

    /// The prompt of a message.
    fn ask(&mut self, user: &str) -> Result<Vec<Token>, Failure> {
        let positions = self.model.decoder.config().max_positions;
        let (room, new) = ((self.model.context, positions), self.options.max_new_tokens);
        self.conversation.ask(user, &self.renderer, room, new)
    }

    fn answer(&mut self, prompt: &[Token], drafts: bool, watch: &mut Watch<'_>) -> Result<Answer, Failure> {
        self.renew();
        let room = self.model.context - prompt.len();
        let end_tokens = self.renderer.end_tokens().to_vec();
        let limits = Limits { max_new_tokens: room.clamp(1, self.options.max_new_tokens), end_tokens };
        let mut text = Streamed { stream: self.renderer.text().stream(true), pieces: vec![], error: None };
        let mut observe = |event: Event| {
            text.push(event, watch.show);
            // Only the last token of a step is no draft, so a step is kept whole.
            let step_ended = matches!(event, Event::Token(_)) && watch.stop.load(Ordering::Relaxed);
            if step_ended || text.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let generation = self.engine.decode(prompt, drafts, &limits, &mut observe, self.settings)?;
        let pieces = text.finish(watch.show)?;
        let plain_step = if drafts { self.plain_step(prompt, &generation) } else { None };
        Ok(self.numbers(prompt, drafts, generation, pieces, plain_step))
    }

    fn numbers(
        &self,
        prompt: &[Token],
        drafted: bool,
        generation: Generation,
        pieces: Vec<Piece>,
        plain_step: Option<Duration>,
    ) -> Answer {
        Answer {
            pieces,
            ids: generation.ids,
            accepted: generation.accepted,
            finish: generation.finish,
            decode_time: generation.decode_time,
            step_time: generation.times.total(),
            prefill_time: generation.prefill_time,
            prompt_tokens: prompt.len(),
            read_tokens: generation.read,
            context: self.model.context,
            trimmed_turns: self.conversation.left_out(),
            drafted,
            lossless: !drafted || self.engine.is_lossless(),
            plain_step,
        }
    }

    /// Time of a plain step, measured behind this text or one nearly as long.
    fn plain_step(&mut self, prompt: &[Token], generation: &Generation) -> Option<Duration> {
        let length = prompt.len() + generation.ids.len();
        let near = |&(_, measured): &(Duration, usize)| {
            !self.engine.times_in_place() || (measured * 4 / 5..=measured * 5 / 4).contains(&length)
        };
        if let Some((time, _)) = self.plain_step.filter(near) {
            return Some(time);
        }
        // One that was stopped is to give the prompt back at once.
        if generation.finish == Finish::Stopped {
            return None;
        }
        let text = [prompt, &generation.ids].concat();
        let room = self.model.context.saturating_sub(length);
        self.plain_step = self.engine.time_plain_step(&text, room).map(|time| (time, length));
        self.plain_step.map(|(time, _)| time)
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// When the value does not fit the model or cannot be loaded; nothing is changed then.
    pub fn set(&mut self, setting: Setting) -> Result<(), Failure> {
        if let Setting::Drafter(choice @ (DrafterChoice::None | DrafterChoice::Auto)) = &setting {
            let plain = *choice == DrafterChoice::None;
            if plain || *choice == self.options.drafter || !self.engine.drafting.is_plain() {
                self.resting = plain;
                return Ok(());
            }
        }
        let changed = self.options.with(setting.clone());
        changed.transform()?;
        match setting {
            Setting::MaxNewTokens(_) => {}
            Setting::Seed(seed) => self.engine.reseed(seed),
            Setting::Drafter(_) | Setting::Tree(_) => self.reload(&changed)?,
            Setting::Temperature(_) | Setting::TopP(_) | Setting::TopK(_) | Setting::Accept(_) => {
                if !self.engine.change_rule(&changed)? {
                    let (resting, random) = (self.resting, self.engine.random());
                    self.reload(&changed)?;
                    self.resting = resting;
                    self.engine.set_random(random);
                }
                self.plain_step = None;
            }
        }
        self.options = changed;
        Ok(())
    }

    fn reload(&mut self, options: &Options) -> Result<(), Failure> {
        self.engine = self.loaded(options)?;
        self.newer = self.model.log.as_ref().and_then(|_| Newer::of(&self.engine.drafting));
        (self.resting, self.plain_step) = (false, None);
        Ok(())
    }

    fn loaded(&self, options: &Options) -> Result<Engine, Failure> {
        let drafting = Engine::drafting(options, &self.dir, self.settings)?;
        Engine::load(drafting, options, &self.model, self.settings)
    }

    /// Takes newer weights of what drafts up, if there are some. Those that cannot be loaded are reported and left.
    fn renew(&mut self) {
        let Some(newer) = &mut self.newer else { return };
        if !newer.appeared() {
            return;
        }
        let path = newer.path().display().to_string();
        match self.loaded(&self.options) {
            Ok(mut engine) => {
                engine.set_random(self.engine.random());
                self.engine = engine;
                self.settings.console.say(format!("newer weights of the drafter from now on: {path}"));
            }
            Err(failure) => {
                let reason = failure.message();
                self.settings.console.say(format!("note: newer weights of the drafter are not used: {path}: {reason}"));
            }
        }
    }

    /// Sets the system message, or takes it away, from the next message on.
    pub fn set_system(&mut self, system: Option<String>) {
        self.conversation.set_system(system);
    }

    /// Forgets the conversation. The system message stays.
    pub fn reset(&mut self) {
        self.conversation = Conversation::new(self.conversation.system().map(str::to_owned));
    }

    /// Writes the whole conversation to a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Failure> {
        saved::save(&self.conversation, path)
    }

    /// Continues the conversation of a file. Returns the number of its answers.
    ///
    /// # Errors
    /// When it cannot be read, or is none; the conversation is unchanged then.
    pub fn load(&mut self, path: &Path) -> Result<usize, Failure> {
        self.conversation = saved::load(path)?;
        Ok(self.conversation.exchanges().len())
    }
}

/// Text as its tokens come.
struct Streamed {
    stream: StreamDecoder,
    pieces: Vec<Piece>,
    error: Option<TokenizerError>,
}

impl Streamed {
    fn push(&mut self, event: Event, show: &mut dyn FnMut(&Piece)) {
        let Some(token) = event.token() else { return };
        match self.stream.push(token) {
            Ok(text) => self.add(text, matches!(event, Event::Drafted(_)), show),
            Err(error) => self.error = Some(error),
        }
    }

    fn add(&mut self, text: String, drafted: bool, show: &mut dyn FnMut(&Piece)) {
        if !text.is_empty() {
            let piece = Piece { text, drafted };
            show(&piece);
            self.pieces.push(piece);
        }
    }

    fn finish(mut self, show: &mut dyn FnMut(&Piece)) -> Result<Vec<Piece>, TokenizerError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let rest = self.stream.finish()?;
        self.add(rest, false, show);
        Ok(self.pieces)
    }
}
