//! The elements of a JSON array, cut out one by one.
//!
//! The array is never parsed as a whole. Its elements are found by matching brackets outside strings, so that a broken
//! element costs no other one wherever its end can still be seen.

use std::io::{self, BufRead};

use super::{lines::Chunk, reason::Reason};

/// How many open brackets are told apart by kind; deeper ones, which the parser refuses anyway, are only counted.
const KINDS_KEPT: usize = 256;

/// Splits a JSON array into its elements, without ever holding more than an element of the allowed length.
#[derive(Debug)]
pub(super) struct Elements<R> {
    input: R,
    limit: usize,
    line: usize,
    column: usize,
    place: Place,
    commas: usize,
}

/// Where in the file the splitter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the bracket that opens the array.
    Before,
    /// Before its first element.
    Opened,
    /// After one of its elements.
    Inside,
    /// After the bracket that closes it.
    Closed,
    /// Nothing more will come.
    Done,
}

/// Effect of a byte on the element it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It goes on.
    More,
    /// This is its last byte.
    Last,
    /// It ended before this byte.
    Past,
}

impl<R: BufRead> Elements<R> {
    /// Elements of at most `limit` bytes.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: 1, column: 1, place: Place::Before, commas: 0 }
    }

    /// The line that is being read.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next element, or what is wrong with the array; `None` after its end.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        while self.place != Place::Done {
            let Some(byte) = self.peek()? else {
                let closed = self.place == Place::Closed;
                self.place = Place::Done;
                return Ok((!closed).then(|| self.broken(Reason::ArrayNotClosed)));
            };
            match (self.place, byte) {
                (_, b' ' | b'\t' | b'\r' | b'\n') => self.step(byte),
                (Place::Closed, _) => {
                    self.place = Place::Done;
                    return Ok(Some(self.broken(Reason::AfterArray)));
                }
                (Place::Before, _) => {
                    self.step(byte);
                    self.place = Place::Opened;
                }
                (_, b']') => {
                    self.step(byte);
                    self.place = Place::Closed;
                }
                (_, b',') => {
                    self.step(byte);
                    self.commas += 1;
                }
                _ => return self.element(byte).map(Some),
            }
        }
        Ok(None)
    }

    /// The element that starts with `first`, the next byte.
    fn element(&mut self, first: u8) -> io::Result<Chunk> {
        let (line, column) = (self.line, self.column);
        let separated = self.commas == usize::from(self.place == Place::Inside);
        self.place = Place::Inside;
        self.commas = 0;
        let mut matcher = Matcher::default();
        let bracketed = matches!(first, b'{' | b'[');
        let mut bytes = Vec::new();
        let mut length = 0_usize;
        loop {
            let Some(byte) = self.peek()? else {
                // A bare value may end here. An open bracket shows that the end was lost on the way.
                if bracketed {
                    self.place = Place::Done;
                    return Ok(Chunk { line, column, bytes: Err(Reason::NeverEnds), separated });
                }
                break;
            };
            let margin = self.line > line && self.column <= column;
            let step = if bracketed { matcher.bracketed(byte, margin) } else { matcher.bare(byte, length == 0) };
            if step == Step::Past {
                // Whatever comma stood before the next one went with this broken one.
                self.commas = usize::from(bracketed);
                break;
            }
            self.step(byte);
            length += 1;
            if length <= self.limit {
                bytes.push(byte);
            }
            if step == Step::Last {
                break;
            }
        }
        let bytes = if length > self.limit { Err(Reason::TooLong { limit: self.limit }) } else { Ok(bytes) };
        Ok(Chunk { line, column, bytes, separated })
    }

    /// The next byte, left where it is.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Ok(buffer) => return Ok(buffer.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes past `byte`, which was peeked at.
    fn step(&mut self, byte: u8) {
        self.input.consume(1);
        if byte == b'\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    /// An account of something wrong at the present position.
    fn broken(&self, reason: Reason) -> Chunk {
        Chunk { line: self.line, column: self.column, bytes: Err(reason), separated: true }
    }
}

/// Follows brackets and strings through an element.
#[derive(Debug, Default)]
struct Matcher {
    /// The closing brackets that are awaited, the innermost last.
    awaited: Vec<u8>,
    /// How many more are open within them.
    deeper: usize,
    /// The last byte outside strings that is no white space; a quote stands for a whole string.
    before: u8,
    in_string: bool,
    escaped: bool,
}

impl Matcher {
    /// Whether `byte` belongs to a string, and keeps track of strings.
    fn string(&mut self, byte: u8) -> bool {
        if self.in_string || byte == b'"' {
            self.before = b'"';
        }
        if !self.in_string {
            self.in_string = byte == b'"';
            return self.in_string;
        }
        match byte {
            // No string holds a raw line break: the closing quote is missing, and what follows is not text.
            b'\n' => (self.in_string, self.escaped) = (false, false),
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
        true
    }

    /// The next byte of an object or list, and whether it is at the `margin`: on a later line than the element's start
    /// and no further to the right.
    fn bracketed(&mut self, byte: u8, margin: bool) -> Step {
        if self.string(byte) {
            return Step::More;
        }
        if margin && self.out_of_place(byte) {
            return Step::Past;
        }
        match byte {
            b'{' | b'[' if self.awaited.len() == KINDS_KEPT => self.deeper += 1,
            b'{' => self.awaited.push(b'}'),
            b'[' => self.awaited.push(b']'),
            b'}' | b']' if self.deeper > 0 => self.deeper -= 1,
            b'}' | b']' => {
                // A closing bracket also closes what was left open within its pair; one without a pair means nothing.
                if let Some(pair) = self.awaited.iter().rposition(|awaited| *awaited == byte) {
                    self.awaited.truncate(pair);
                }
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.before = byte;
        }
        if self.awaited.is_empty() { Step::Last } else { Step::More }
    }

    /// Whether no valid element goes on with `byte` here. At the margin this shows that the element lost its end, and
    /// that the next one, or the end of the array, has come.
    fn out_of_place(&self, byte: u8) -> bool {
        match (byte, self.awaited.last()) {
            (b'{', Some(b'}')) => self.before != b':',
            (b'{', Some(_)) => !matches!(self.before, b'[' | b','),
            (b']', Some(_)) => !self.awaited.contains(&b']'),
            _ => false,
        }
    }

    /// The next byte of something that is no object and no list.
    fn bare(&mut self, byte: u8, first: bool) -> Step {
        if self.string(byte) {
            return if byte == b'\n' { Step::Last } else { Step::More };
        }
        match byte {
            b',' | b']' | b'{' | b'[' | b'\n' if !first => Step::Past,
            _ => Step::More,
        }
    }
}
