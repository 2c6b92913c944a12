//! One conversation after another.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{self, BufReader, Chain, Cursor, Read},
    path::{Path, PathBuf},
};

use super::{
    Conversation, Options,
    array::Elements,
    conversation::digest,
    error::SourceError,
    format::Format,
    head::{Head, Layout},
    lines::{Chunk, Lines},
    parquet::{MARK, Rows},
    reason::{Reason, Repair},
    record::{self, Draft},
    report::{Report, Skipped},
};

/// Input of a reader: the head that was inspected, then the rest.
type Input = BufReader<Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>>;

/// Reads conversations one at a time.
///
/// Unlike [`read`](super::read) it makes no error of a file without usable records: see its [`Report`].
pub struct Reader {
    path: PathBuf,
    chunks: Chunks,
    options: Options,
    report: Report,
    /// The ids given so far and their lines.
    ids: HashMap<String, usize>,
    /// The line of the last record without an id, and how many names were tried for it.
    unnamed: (usize, usize),
    /// True if the first record of an array is a text, so that all are. `None` before it is read.
    of_texts: Option<bool>,
    done: bool,
}

/// How the records are found.
enum Chunks {
    Lines(Lines<Input>),
    Elements(Elements<Input>),
    Text(Lines<Input>),
    Rows(Box<Rows>),
}

impl Chunks {
    fn next(&mut self) -> io::Result<Option<Chunk>> {
        match self {
            Self::Lines(lines) | Self::Text(lines) => lines.next(),
            Self::Elements(elements) => elements.next(),
            Self::Rows(rows) => rows.next(),
        }
    }

    fn line(&self) -> usize {
        match self {
            Self::Lines(lines) | Self::Text(lines) => lines.line(),
            Self::Elements(elements) => elements.line(),
            Self::Rows(rows) => rows.row(),
        }
    }
}

impl Reader {
    /// Opens the file at `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is empty or of a kind that is not read here.
    pub fn open(path: &Path, options: &Options) -> Result<Self, SourceError> {
        let opened = File::open(path).and_then(|mut file| {
            let mut start = vec![];
            (&mut file).take(MARK.len() as u64).read_to_end(&mut start)?;
            Ok((file, start))
        });
        let (file, start) = opened.map_err(|source| SourceError::Open { path: path.to_path_buf(), source })?;
        if start == MARK && file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let rows = Rows::open(file, path, options.max_line_bytes)?;
            let mut reader = Self::of(path, Chunks::Rows(Box::new(rows)), options);
            reader.report.unit = "row";
            return Ok(reader);
        }
        Self::new(path, Box::new(Cursor::new(start).chain(file)), options)
    }

    /// Reads from `input`, which reports and errors call `path`.
    ///
    /// # Errors
    ///
    /// The input cannot be read, is empty or of a kind that is not read here.
    pub fn new(path: &Path, mut input: Box<dyn Read + Send>, options: &Options) -> Result<Self, SourceError> {
        let head =
            Head::take(&mut input).map_err(|source| SourceError::Read { path: path.to_path_buf(), line: 1, source })?;
        let layout = head.layout(path, options.format)?;
        let input = BufReader::with_capacity(64 << 10, Cursor::new(head.bytes).chain(input));
        let limit = options.max_line_bytes;
        let chunks = match layout {
            Layout::Lines => Chunks::Lines(Lines::new(input, limit)),
            Layout::Array => Chunks::Elements(Elements::new(input, limit)),
            Layout::Text => Chunks::Text(Lines::new(input, limit)),
        };
        Ok(Self::of(path, chunks, options))
    }

    fn of(path: &Path, chunks: Chunks, options: &Options) -> Self {
        Self {
            path: path.to_path_buf(),
            chunks,
            options: options.clone(),
            report: Report::new(path),
            ids: HashMap::new(),
            unnamed: (0, 0),
            of_texts: None,
            done: false,
        }
    }

    /// Kept and skipped records so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Kept and skipped records of all that were read.
    pub fn into_report(self) -> Report {
        self.report
    }

    /// The conversation in `chunk`; `None` if it is blank or was skipped.
    fn take(&mut self, mut chunk: Chunk) -> Option<Conversation> {
        let mut id = None;
        let draft = self.draft(&mut chunk, &mut id);
        match draft.and_then(|draft| draft.map(|draft| self.check(draft)).transpose()) {
            Ok(draft) => draft.map(|draft| self.keep(chunk.line, draft)),
            Err(reason) => {
                self.report.skipped.push(Skipped { line: chunk.line, id, reason });
                None
            }
        }
    }

    /// The content of `chunk`, `None` if it is blank; leaves its `id` for the account of a failure.
    fn draft(&mut self, chunk: &mut Chunk, id: &mut Option<String>) -> Result<Option<Draft>, Reason> {
        let bytes = std::mem::replace(&mut chunk.bytes, Ok(Vec::new()))?;
        if matches!(self.chunks, Chunks::Text(_)) {
            return record::plain(bytes);
        }
        if bytes.trim_ascii().is_empty() {
            return Ok(None);
        }
        let is_text = matches!(self.chunks, Chunks::Elements(_)) && bytes.trim_ascii_start().starts_with(b"\"");
        let among_texts = *self.of_texts.get_or_insert(is_text);
        let object = record::parse(&bytes, chunk, among_texts)?;
        *id = record::id_to_show(&object);
        let mut draft = record::convert(&object, &self.options)?;
        if !chunk.separated {
            draft.repairs.insert(Repair::Comma);
        }
        Ok(Some(draft))
    }

    /// Refuses a `draft` that is valid in itself.
    fn check(&self, draft: Draft) -> Result<Draft, Reason> {
        if self.options.answers_required && !draft.answered() {
            return Err(Reason::NoAssistant);
        }
        match draft.id.as_ref().and_then(|id| self.ids.get(id)) {
            Some(&first) => Err(Reason::DuplicateId { first }),
            None => Ok(draft),
        }
    }

    /// The conversation that starts at `line`, counted and named.
    fn keep(&mut self, line: usize, mut draft: Draft) -> Conversation {
        self.report.keep(line, &draft);
        let digest = digest(&(&draft.id, &draft.category, &draft.system, &draft.tools, &draft.turns));
        let id = draft.id.take().unwrap_or_else(|| self.name(line));
        // Names of lines of text cannot meet again, and there may be very many of them.
        if draft.format != Format::Text {
            self.ids.insert(id.clone(), line);
        }
        let Draft { category, system, tools, turns, .. } = draft;
        Conversation { id, line, digest, category, system, tools, turns }
    }

    /// A name that is not taken yet for a record without one that starts at `line`.
    fn name(&mut self, line: usize) -> String {
        if self.unnamed.0 != line {
            self.unnamed = (line, 0);
        }
        loop {
            self.unnamed.1 += 1;
            let name = match self.unnamed.1 {
                1 => format!("{}-{line}", self.report.unit),
                number => format!("{}-{line}-{number}", self.report.unit),
            };
            if !self.ids.contains_key(&name) {
                return name;
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Conversation, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done && self.options.limit.is_none_or(|limit| self.report.kept < limit) {
            match self.chunks.next() {
                Ok(Some(chunk)) => {
                    if let Some(conversation) = self.take(chunk) {
                        return Some(Ok(conversation));
                    }
                }
                Ok(None) => self.done = true,
                Err(source) => {
                    self.done = true;
                    let (path, line) = (self.path.clone(), self.chunks.line());
                    return Some(Err(match &self.chunks {
                        Chunks::Rows(_) => SourceError::Damaged { path, row: line, reason: source.to_string() },
                        _ => SourceError::Read { path, line, source },
                    }));
                }
            }
        }
        None
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("report", &self.report).finish_non_exhaustive()
    }
}
