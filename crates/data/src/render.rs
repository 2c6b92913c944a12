//! Conversations as token ids, with an exact mask of the assistant's tokens.
//!
//! A [`Transcript`] grows turn by turn, as serving does: the prompt up to where the assistant begins is rendered by the
//! model's chat template and tokenised; the answer's tokens follow, as they were sampled or as the given text reads.
//! Only those are labels. What the template writes between turns is tokenised apart and is none.

mod tools;

use gorgon_core::Token;
use gorgon_model::config::{ConfigError, ModelConfig};
use gorgon_text::template::{ChatTemplate, Render, TemplateError, message};
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use gorgon_text::variables::Variables;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;

/// Why a conversation cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The model's config.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The template writes earlier turns otherwise than they were answered.
    #[error("the chat template rewrites earlier turns, so what was answered is not what it shows")]
    Rewrites,
    /// A base model has no turns.
    #[error("the model has no chat template: a conversation has one turn and no system prompt")]
    NoTemplate,
    /// Variables for a template that is not there.
    #[error("the model has no chat template, so it takes no variables")]
    Variables,
}

/// Token ids with the assistant's marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// The tokens.
    pub ids: Vec<Token>,
    /// True for tokens of the assistant, its end token included: those the model has to learn to write.
    pub assistant: Vec<bool>,
    /// Where only some of the assistant's tokens are labels: whether each is one. In a log of corrections these are the
    /// tokens whose drafts were all rejected.
    pub corrected: Option<Vec<bool>>,
}

impl Example {
    /// True if the loss of head `k` counts at position `t`. Heads are numbered from 0, and head `k` has the label
    /// `x_{t+k+2}`, which must be a [label](Self::is_label). All tokens from `x_{t+1}` on must be the assistant's, since
    /// decoding drafts only after a token of the model's own. (Formulas that number heads from 1 say:
    /// `x_{t+1} .. x_{t+k+1}`.)
    pub fn counts(&self, head: usize, t: usize) -> bool {
        let own = |range: &[bool]| range.iter().all(|own| *own);
        self.is_label(t + head + 2) && self.assistant.get(t + 1..t + head + 3).is_some_and(own)
    }

    /// Whether losses may count at the token at a place: it is the assistant's, and corrected where that is told.
    pub fn is_label(&self, at: usize) -> bool {
        let is_set = |mask: &Vec<bool>| mask.get(at) == Some(&true);
        is_set(&self.assistant) && self.corrected.as_ref().is_none_or(is_set)
    }

    /// Number of assistant tokens.
    pub fn labels(&self) -> usize {
        self.assistant.iter().filter(|&&own| own).count()
    }

    /// The tokens of a range that lies within it.
    #[must_use]
    pub fn part(&self, tokens: Range<usize>) -> Self {
        let part = |mask: &Vec<bool>| mask[tokens.clone()].to_vec();
        let (assistant, corrected) = (part(&self.assistant), self.corrected.as_ref().map(part));
        Self { ids: self.ids[tokens].to_vec(), assistant, corrected }
    }

    /// Drops tokens from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.ids.truncate(length);
        self.assistant.truncate(length);
        self.corrected.iter_mut().for_each(|corrected| corrected.truncate(length));
    }
}

/// A model's tokenizer and chat template.
#[derive(Clone, Debug)]
pub struct Renderer {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    variables: Variables,
    has_tools: bool,
    end_tokens: Vec<Token>,
    /// The token that the decoder of an encoder-decoder model begins with.
    start: Option<Token>,
}

impl Renderer {
    /// Those of a model folder. A model without a chat template reads prompts as plain text.
    ///
    /// # Errors
    /// When config, tokenizer or template cannot be read.
    pub fn load(dir: &Path) -> Result<Self, RenderError> {
        let config = ModelConfig::read(dir)?;
        let tokenizer = Tokenizer::load(dir)?.of_model(config.vocab_size)?;
        let template = match ChatTemplate::load(dir) {
            Ok(template) => Some(template),
            Err(TemplateError::Missing { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (end_tokens, start) = (config.eos_tokens, config.encoder.map(|encoder| encoder.start_token));
        let variables = Variables::new();
        Self { tokenizer, template, variables, has_tools: false, end_tokens, start }.with(Variables::new())
    }

    /// With variables for the chat template.
    ///
    /// # Errors
    /// When there are some and no template.
    pub fn with(mut self, variables: Variables) -> Result<Self, RenderError> {
        if self.template.is_none() && !variables.is_empty() {
            return Err(RenderError::Variables);
        }
        self.variables = variables;
        self.has_tools = tools::are_rendered(|messages, tools| self.render(messages, tools, true).ok());
        Ok(self)
    }

    /// With more variables for the chat template, which replace those of the same names.
    ///
    /// # Errors
    /// When there are some and no template.
    pub fn also(&self, variables: Variables) -> Result<Self, RenderError> {
        if self.template.is_none() && !variables.is_empty() {
            return Err(RenderError::Variables);
        }
        let mut all = self.variables.clone();
        all.extend(variables);
        Ok(Self { variables: all, ..self.clone() })
    }

    /// The given variables that the chat template does not read.
    pub fn unread(&self) -> Vec<&str> {
        self.template.as_ref().map_or_else(Vec::new, |template| template.unread(&self.variables))
    }

    /// Whether the chat template writes tool calls and their results.
    pub fn has_tools(&self) -> bool {
        self.has_tools
    }

    /// The tokenizer.
    pub fn text(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether the model has a chat template: without one, a conversation is one prompt and its continuation.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// The text to be continued after a prompt: the prompt, and of a model with an encoder, whose source it is, the token
    /// that its decoder begins with.
    pub fn prompt(&self, mut ids: Vec<Token>) -> Vec<Token> {
        ids.extend(self.start);
        ids
    }

    /// True with a chat template and without an encoder: an encoder reads one text, so no second question can follow.
    pub fn has_turns(&self) -> bool {
        self.template.is_some() && self.start.is_none()
    }

    /// Tokens that end an answer.
    pub fn end_tokens(&self) -> &[Token] {
        &self.end_tokens
    }

    /// An empty transcript.
    ///
    /// # Errors
    /// When there is a system prompt and no chat template.
    pub fn transcript(&self, system: Option<&str>) -> Result<Transcript<'_>, RenderError> {
        self.transcript_with(system, None)
    }

    /// An empty transcript of a conversation in which these tools can be called.
    ///
    /// # Errors
    /// When there is a system prompt and no chat template.
    pub fn transcript_with(&self, system: Option<&str>, tools: Option<&Value>) -> Result<Transcript<'_>, RenderError> {
        if system.is_some() && self.template.is_none() {
            return Err(RenderError::NoTemplate);
        }
        let messages = system.iter().map(|system| message("system", system)).collect();
        let tools = tools.cloned();
        Ok(Transcript { renderer: self, tools, messages, written: String::new(), example: Example::default() })
    }

    /// A conversation with its given answers.
    ///
    /// # Errors
    /// When the template or the tokenizer refuses it.
    pub fn conversation<'a>(
        &self,
        system: Option<&str>,
        turns: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Example, RenderError> {
        let mut transcript = self.transcript(system)?;
        for (user, assistant) in turns {
            transcript.ask(user)?;
            transcript.answer(assistant)?;
        }
        Ok(transcript.into_example())
    }

    /// The text of some messages, in whose conversation `tools` can be called; with `open` it ends where the assistant begins.
    ///
    /// # Errors
    /// When there is no template, or it refuses them.
    pub fn render(&self, messages: &[Value], tools: Option<&Value>, open: bool) -> Result<String, RenderError> {
        let Some(template) = &self.template else { return Err(RenderError::NoTemplate) };
        let mut variables = self.variables.clone();
        variables.extend(tools.map(|tools| ("tools".to_owned(), tools.clone())));
        let render = Render { add_generation_prompt: open, variables, ..Render::default() };
        Ok(template.render(messages, &render)?)
    }
}

/// A conversation as it grows.
#[derive(Clone, Debug)]
pub struct Transcript<'a> {
    renderer: &'a Renderer,
    /// Definitions of the tools that can be called.
    tools: Option<Value>,
    messages: Vec<Value>,
    /// The text of all tokens so far.
    written: String,
    example: Example,
}

impl Transcript<'_> {
    /// The tokens so far.
    pub fn example(&self) -> &Example {
        &self.example
    }

    /// Their text.
    pub fn text(&self) -> &str {
        &self.written
    }

    /// The tokens of the finished conversation.
    pub fn into_example(self) -> Example {
        self.example
    }

    /// Appends a user's turn, up to where the assistant begins.
    ///
    /// # Errors
    /// When the template refuses it or writes earlier turns otherwise than they are; nothing is appended then.
    pub fn ask(&mut self, user: &str) -> Result<(), RenderError> {
        self.ask_with(user, &[])
    }

    /// Appends a user's turn and the tool calls and results that follow it, up to where the assistant begins its answer.
    ///
    /// # Errors
    /// As of [`ask`](Self::ask).
    pub fn ask_with(&mut self, user: &str, calls: &[Value]) -> Result<(), RenderError> {
        if self.renderer.template.is_none() {
            if !self.example.ids.is_empty() {
                return Err(RenderError::NoTemplate);
            }
            let ids = self.renderer.tokenizer.encode(user, true)?;
            self.written.push_str(user);
            self.append(ids, |_| false);
            return Ok(());
        }
        let mut messages = self.messages.clone();
        messages.push(message("user", user));
        messages.extend_from_slice(calls);
        let rendered = self.render(&messages, true)?;
        let new = rendered.strip_prefix(&self.written).ok_or(RenderError::Rewrites)?;
        // The template writes the special tokens itself.
        let ids = self.renderer.tokenizer.encode(new, false)?;
        self.append(ids, |_| false);
        (self.messages, self.written) = (messages, rendered);
        Ok(())
    }

    /// The tokens that open a user's turn: after them, a model that plays both roles writes one.
    ///
    /// # Errors
    /// When there is no template, or it does not show where a turn begins.
    pub fn user_opening(&self) -> Result<Vec<Token>, RenderError> {
        // Any text that no template writes of its own.
        const MARK: &str = "\u{e000}\u{e001}\u{e000}";
        let mut messages = self.messages.clone();
        messages.push(message("user", MARK));
        let rendered = self.render(&messages, false)?;
        let new = rendered.strip_prefix(&self.written).ok_or(RenderError::Rewrites)?;
        let (opening, _) = new.split_once(MARK).ok_or(RenderError::Rewrites)?;
        Ok(self.renderer.tokenizer.encode(opening, false)?)
    }

    /// Appends the tokens of a sampled answer as they are.
    ///
    /// # Errors
    /// When they cannot be decoded.
    pub fn answer_ids(&mut self, ids: &[Token]) -> Result<(), RenderError> {
        let ended = ids.last().is_some_and(|last| self.renderer.end_tokens.contains(last));
        let said = &ids[..ids.len() - usize::from(ended)];
        let content = self.renderer.tokenizer.decode(said, true)?;
        self.written.push_str(&self.renderer.tokenizer.decode(said, false)?);
        if let (true, Some(&last)) = (ended, ids.last()) {
            self.written.push_str(&self.renderer.tokenizer.decode(&[last], false)?);
        }
        self.messages.push(message("assistant", &content));
        self.append(ids.to_vec(), |_| true);
        Ok(())
    }

    /// Appends a given answer. Its labels end with the first end token that the template writes after it.
    ///
    /// # Errors
    /// When the template refuses it or writes earlier turns otherwise than they are; nothing is appended then.
    pub fn answer(&mut self, content: &str) -> Result<(), RenderError> {
        if self.renderer.template.is_none() {
            let mut ids = self.renderer.tokenizer.encode(content, false)?;
            ids.extend(self.renderer.end_tokens.first());
            self.append(ids, |_| true);
            return Ok(());
        }
        let mut messages = self.messages.clone();
        messages.push(message("assistant", content));
        let rendered = self.render(&messages, false)?;
        let new = rendered.strip_prefix(&self.written).ok_or(RenderError::Rewrites)?;
        // Some templates trim what they are given.
        let (lead, content) = match (new.find(content), new.find(content.trim())) {
            (Some(at), _) => (at, content),
            (None, Some(at)) => (at, content.trim()),
            (None, None) => return Err(RenderError::Rewrites),
        };
        let ids = self.renderer.tokenizer.encode(&new[..lead + content.len()], false)?;
        let rest = self.renderer.tokenizer.encode(&new[lead + content.len()..], false)?;
        let end = rest.iter().position(|id| self.renderer.end_tokens.contains(id));
        self.append(ids, |_| true);
        self.append(rest, |i| end.is_some_and(|end| i <= end));
        (self.messages, self.written) = (messages, rendered);
        Ok(())
    }

    fn render(&self, messages: &[Value], open: bool) -> Result<String, RenderError> {
        self.renderer.render(messages, self.tools.as_ref(), open)
    }

    fn append(&mut self, ids: Vec<Token>, label: impl Fn(usize) -> bool) {
        self.example.assistant.extend((0..ids.len()).map(label));
        self.example.ids.extend(ids);
    }
}
