//! Chat templates: a conversation becomes the text that the model was trained on.
//!
//! Templates are Jinja programs that come with a model, so they are as untrusted as its weights. They run within
//! [`Limits`], see no files, and on threads of their own whose stacks are deep enough for what the limits let through.

mod budget;
mod functions;
mod json;
mod rewrite;
mod worker;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::variables::Variables;
use minijinja::ErrorKind;
use serde_json::{Map, Value, json};

pub use self::budget::Limits;
use self::worker::{Failed, Program, Request, Workers};
use crate::tokenizer::{TokenizerConfig, TokenizerError};

/// Errors of chat templates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The model has none.
    #[error(
        "{folder}: the model has no chat template (neither chat_template.jinja nor chat_template in \
         tokenizer_config.json); use --raw to give it the prompt as it is"
    )]
    Missing {
        /// The model folder.
        folder: PathBuf,
    },
    /// The file is there but cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// `tokenizer_config.json` cannot be read.
    #[error(transparent)]
    Config(#[from] TokenizerError),
    /// `tokenizer_config.json` holds no usable template, or the template is no valid Jinja.
    #[error("{path}: chat template: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        reason: String,
    },
    /// The template refused the conversation.
    #[error("{path}: the chat template refuses the conversation: {message}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The template's own words.
        message: String,
    },
    /// The template failed or went beyond the limits.
    #[error("{path}: chat template: {reason}")]
    Failed {
        /// The file.
        path: PathBuf,
        /// Description of the failure.
        reason: String,
    },
}

impl TemplateError {
    /// The reason without the file's path: for people who have no business with it.
    pub fn reason(&self) -> String {
        match self {
            Self::Missing { .. } => "the model has no chat template".into(),
            Self::Read { source, .. } => source.to_string(),
            Self::Config(_) => "the model's tokenizer_config.json cannot be read".into(),
            Self::Invalid { reason, .. } | Self::Failed { reason, .. } => format!("the chat template: {reason}"),
            Self::Refused { message, .. } => format!("the chat template refuses the conversation: {message}"),
        }
    }
}

/// Inputs of a template beside the messages.
#[derive(Debug, Clone, Default)]
pub struct Render {
    /// End the text where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// More variables, such as `tools`, `documents` or `enable_thinking`.
    pub variables: Map<String, Value>,
    /// The time that `strftime_now` shows, in UTC; the local time of day if there is none.
    pub now: Option<SystemTime>,
}

/// A model's chat template. Clones share the threads that render.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    /// The texts of the special tokens.
    tokens: Map<String, Value>,
    usual: Compiled,
    /// A template of its own for conversations with tools.
    with_tools: Option<Compiled>,
}

/// A template that can be rendered, and its file.
#[derive(Debug, Clone)]
struct Compiled {
    path: PathBuf,
    workers: Arc<Workers>,
}

impl Compiled {
    fn start((path, source): Source, limits: Limits) -> Result<Self, TemplateError> {
        // Jinja reads every line end as a line feed.
        let source = generation_tags(&source.replace("\r\n", "\n").replace('\r', "\n"));
        if source.trim().is_empty() {
            return Err(TemplateError::Invalid { path, reason: "it is empty".into() });
        }
        if source.len() > limits.template_bytes {
            let reason = format!("longer than {} bytes", limits.template_bytes);
            return Err(TemplateError::Invalid { path, reason });
        }
        match Workers::start(Program { source, limits }) {
            Ok(workers) => Ok(Self { path, workers: Arc::new(workers) }),
            Err(failed) => Err(match explain(failed, &path, &limits) {
                TemplateError::Failed { path, reason } => TemplateError::Invalid { path, reason },
                error => error,
            }),
        }
    }
}

/// A message as templates expect it.
pub fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

impl ChatTemplate {
    /// Loads the template of a model folder: `chat_template.jinja`, else `chat_template` of `tokenizer_config.json`,
    /// which is a string or a list of named templates of which `default` is taken. Conversations with tools take the
    /// template `tool_use` of that list or of the folder `additional_chat_templates`, where there is one.
    ///
    /// # Errors
    /// [`TemplateError::Missing`] when there is none; other errors when it cannot be read or parsed.
    pub fn load(folder: &Path) -> Result<Self, TemplateError> {
        Self::load_with(folder, Limits::default())
    }

    /// As [`load`](Self::load), with limits of one's own.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(folder: &Path, limits: Limits) -> Result<Self, TemplateError> {
        let config = TokenizerConfig::read(folder)?;
        let (usual, with_tools) = match read_jinja(folder, "chat_template.jinja", limits.template_bytes)? {
            Some(usual) => {
                (usual, read_jinja(folder, "additional_chat_templates/tool_use.jinja", limits.template_bytes)?)
            }
            None => named(&config)?.ok_or_else(|| missing(folder))?,
        };
        let tokens = config.tokens().map(|(name, text)| (name.to_owned(), text.into())).collect();
        let with_tools = with_tools.map(|source| Compiled::start(source, limits)).transpose()?;
        Ok(Self { tokens, usual: Compiled::start(usual, limits)?, with_tools })
    }

    /// The file the template came from.
    pub fn path(&self) -> &Path {
        &self.usual.path
    }

    /// The variables whose names do not occur in the template, so that their values change nothing.
    pub fn unread<'a>(&self, variables: &'a Variables) -> Vec<&'a str> {
        let reads = |of: &Compiled, name: &str| of.workers.program().source.contains(name);
        let is_read =
            |name: &str| [Some(&self.usual), self.with_tools.as_ref()].into_iter().flatten().any(|of| reads(of, name));
        variables.keys().map(String::as_str).filter(|name| !is_read(name)).collect()
    }

    /// The text of a conversation. Messages are objects with `role`, `content` and whatever else the template reads.
    ///
    /// The text spells its special tokens, so that it is encoded without adding any.
    ///
    /// # Errors
    /// The template refuses the conversation, fails, or goes beyond its limits.
    pub fn render(&self, messages: &[Value], render: &Render) -> Result<String, TemplateError> {
        let mut variables = self.tokens.clone();
        // Templates ask whether these are none, not whether they are defined.
        variables.insert("tools".into(), Value::Null);
        variables.insert("documents".into(), Value::Null);
        variables.insert("messages".into(), Value::from(messages));
        variables.insert("add_generation_prompt".into(), Value::Bool(render.add_generation_prompt));
        variables.extend(render.variables.clone());
        let has_tools = variables.get("tools").is_some_and(|tools| !tools.is_null());
        let Compiled { path, workers } = self.with_tools.as_ref().filter(|_| has_tools).unwrap_or(&self.usual);
        let rendered = workers.render(Request { variables, now: render.now });
        rendered.map_err(|failed| explain(failed, path, &workers.program().limits))
    }
}

/// Whatever went wrong, a panic of the engine included, as an error that names the template.
fn explain(failed: Failed, path: &Path, limits: &Limits) -> TemplateError {
    let path = path.to_owned();
    let error = match failed {
        Failed::Template(error) => error,
        Failed::Thread(reason) => return TemplateError::Failed { path, reason },
    };
    let mut cause = Some(&error as &(dyn std::error::Error + 'static));
    while let Some(e) = cause {
        if let Some(raised) = e.downcast_ref::<functions::Raised>() {
            return TemplateError::Refused { path, message: short(&raised.0) };
        }
        cause = e.source();
    }
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => format!("more than {} instructions", limits.fuel),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    let line = error.line().map(|line| format!(" (line {line})")).unwrap_or_default();
    TemplateError::Failed { path, reason: short(&what) + &line }
}

fn missing(folder: &Path) -> TemplateError {
    TemplateError::Missing { folder: folder.to_owned() }
}

/// Reads a template's file, but hardly more of it than is allowed.
fn read_jinja(folder: &Path, name: &str, max_bytes: usize) -> Result<Option<Source>, TemplateError> {
    // Nothing lies in a model that is one file.
    if folder.is_file() {
        return Ok(None);
    }
    let path = folder.join(name);
    let mut source = String::new();
    match gorgon_runs::file::open(&path).and_then(|file| file.take(max_bytes as u64 + 1).read_to_string(&mut source)) {
        Ok(_) => Ok(Some((path, source))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TemplateError::Read { path, source }),
    }
}

/// A template and its file.
type Source = (PathBuf, String);

/// `chat_template` of the config, and its template for tools.
fn named(config: &TokenizerConfig) -> Result<Option<(Source, Option<Source>)>, TemplateError> {
    let invalid = |reason: String| TemplateError::Invalid { path: config.path().to_owned(), reason };
    let source = |text: &str| (config.path().to_owned(), text.to_owned());
    let list = match config.get("chat_template") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => return Ok(Some((source(text), None))),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(invalid("neither a string nor a list of named templates".into())),
    };
    let name = |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
    let text = |entry: &Value| match entry.get("template").and_then(Value::as_str) {
        Some(text) => Ok(source(text)),
        None => Err(invalid("a named template without text".into())),
    };
    let find = |wanted: &str| list.iter().find(|entry| name(entry).as_deref() == Some(wanted));
    let Some(usual) = find("default").or(if list.len() == 1 { list.first() } else { None }) else {
        let names: Vec<_> = list.iter().filter_map(name).collect();
        return Err(invalid(format!("none of the named templates is called default: {}", short(&names.join(", ")))));
    };
    Ok(Some((text(usual)?, find("tool_use").map(text).transpose()?)))
}

/// Turns the tags `{% generation %}` and `{% endgeneration %}`, which mark the assistant's words for training and are
/// no Jinja, into a condition that always holds.
fn generation_tags(source: &str) -> String {
    let mut rewritten = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.find("{%").map(|at| rest.split_at(at + 2)) {
        rewritten.push_str(before);
        let name = tag.trim_start_matches(['-', '+']).trim_start();
        let known = [("generation", "if true"), ("endgeneration", "endif")];
        let found = known.iter().find_map(|(from, to)| {
            let after = name.strip_prefix(from)?;
            after.trim_start().trim_start_matches(['-', '+']).starts_with("%}").then_some((after, to))
        });
        match found {
            Some((after, to)) => {
                rewritten.push_str(&tag[..tag.len() - name.len()]);
                rewritten.push_str(to);
                rest = after;
            }
            None => rest = tag,
        }
    }
    rewritten.push_str(rest);
    rewritten
}

/// One line of at most 300 characters.
fn short(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
