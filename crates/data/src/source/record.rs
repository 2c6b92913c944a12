//! From bytes to one record's conversation.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    Options, Turn,
    clip::clip,
    format::Format,
    lines::Chunk,
    reason::{Reason, Repair},
    roles::{Fold, Role, join, not_blank},
    tools,
};

/// The keys of an id, the first one found counts; likewise below.
const ID: &[&str] = &["id", "question_id", "conversation_id", "prompt_id"];
const SYSTEM: &[&str] = &["system", "system_prompt"];
const CATEGORY: &str = "category";
const TOOLS: &str = "tools";
const INPUT: &[&str] = &["input", "context"];
const OUTPUT: &[&str] = &["output", "response", "completion", "answer"];
const ANSWER: &[&str] = &["answer", "response", "completion", "output"];
const ROLE: &[&str] = &["from", "role"];
const CONTENT: &[&str] = &["value", "content"];

/// How many unknown keys of one record are named.
const UNKNOWN_NAMED: usize = 64;

/// The largest whole number that floats, which exporters turn ids into, hold exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Object = Map<String, Value>;

/// Whether a key of a record means something.
pub(super) fn is_known(key: &str) -> bool {
    Format::has_key(key)
        || [CATEGORY, TOOLS].contains(&key)
        || [ID, SYSTEM, INPUT, OUTPUT].iter().any(|keys| keys.contains(&key))
}

/// A record's content, before it has its place among the others.
#[derive(Debug)]
pub(super) struct Draft {
    /// The format it was found in.
    pub format: Format,
    /// Its own id.
    pub id: Option<String>,
    /// Its category.
    pub category: Option<String>,
    /// Its system prompt.
    pub system: Option<String>,
    /// Definitions of its tools.
    pub tools: Option<Value>,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Repairs that were made.
    pub repairs: BTreeSet<Repair>,
    /// Keys that mean nothing.
    pub unknown: BTreeSet<String>,
}

/// The object that `bytes`, which stand at the place of `chunk`, hold; among texts, a text is a prompt.
pub(super) fn parse(bytes: &[u8], chunk: &Chunk, among_texts: bool) -> Result<Object, Reason> {
    let text = str::from_utf8(bytes).map_err(|error| Reason::InvalidUtf8 { at: error.valid_up_to() })?;
    match gorgon_runs::json::read(text.as_bytes()) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(prompt @ Value::String(_)) if among_texts => {
            Ok(Map::from_iter([(Format::Prompt.keys()[0].to_owned(), prompt)]))
        }
        Ok(other) => Err(Reason::NotAnObject { found: type_of(&other) }),
        Err(error) => Err(syntax(&error, chunk)),
    }
}

/// The wording of a key that an object has twice, around the key.
const KEY: &str = "the key ";
const TWICE: &str = " is there twice";

/// The reason that `error` gives, at its place in the file.
fn syntax(error: &serde_json::Error, chunk: &Chunk) -> Reason {
    let line = chunk.line + error.line().saturating_sub(1);
    let column = if error.line() <= 1 { chunk.column - 1 + error.column() } else { error.column() };
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    // The parser's errors are told apart by their wording only; the tests pin it.
    if let Some(key) = message.strip_prefix(KEY).and_then(|rest| rest.strip_suffix(TWICE)) {
        return Reason::RepeatedKey { key: clip(key) };
    }
    match message.as_str() {
        "recursion limit exceeded" => Reason::TooDeep,
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            Reason::LoneSurrogate { line, column }
        }
        _ => Reason::InvalidJson { message, line, column },
    }
}

/// The id of `object` for an account of why it was skipped, whatever else is wrong with it.
pub(super) fn id_to_show(object: &Object) -> Option<String> {
    id(object).ok().flatten().map(|id| clip(&id))
}

/// The plain-text prompt `line`; `None` if it is blank.
pub(super) fn plain(line: Vec<u8>) -> Result<Option<Draft>, Reason> {
    let line = String::from_utf8(line).map_err(|error| Reason::InvalidUtf8 { at: error.utf8_error().valid_up_to() })?;
    if line.contains('\0') {
        return Err(Reason::Nul { place: "line".to_owned() });
    }
    Ok(not_blank(line).map(|user| {
        let mut draft = Draft::new(Format::Text);
        draft.turns.push(Turn { user, calls: vec![], assistant: None });
        draft
    }))
}

/// The content of `object`, of the format in the options if there is one.
pub(super) fn convert(object: &Object, options: &Options) -> Result<Draft, Reason> {
    let (format, key) = Format::of(object, options.format)?;
    let mut draft = Draft::new(format);
    draft.id = id(object)?;
    draft.category = optional(object, &[CATEGORY])?;
    draft.system = optional(object, SYSTEM)?.and_then(not_blank);
    let (more, answer): (&[_], &[_]) = match format {
        Format::Alpaca => (INPUT, OUTPUT),
        Format::Prompt => (&[], ANSWER),
        _ => (&[], &[]),
    };
    match format {
        Format::ShareGpt | Format::Messages => draft.messages(object, key, options.tools)?,
        Format::Turns => draft.user_turns(object, key)?,
        Format::Alpaca | Format::Prompt | Format::Text => draft.single(object, key, more, answer)?,
    }
    if options.tools {
        draft.tools = tools::definitions(object.get(TOOLS))?;
    }
    draft.note_unknown(object, "", &[&[key, CATEGORY, TOOLS], ID, SYSTEM, more, answer]);
    Ok(draft)
}

impl Draft {
    fn new(format: Format) -> Self {
        Self {
            format,
            id: None,
            category: None,
            system: None,
            tools: None,
            turns: Vec::new(),
            repairs: BTreeSet::new(),
            unknown: BTreeSet::new(),
        }
    }

    /// Whether any turn has an answer.
    pub(super) fn answered(&self) -> bool {
        self.turns.iter().any(|turn| turn.assistant.is_some())
    }

    /// One turn: the text under `key`, what is to be added to it, and its answer.
    fn single(
        &mut self,
        object: &Object,
        key: &str,
        more: &[&'static str],
        answer: &[&'static str],
    ) -> Result<(), Reason> {
        let mut user = object.get(key).map_or(Err(Reason::NoUser), |value| text(value, key))?;
        if user.trim().is_empty() {
            return Err(Reason::EmptyUser { place: key.to_owned() });
        }
        if let Some(more) = optional(object, more)?.and_then(not_blank) {
            join(&mut user, &more);
        }
        let given = optional(object, answer)?;
        let was_given = given.is_some();
        let assistant = given.and_then(not_blank);
        if was_given && assistant.is_none() {
            self.repairs.insert(Repair::EmptyAnswer);
        }
        self.turns.push(Turn { user, calls: vec![], assistant });
        Ok(())
    }

    /// The user's turns in the list under `key`.
    fn user_turns(&mut self, object: &Object, key: &str) -> Result<(), Reason> {
        for (index, value) in list(object, key)?.iter().enumerate() {
            let place = format!("{key}[{index}]");
            let user = text(value, &place)?;
            if user.trim().is_empty() {
                return Err(Reason::EmptyUser { place });
            }
            self.turns.push(Turn { user, calls: vec![], assistant: None });
        }
        Ok(())
    }

    /// The messages in the list under `key`.
    fn messages(&mut self, object: &Object, key: &str, tools: bool) -> Result<(), Reason> {
        let mut fold = Fold::default();
        for (index, value) in list(object, key)?.iter().enumerate() {
            let place = format!("{key}[{index}]");
            let Value::Object(message) = value else {
                return Err(Reason::WrongType { place, found: type_of(value), wanted: "an object" });
            };
            let (role_key, role) = required(message, ROLE, &place)?;
            let name = text(role, &format!("{place}.{role_key}"))?;
            let (role, alias) = Role::named(&name, &place)?;
            if alias {
                self.repairs.insert(Repair::RoleAlias);
            }
            let calls = if role == Role::Assistant { tools::calls(message, &place)? } else { vec![] };
            if !tools && (role.is_of_tools() || !calls.is_empty()) {
                return Err(Reason::ToolTurn { place, role: clip(&name) });
            }
            let (content_key, content) = match required(message, CONTENT, &place) {
                Ok((key, content)) if !content.is_null() || calls.is_empty() => {
                    (key, text_or_parts(content, &format!("{place}.{key}"))?)
                }
                Err(reason) if calls.is_empty() => return Err(reason),
                _ => ("content", String::new()),
            };
            match role {
                Role::Call => fold.call(String::new(), tools::spelled(&content, &place)?, &place)?,
                Role::Assistant if !calls.is_empty() => fold.call(content, calls, &place)?,
                Role::Result => fold.result(tools::result(message, &content), &place)?,
                role => fold.add(role, content, &place, &mut self.repairs)?,
            }
            let known: [&[&str]; 3] = [&[role_key, content_key], tools::OF_CALLS, tools::OF_RESULTS];
            self.note_unknown(message, &format!("{key}[]."), &known);
        }
        let (system, turns) = fold.finish(&mut self.repairs)?;
        if self.system.is_some() && system.is_some() {
            return Err(Reason::TwoSystems);
        }
        self.system = self.system.take().or(system);
        self.turns = turns;
        Ok(())
    }

    /// Notes the keys of `object` that are not `known`, under the name of their `place`.
    fn note_unknown(&mut self, object: &Object, place: &str, known: &[&[&str]]) {
        for key in object.keys().filter(|key| !known.iter().any(|keys| keys.contains(&key.as_str()))) {
            if self.unknown.len() == UNKNOWN_NAMED {
                return;
            }
            self.unknown.insert(format!("{place}{}", clip(key)));
        }
    }
}

/// The id under the first of its keys that is there.
fn id(object: &Object) -> Result<Option<String>, Reason> {
    let Some((key, value)) = first(object, ID) else {
        return Ok(None);
    };
    match value {
        Value::Number(number) if number.is_f64() && number.as_f64().is_none_or(|number| number.abs() >= EXACT) => {
            Err(Reason::WrongType {
                place: key.to_owned(),
                found: "a number that is not held exactly",
                wanted: "a text or a 64-bit number",
            })
        }
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => text(value, key).map(not_blank),
    }
}

/// The first of `keys` that `object` has with a value other than `null`.
fn first<'a>(object: &'a Object, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
    keys.iter().find_map(|key| object.get(*key).filter(|value| !value.is_null()).map(|value| (*key, value)))
}

/// The first of `keys` that `message`, found at `place`, has.
fn required<'a>(message: &'a Object, keys: &[&'static str], place: &str) -> Result<(&'static str, &'a Value), Reason> {
    keys.iter()
        .find_map(|key| message.get(*key).map(|value| (*key, value)))
        .ok_or_else(|| Reason::MissingKey { place: place.to_owned(), key: keys.last().copied().unwrap_or_default() })
}

/// The text under the first of `keys` that is there.
fn optional(object: &Object, keys: &[&'static str]) -> Result<Option<String>, Reason> {
    first(object, keys).map(|(key, value)| text(value, key)).transpose()
}

/// The list under `key`, which has to hold something.
fn list<'a>(object: &'a Object, key: &str) -> Result<&'a [Value], Reason> {
    match object.get(key) {
        Some(Value::Array(list)) if !list.is_empty() => Ok(list),
        Some(Value::Array(_)) | None => Err(Reason::EmptyList { place: key.to_owned() }),
        Some(other) => Err(Reason::WrongType { place: key.to_owned(), found: type_of(other), wanted: "a list" }),
    }
}

/// The text that `value`, found at `place`, is.
fn text(value: &Value, place: &str) -> Result<String, Reason> {
    match value {
        Value::String(text) if text.contains('\0') => Err(Reason::Nul { place: place.to_owned() }),
        Value::String(text) => Ok(text.clone()),
        other => Err(Reason::WrongType { place: place.to_owned(), found: type_of(other), wanted: "text" }),
    }
}

/// The text that `value`, found at `place`, is or holds in parts.
fn text_or_parts(value: &Value, place: &str) -> Result<String, Reason> {
    let Value::Array(parts) = value else {
        return text(value, place);
    };
    let mut whole = String::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}[{index}]");
        match (part.get("type").and_then(Value::as_str), part.get("text")) {
            (Some("text"), Some(part)) => whole += &text(part, &format!("{place}.text"))?,
            (Some("text"), None) => return Err(Reason::MissingKey { place, key: "text" }),
            (Some(kind), _) => return Err(Reason::NotTextPart { place, kind: clip(kind) }),
            (None, _) if part.is_object() => return Err(Reason::MissingKey { place, key: "type" }),
            (None, _) => return Err(Reason::WrongType { place, found: type_of(part), wanted: "a part" }),
        }
    }
    Ok(whole)
}

/// Type of `value`, in words.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
