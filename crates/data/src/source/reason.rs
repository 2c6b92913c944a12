//! Repairs of records, and reasons to skip them.

use std::fmt;

use super::format::Format;

/// Repair of a record that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// Assistant turns before the first user turn were dropped.
    LeadingAssistant,
    /// User turns in a row were joined.
    JoinedUsers,
    /// Assistant turns in a row were joined.
    JoinedAssistants,
    /// The last user turn of a list of messages has no answer and is kept as a prompt.
    OpenEnd,
    /// An empty answer was taken as no answer.
    EmptyAnswer,
    /// A role was spelled in another way.
    RoleAlias,
    /// A tool call without a result was dropped.
    OpenCall,
    /// The comma before it in the array was missing, or one too many.
    Comma,
}

impl Repair {
    /// A name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::LeadingAssistant => "leading_assistant",
            Self::JoinedUsers => "joined_users",
            Self::JoinedAssistants => "joined_assistants",
            Self::OpenEnd => "open_end",
            Self::EmptyAnswer => "empty_answer",
            Self::RoleAlias => "role_alias",
            Self::OpenCall => "open_call",
            Self::Comma => "comma",
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::LeadingAssistant => "assistant turn before the first user turn dropped",
            Self::JoinedUsers => "user turns in a row joined",
            Self::JoinedAssistants => "assistant turns in a row joined",
            Self::OpenEnd => "last user turn without an answer kept as a prompt",
            Self::EmptyAnswer => "empty answer taken as none",
            Self::RoleAlias => "other spelling of a role",
            Self::OpenCall => "tool call without a result dropped",
            Self::Comma => "comma between elements missing or doubled",
        })
    }
}

/// Why something was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields say what they are
pub enum Reason {
    /// The bytes are no text; `at` counts bytes of the record from 0.
    InvalidUtf8 { at: usize },
    /// It is longer than `limit` bytes.
    TooLong { limit: usize },
    /// It is no JSON; `line` is the file's.
    InvalidJson { message: String, line: usize, column: usize },
    /// An escape stands for half of a character; `line` is the file's.
    LoneSurrogate { line: usize, column: usize },
    /// An object has a key twice.
    RepeatedKey { key: String },
    /// Brackets are nested more deeply than the parser goes.
    TooDeep,
    /// It is JSON, but no object.
    NotAnObject { found: &'static str },
    /// It has the keys of no known format.
    UnknownFormat { keys: String },
    /// It does not have the keys of the format that was asked for.
    OtherFormat { wanted: Format, keys: String },
    /// It is no record: it holds a list of what may be records.
    HoldsList { key: String },
    /// A value is of the wrong type.
    WrongType { place: String, found: &'static str, wanted: &'static str },
    /// An entry lacks a key.
    MissingKey { place: String, key: &'static str },
    /// A list of turns is empty.
    EmptyList { place: String },
    /// A role means nothing here.
    UnknownRole { place: String, role: String },
    /// A tool has a turn.
    ToolTurn { place: String, role: String },
    /// A tool call is no JSON with a name and arguments.
    BadToolCall { place: String },
    /// The definitions of tools are no list.
    BadTools { found: String },
    /// A part of a message is an image or the like.
    NotTextPart { place: String, kind: String },
    /// A user turn is blank.
    EmptyUser { place: String },
    /// The user says nothing at all.
    NoUser,
    /// A system message comes later than first.
    LateSystem { place: String },
    /// There is a system message and a `system` key.
    TwoSystems,
    /// A text holds U+0000.
    Nul { place: String },
    /// A record kept earlier has the same id.
    DuplicateId { first: usize },
    /// Answers are required and there is none.
    NoAssistant,
    /// An element of the array has no end: the rest of the file is skipped.
    NeverEnds,
    /// The file ends before the array does.
    ArrayNotClosed,
    /// Something follows the array: the rest of the file is skipped.
    AfterArray,
}

impl Reason {
    /// A name for programs.
    pub fn code(&self) -> &'static str {
        self.names().0
    }

    /// The reason without its particulars.
    pub fn title(&self) -> &'static str {
        self.names().1
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::InvalidUtf8 { .. } => ("invalid_utf8", "invalid UTF-8"),
            Self::TooLong { .. } => ("too_long", "too long"),
            Self::InvalidJson { .. } => ("invalid_json", "invalid JSON"),
            Self::LoneSurrogate { .. } => ("lone_surrogate", "half of a surrogate pair"),
            Self::RepeatedKey { .. } => ("repeated_key", "key that is there twice"),
            Self::TooDeep => ("too_deep", "nested too deeply"),
            Self::NotAnObject { .. } => ("not_an_object", "not an object"),
            Self::UnknownFormat { .. } => ("unknown_format", "unknown format of record"),
            Self::OtherFormat { .. } => ("other_format", "not of the format asked for"),
            Self::HoldsList { .. } => ("holds_list", "a list of records within an object"),
            Self::WrongType { .. } => ("wrong_type", "wrong type"),
            Self::MissingKey { .. } => ("missing_key", "missing key"),
            Self::EmptyList { .. } => ("empty_list", "empty list"),
            Self::UnknownRole { .. } => ("unknown_role", "unknown role"),
            Self::ToolTurn { .. } => ("tool_turn", "turn of a tool"),
            Self::BadToolCall { .. } => {
                ("bad_tool_call", "tool call without a name or with arguments that are no JSON")
            }
            Self::BadTools { .. } => ("bad_tools", "definitions of tools that are no list"),
            Self::NotTextPart { .. } => ("not_text_part", "part that is not text"),
            Self::EmptyUser { .. } => ("empty_user", "empty user turn"),
            Self::NoUser => ("no_user", "no user turn"),
            Self::LateSystem { .. } => ("late_system", "system message that is not first"),
            Self::TwoSystems => ("two_systems", "two system messages"),
            Self::Nul { .. } => ("nul", "U+0000 in a text"),
            Self::DuplicateId { .. } => ("duplicate_id", "duplicate id"),
            Self::NoAssistant => ("no_assistant", "no assistant turn"),
            Self::NeverEnds => ("never_ends", "record that never ends, rest of the file skipped"),
            Self::ArrayNotClosed => ("array_not_closed", "array that is not closed"),
            Self::AfterArray => ("after_array", "text after the array, rest of the file skipped"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = self.title();
        match self {
            Self::InvalidUtf8 { at } => write!(f, "{title} at byte {at}"),
            Self::TooLong { limit } => write!(f, "{title}: more than {limit} bytes"),
            Self::InvalidJson { message, line, column } => {
                write!(f, "{title}: {message} (line {line}, column {column})")
            }
            Self::LoneSurrogate { line, column } => write!(f, "{title} (line {line}, column {column})"),
            Self::RepeatedKey { key } => write!(f, "{title}: {key}"),
            Self::NotAnObject { found } => write!(f, "{title} but {found}"),
            Self::UnknownFormat { keys } => {
                let known: Vec<&str> = Format::ALL.iter().flat_map(|format| format.keys()).copied().collect();
                write!(f, "{title}: its keys are {keys}; one of {} is needed", known.join(", "))
            }
            Self::OtherFormat { wanted, keys } => write!(f, "{title}, {wanted}: its keys are {keys}"),
            Self::HoldsList { key } => write!(f, "{title}: take the list under `{key}` out of it"),
            Self::WrongType { place, found, wanted } => write!(f, "{title}: `{place}` is {found}, not {wanted}"),
            Self::MissingKey { place, key } => write!(f, "{title}: `{place}` has no `{key}`"),
            Self::UnknownRole { place, role } | Self::ToolTurn { place, role } => {
                write!(f, "{title}: `{place}` is by `{role}`")
            }
            Self::BadTools { found } => write!(f, "{title}: {found}"),
            Self::NotTextPart { place, kind } => write!(f, "{title}: `{place}` is of type `{kind}`"),
            Self::EmptyList { place }
            | Self::BadToolCall { place }
            | Self::EmptyUser { place }
            | Self::LateSystem { place }
            | Self::Nul { place } => {
                write!(f, "{title}: `{place}`")
            }
            Self::DuplicateId { first } => write!(f, "{title}: line {first} has it already"),
            Self::TooDeep
            | Self::NoUser
            | Self::TwoSystems
            | Self::NoAssistant
            | Self::NeverEnds
            | Self::ArrayNotClosed
            | Self::AfterArray => f.write_str(title),
        }
    }
}
