//! The file of a store.

use super::StoreError;
use gorgon_core::Token;
use gorgon_runs::file;
use gorgon_runs::provenance::hash_bytes;
use memmap2::Mmap;
use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// How a file begins.
const MAGIC: &[u8; 8] = b"GRGSTORE";
const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 160;
/// Bytes of a text entry, and of an entry with its places in both orders.
const TEXT: usize = 3;
const ENTRY: usize = TEXT + 4 + 4;
/// Stands between documents.
pub(super) const SEPARATOR: Token = 0xFF_FFFF;
/// Entries of the largest store.
pub(super) const MOST_ENTRIES: usize = i32::MAX as usize;

/// Values of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    vocab: u32,
    entries: usize,
    documents: usize,
    tokenizer: String,
    contents: String,
}

impl Header {
    fn read(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let invalid = |reason: String| StoreError::invalid(path, reason);
        if bytes.get(..8) != Some(MAGIC) {
            return Err(invalid("it is no store of gorgon store build".into()));
        }
        if bytes.len() < HEADER {
            return Err(invalid(format!("it is truncated: {} bytes are less than a store's header", bytes.len())));
        }
        let version = u32_at(bytes, 8).unwrap_or_default();
        if version != VERSION {
            return Err(invalid(format!("its version is {version}, and this program reads version {VERSION}")));
        }
        let hash = |at: usize| {
            let text = bytes.get(at..at + 64).and_then(|hash| std::str::from_utf8(hash).ok());
            let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
            text.map(str::to_owned).ok_or_else(|| invalid("its header is damaged: it has no SHA-256".into()))
        };
        let (tokenizer, contents) = (hash(32)?, hash(96)?);
        let vocab = u32_at(bytes, 12).unwrap_or_default();
        let (entries, documents) = (u64_at(bytes, 16), u64_at(bytes, 24));
        let length = (bytes.len() - HEADER) as u64;
        if entries.checked_mul(ENTRY as u64) != Some(length) || entries > MOST_ENTRIES as u64 {
            return Err(invalid(format!("its header says {entries} entries, and {length} bytes follow it")));
        }
        // Documents have tokens, and there is at least one.
        let least = documents.saturating_mul(2).saturating_add(1);
        if documents == 0 || entries < least || vocab == 0 || vocab > SEPARATOR {
            return Err(invalid(format!("its header is damaged: {documents} documents, tokens below {vocab}")));
        }
        Ok(Self { vocab, entries: entries as usize, documents: documents as usize, tokenizer, contents })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.vocab.to_le_bytes());
        bytes.extend((self.entries as u64).to_le_bytes());
        bytes.extend((self.documents as u64).to_le_bytes());
        bytes.extend(self.tokenizer.bytes());
        bytes.extend(self.contents.bytes());
        bytes
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Parts of a store's body.
pub(super) struct Body {
    /// With a separator in front of, between and behind documents.
    pub text: Vec<Token>,
    /// Positions by what follows them.
    pub suffixes: Vec<u32>,
    /// Positions by what precedes them, themselves included.
    pub prefixes: Vec<u32>,
}

impl Body {
    /// The bytes of a store. `tokenizer` is the SHA-256 of the tokenizer, in hexadecimal.
    pub fn bytes(&self, tokenizer: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len() * ENTRY);
        self.text.iter().for_each(|token| bytes.extend_from_slice(&token.to_le_bytes()[..TEXT]));
        self.suffixes.iter().chain(&self.prefixes).for_each(|at| bytes.extend_from_slice(&at.to_le_bytes()));
        let (documents, vocab) = counts(self.text.iter().copied());
        let header = Header {
            vocab,
            entries: self.text.len(),
            documents,
            tokenizer: tokenizer.to_owned(),
            contents: hash_bytes(&bytes),
        };
        bytes.splice(0..0, header.bytes());
        bytes
    }
}

/// Documents of a text, and its greatest token and 1.
fn counts(text: impl Iterator<Item = Token>) -> (usize, Token) {
    let (separators, vocab) = text.fold((0, 0), |(separators, vocab), token| match token {
        SEPARATOR => (separators + 1, vocab),
        token => (separators, vocab.max(token + 1)),
    });
    (usize::saturating_sub(separators, 1), vocab)
}

/// The bytes of a store.
#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Held(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}

/// A store that is mapped, or held in memory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    map: Bytes,
    header: Header,
}

impl Store {
    /// True if a file begins as a store does, whole or damaged.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn has_magic(path: &Path) -> std::io::Result<bool> {
        let mut start = Vec::with_capacity(MAGIC.len());
        file::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
        Ok(start == MAGIC)
    }

    /// Opens a store. Nothing but its header is read.
    ///
    /// # Errors
    /// When there is no such file, or its header does not fit it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = file::open(path).map_err(StoreError::io(path))?;
        if file.metadata().map_err(StoreError::io(path))?.len() < MAGIC.len() as u64 {
            return Err(StoreError::invalid(path, "it is no store of gorgon store build"));
        }
        // SAFETY: stores appear by renaming, and this program never writes into one that exists. Every value that is
        // read is checked where it is used, so other contents are wrong drafts at worst. If another program cuts the
        // file short, the system ends this process when it reads behind the end: the manual says to replace stores, not
        // to overwrite them.
        let map = unsafe { Mmap::map(&file) }.map_err(StoreError::io(path))?;
        Self::over(Bytes::Mapped(map), path)
    }

    /// A store of given bytes; errors name `path`.
    ///
    /// # Errors
    /// When they are no store.
    pub fn of_bytes(bytes: Vec<u8>, path: &Path) -> Result<Self, StoreError> {
        Self::over(Bytes::Held(bytes), path)
    }

    fn over(map: Bytes, path: &Path) -> Result<Self, StoreError> {
        let header = Header::read(&map, path)?;
        Ok(Self { path: path.into(), map, header })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The greatest of its tokens, and 1.
    pub fn vocab(&self) -> usize {
        self.header.vocab as usize
    }

    /// Tokens of all documents.
    pub fn tokens(&self) -> usize {
        self.header.entries - self.header.documents - 1
    }

    /// Its documents.
    pub fn documents(&self) -> usize {
        self.header.documents
    }

    /// Bytes of its file.
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// The bytes of its file, all of them.
    pub fn whole(&self) -> &[u8] {
        &self.map
    }

    /// SHA-256 of the tokenizer that made its tokens, in hexadecimal.
    pub fn tokenizer(&self) -> &str {
        &self.header.tokenizer
    }

    /// SHA-256 of all that follows the header, as it was when the store was written, in hexadecimal.
    pub fn contents(&self) -> &str {
        &self.header.contents
    }

    /// Reads the whole file and compares it with the hash that was written, and its header with what follows it.
    ///
    /// # Errors
    /// When it was changed since.
    pub fn verify(&self) -> Result<(), StoreError> {
        let found = hash_bytes(self.map.get(HEADER..).unwrap_or_default());
        if found != self.header.contents {
            let reason = format!("its SHA-256 is {found}, and {} when it was written", self.header.contents);
            return Err(StoreError::invalid(&self.path, reason));
        }
        let text = self.map.get(HEADER..).unwrap_or_default().chunks_exact(TEXT).take(self.header.entries);
        let text = text.map(|bytes| Token::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]));
        let (documents, vocab) = counts(text);
        if (documents, vocab) != (self.header.documents, self.header.vocab) {
            let Header { documents: named, vocab: below, .. } = self.header;
            let reason = format!(
                "its header is damaged: {named} documents, tokens below {below}; it has {documents}, and tokens below {vocab}"
            );
            return Err(StoreError::invalid(&self.path, reason));
        }
        Ok(())
    }

    pub(super) fn entries(&self) -> usize {
        self.header.entries
    }

    /// The token of an entry; `None` for separators, and for what is no token.
    #[inline]
    pub(super) fn token(&self, at: usize) -> Option<Token> {
        let at = HEADER + TEXT * at;
        let bytes = self.map.get(at..at + TEXT)?;
        let token = Token::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        (token < self.header.vocab).then_some(token)
    }

    /// The position of a rank by what follows.
    #[inline]
    pub(super) fn suffix(&self, rank: usize) -> Option<usize> {
        self.position(HEADER + TEXT * self.header.entries + 4 * rank)
    }

    /// The position of a rank by what precedes.
    #[inline]
    pub(super) fn prefix(&self, rank: usize) -> Option<usize> {
        self.position(HEADER + (TEXT + 4) * self.header.entries + 4 * rank)
    }

    #[inline]
    fn position(&self, at: usize) -> Option<usize> {
        u32_at(&self.map, at).map(|position| position as usize).filter(|&position| position < self.header.entries)
    }
}
