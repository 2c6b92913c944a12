//! `gorgon chat`: talking with a model, with or without heads.

use crate::args::Chat;
use crate::printer;
use crate::settings::Settings;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::ChainTree;
use gorgon_data::render::{RenderError, Renderer, Transcript};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_infer::{Event, Generation, Limits, Method, RecordedPair, Request, Session};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_workflows::drafting::recording;
use gorgon_workflows::drafting::{Drafting, Loaded};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use std::io::{BufRead, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

const HELP: &str = "/drafter none|auto   without or with heads\n/compare   answer once more the other way, and compare\n\
                    /reset   forget the conversation\n/help   this list\n/quit   end (so does the end of input)";

pub fn run(args: &Chat, settings: &Settings) -> Result<ExitCode, Failure> {
    let transform = Transform::new(args.temperature, None, args.top_p)?;
    let choice = args.accept.resolve(&transform);
    let drafting = Drafting::resolve(args.draft.heads.as_deref(), &args.draft.drafter, args.draft.tree.as_ref())?;
    let dir = load::folder(&args.model, settings)?;
    let drafting = drafting.for_text_of(&dir, choice, transform)?;
    let (config, renderer) = (ModelConfig::read(&dir)?, Renderer::load(&dir)?);
    if !renderer.has_template() {
        let message = format!("{}: the model has no chat template", dir.display());
        return Err(Failure::input(message).hint("gorgon generate continues a prompt"));
    }
    let decoder = load::decoder(&dir, config.max_positions, settings)?;
    let steps = Steps::load(&drafting, &decoder, choice, settings)?;
    let mut talk = Talk {
        colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        context: config.max_positions,
        end_tokens: config.eos_tokens,
        drafts: !drafting.is_plain(),
        random: SeededRandom::new(settings.seed),
        rule: choice.rule(transform),
        args,
        settings,
        renderer: &renderer,
        drafting,
        steps,
    };
    match &args.prompt {
        Some(prompt) => {
            let mut transcript = talk.open()?;
            talk.turn(&mut transcript, prompt)?;
        }
        None => talk.converse()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How steps are taken.
enum Steps {
    /// Recorded on a GPU.
    Recorded(Box<RecordedPair>),
    /// One operation after the other.
    Launched { drafted: Box<Session>, plain: Box<Session<DecoderTarget, NoDrafter>> },
}

impl Steps {
    fn load(
        drafting: &Drafting,
        decoder: &Arc<Decoder>,
        rule: RuleChoice,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let context = decoder.config().max_positions;
        if let Some(recorded) = recording::steps(drafting, decoder, context, rule)? {
            return Ok(Self::Recorded(Box::new(RecordedPair::concat_columns(recorded))));
        }
        let Loaded::Other(drafter) = drafting.load_for_use(decoder, settings.seed)? else {
            return Err(Failure::input("--drafter oracle measures; it has nothing to say in a conversation"));
        };
        // Caches grow with the conversation, so the one that is not in use takes nothing.
        let target = |hooks| DecoderTarget::new(decoder.clone(), context, hooks);
        let drafted = Session::new(target(drafter.needs().hooks), drafter);
        let plain = Session::plain(target(Hooks::none()));
        Ok(Self::Launched { drafted: Box::new(drafted), plain: Box::new(plain) })
    }
}

/// A conversation and what answers it.
struct Talk<'a> {
    args: &'a Chat,
    settings: &'a Settings,
    renderer: &'a Renderer,
    drafting: Drafting,
    steps: Steps,
    rule: Box<dyn AcceptanceRule>,
    random: SeededRandom,
    end_tokens: Vec<u32>,
    context: usize,
    colour: bool,
    /// Whether heads are in use.
    drafts: bool,
}

impl<'a> Talk<'a> {
    fn open(&self) -> Result<Transcript<'a>, RenderError> {
        self.renderer.transcript(self.args.system.as_deref())
    }

    /// Reads turns and commands until the input ends.
    fn converse(&mut self) -> Result<(), Failure> {
        let interactive = std::io::stdin().is_terminal();
        if interactive {
            self.settings.talk.say("type a message; /help lists commands");
        }
        let mut transcript = self.open()?;
        let mut last_prompt: Option<Vec<u32>> = None;
        let mut lines = std::io::stdin().lock().lines();
        loop {
            if interactive {
                let _ = write!(std::io::stderr(), "> ");
            }
            let Some(line) = lines.next().transpose().map_err(|error| Failure::input(format!("input: {error}")))?
            else {
                return Ok(());
            };
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => return Ok(()),
                "/help" => self.settings.talk.say(HELP),
                "/reset" => (transcript, last_prompt) = (self.open()?, None),
                "/drafter none" => self.drafts = false,
                "/drafter auto" => self.drafts = !self.drafting.is_plain(),
                "/compare" => match &last_prompt {
                    Some(prompt) => self.compare(&prompt.clone())?,
                    None => self.settings.talk.say("there is no answer to compare yet"),
                },
                command if command.starts_with('/') => {
                    self.settings.talk.say(format!("{command}: no such command; /help lists them"));
                }
                user => last_prompt = self.turn(&mut transcript, user)?.or(last_prompt),
            }
        }
    }

    /// One turn. Returns the prompt that was answered, if it fitted.
    fn turn(&mut self, transcript: &mut Transcript<'a>, user: &str) -> Result<Option<Vec<u32>>, Failure> {
        let before = transcript.clone();
        transcript.ask(user)?;
        let prompt = transcript.example().ids.clone();
        if prompt.len() + 1 > self.context {
            self.settings.talk.say(format!("the context of {} tokens is full; /reset begins anew", self.context));
            *transcript = before;
            return Ok(None);
        }
        let generation = self.answer(&prompt, self.drafts, true)?;
        transcript.answer_ids(&generation.ids)?;
        self.stats(&generation, self.drafts);
        Ok(Some(prompt))
    }

    /// Answers a prompt; streams the text if it is to be shown, accepted drafts in colour.
    fn answer(&mut self, prompt: &[u32], drafts: bool, shown: bool) -> Result<Generation, Failure> {
        let room = self.context - prompt.len();
        let limits = Limits {
            max_new_tokens: room.clamp(1, self.args.max_new_tokens as usize),
            end_tokens: self.end_tokens.clone(),
        };
        let mut stream = self.renderer.text().stream(true);
        let (colour, mut broken) = (self.colour, None);
        let mut observe = |event: Event| {
            if let Some(token) = event.token().filter(|_| shown) {
                match stream.push(token) {
                    Ok(piece) => printer::painted(&piece, colour && matches!(event, Event::Drafted(_))),
                    Err(error) => broken = Some(error),
                }
            }
            if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let (tree, rule) = (self.drafting.builder.as_ref(), self.rule.as_ref());
        let request = Request::new(prompt, &limits, &mut self.random);
        let generation = match (&mut self.steps, drafts) {
            (Steps::Recorded(pair), _) => pair.of(drafts).decode(prompt, &limits, &mut observe),
            (Steps::Launched { drafted, .. }, true) => drafted.generate(Method { tree, rule }, request, &mut observe),
            (Steps::Launched { plain, .. }, false) => {
                plain.generate(Method { tree: &ChainTree::ROOT, rule }, request, &mut observe)
            }
        }?;
        if let Steps::Recorded(pair) = &mut self.steps {
            recording::told(pair.take_counts(), self.settings);
        }
        if let Some(error) = broken {
            return Err(error.into());
        }
        if shown {
            printer::untrusted(&stream.finish()?);
            printer::line("");
        }
        Ok(generation)
    }

    fn stats(&self, generation: &Generation, drafts: bool) {
        let seconds = generation.decode_time.as_secs_f64().max(1e-9);
        let speed = (generation.ids.len() - 1) as f64 / seconds;
        let per_step = generation.tokens_per_step().filter(|_| drafts);
        let per_step = per_step.map_or("no drafts".into(), |tau| format!("{tau:.2} tokens per step"));
        let law = if drafts && !self.rule.is_lossless() { ", not lossless" } else { "" };
        self.settings.talk.say(format!("[{} tokens, {speed:.0} tokens/s, {per_step}{law}]", generation.ids.len()));
    }

    /// Answers the last prompt again, plainly and with heads.
    fn compare(&mut self, prompt: &[u32]) -> Result<(), Failure> {
        if self.drafting.is_plain() {
            self.settings.talk.say("there are no heads to compare with");
            return Ok(());
        }
        let plain = self.answer(prompt, false, false)?;
        let drafted = self.answer(prompt, true, false)?;
        let seconds = |g: &Generation| g.decode_time.as_secs_f64().max(1e-9);
        let same = if plain.ids == drafted.ids { "the same text" } else { "other text" };
        self.settings.talk.say(format!(
            "plain {:.3} s, drafted {:.3} s: {:.2} times as fast, {same}",
            seconds(&plain),
            seconds(&drafted),
            seconds(&plain) / seconds(&drafted)
        ));
        Ok(())
    }
}
