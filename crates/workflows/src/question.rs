//! One prompt: read, rendered and counted, before weights are read.

use crate::console::Console;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{load, prompts};
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, random::SeededRandom};
use gorgon_infer::{DecodeError, Limits, decode};
use gorgon_model::config::ModelConfig;
use gorgon_model::target::DecoderTarget;
use gorgon_text::template::{ChatTemplate, Render, TemplateError, message};
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// New tokens when none are asked for.
const DEFAULT_NEW_TOKENS: usize = 256;

/// A request, as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A model folder or a repo id.
    pub model: String,
    /// A folder of draft heads, or the run folder of a training.
    pub heads: Option<PathBuf>,
    /// The prompt; `-` reads it from stdin.
    pub prompt: Option<String>,
    /// The prompt as token ids, which are used as they are.
    pub ids: Option<Vec<Token>>,
    /// Whether the prompt is text, not a user turn of the chat template.
    pub raw: bool,
    /// A system message.
    pub system: Option<String>,
    /// New tokens at most.
    pub max_new_tokens: Option<usize>,
    /// Whether the answer continues past end tokens.
    pub ignore_eos: bool,
}

/// A prompt as tokens, and when its answer ends.
pub struct Question {
    /// The model's folder.
    pub dir: PathBuf,
    /// The model's tokenizer. Given ids can do without one.
    pub text: Option<Tokenizer>,
    /// The text to be continued: the prompt, and of a model with an encoder the token that its decoder begins with.
    pub prompt: Vec<Token>,
    /// How many of its tokens are the prompt's.
    pub given: usize,
    /// When the answer ends.
    pub limits: Limits,
    /// True if the prompt is text because the model has no chat template.
    lacks_template: bool,
}

impl Question {
    /// Looks at everything that can be wrong with the input before weights are read.
    ///
    /// # Errors
    /// When the prompt, the tokenizer, the template or the limits are wrong.
    pub fn prepare(options: &Options, settings: &Settings) -> Result<Self, Failure> {
        if (options.raw || options.ids.is_some()) && !settings.template.is_empty() {
            return Err(Failure::input("--template-var: --raw and --ids use no chat template").hint("leave it out"));
        }
        prompts::check_template(options.heads.as_deref(), settings);
        let given = options.ids.clone();
        let written = options.prompt.as_deref();
        let written = written.map(|prompt| prompts::given(prompt, std::io::stdin())).transpose()?;
        let dir = load::folder(&options.model, settings)?;
        let config = ModelConfig::read(&dir)?;
        let text = text(&dir, given.is_some(), &config)?;
        let (prompt, lacks_template) = match (given, &text) {
            (Some(ids), _) => (ids, false),
            (None, Some(text)) => encode(options, written.as_deref().unwrap_or_default(), &dir, text, settings)?,
            (None, None) => return Err(Failure::input("--prompt needs a tokenizer")),
        };
        if prompt.is_empty() {
            return Err(Failure::input("the prompt is empty: it has no tokens"));
        }
        let given = prompt.len();
        let prompt = config.prompt(prompt);
        let limits = limits(options, &config, prompt.len(), settings)?;
        Ok(Self { dir, text, prompt, given, limits, lacks_template })
    }

    /// Says so if the prompt is text because the model has no chat template.
    pub fn note_template(&self, console: &Console) {
        if self.lacks_template {
            console.say("note: the model has no chat template, so the prompt is used as text (as with --raw)");
        }
    }

    /// Text of plain decoding.
    ///
    /// # Errors
    /// When the model fails.
    pub fn truth(
        &self,
        target: &mut DecoderTarget,
        acceptance: &dyn AcceptanceRule,
        seed: u64,
    ) -> Result<Vec<Token>, Failure> {
        let mut go_on = |_| ControlFlow::Continue(());
        let random = &mut SeededRandom::behind(seed, &self.prompt, 0);
        let truth = decode(target, &self.prompt, acceptance, random, &self.limits, &mut go_on);
        Ok(truth.map_err(decode_failure)?.ids)
    }
}

/// A failure of decoding: values that are not finite are the model's fault, anything else the input's.
pub fn decode_failure(error: DecodeError) -> Failure {
    match error {
        DecodeError::NonFinite { .. } => Failure::run(error),
        _ => Failure::input(error),
    }
}

/// The model's tokenizer. Given ids can do without one.
fn text(dir: &Path, optional: bool, config: &ModelConfig) -> Result<Option<Tokenizer>, Failure> {
    match Tokenizer::load(dir) {
        Ok(text) => Ok(Some(text.of_model(config.vocab_size)?)),
        Err(TokenizerError::Missing { .. }) if optional => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The prompt as token ids: one user turn of the chat template, or plain text; and whether it is text because there is
/// no template.
fn encode(
    options: &Options,
    prompt: &str,
    dir: &Path,
    text: &Tokenizer,
    settings: &Settings,
) -> Result<(Vec<Token>, bool), Failure> {
    if options.raw {
        return Ok((text.encode(prompt, true)?, false));
    }
    let template = match ChatTemplate::load(dir) {
        Err(TemplateError::Missing { .. }) if options.system.is_none() && settings.template.is_empty() => {
            return Ok((text.encode(prompt, true)?, true));
        }
        template => template?,
    };
    prompts::report_unread(&template.unread(&settings.template), dir, settings);
    let system = options.system.iter().map(|system| message("system", system));
    let messages: Vec<_> = system.chain([message("user", prompt)]).collect();
    let render = Render { add_generation_prompt: true, variables: settings.template.clone(), ..Render::default() };
    // The template writes the special tokens itself.
    Ok((text.encode(&template.render(&messages, &render)?, false)?, false))
}

/// How many tokens there is room for, and what ends them.
fn limits(options: &Options, config: &ModelConfig, prompt: usize, settings: &Settings) -> Result<Limits, Failure> {
    let context = load::context(config, settings)?;
    load::check_context(context, prompt)?;
    // The last new token is never read, so it needs no room.
    let room = context - prompt + 1;
    let max_new_tokens = match options.max_new_tokens {
        None => DEFAULT_NEW_TOKENS.min(room),
        Some(asked) if asked > room && options.ignore_eos => {
            let message = format!("--max-new-tokens {asked}: the context of {context} tokens has room for {room}");
            return Err(Failure::input(message).hint("ask for fewer, or leave out --ignore-eos"));
        }
        Some(asked) if asked > room => {
            settings.console.say(format!("note: the context has room for {room} of {asked} new tokens"));
            room
        }
        Some(asked) => asked,
    };
    let end_tokens = if options.ignore_eos { vec![] } else { config.eos_tokens.clone() };
    Ok(Limits { max_new_tokens, end_tokens })
}
