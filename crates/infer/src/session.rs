//! A sequence being decoded: a target, a drafter and the text that both have read. It lives across turns.

use crate::error::DecodeError;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::tree::TreeBuilder;
use gorgon_core::{PooledVec, Token};
use gorgon_draft::drafter::{DraftError, Drafter, Feedback, Needs, NoDrafter, VerifiedPass};
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::{DecoderTarget, PREFILL_CHUNK, Target};

/// How drafts are arranged and accepted.
#[derive(Clone, Copy)]
pub struct Method<'a> {
    /// Arranges drafts into trees.
    pub tree: &'a dyn TreeBuilder,
    /// Accepts a path of a verified tree.
    pub rule: &'a dyn AcceptanceRule,
}

/// A text that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// The hidden state after the final norm at its last token, `[1, d]`.
    pub states: HiddenStates,
    /// Tokens that were not known.
    pub read: usize,
}

/// A chunk of a text that was read.
#[derive(Clone, Debug)]
pub struct ReadChunk {
    /// The hidden state after the final norm at the text's last token, `[1, d]`; `None` while there is more to read.
    pub states: Option<HiddenStates>,
    /// Tokens of the chunk.
    pub read: usize,
}

/// Output of a pass over a chunk of a text, for other sessions that stand before the same chunk.
#[derive(Debug)]
pub(crate) struct ChunkOutput {
    /// Tokens in front of it.
    from: usize,
    output: PassOutput,
}

/// A sequence with its target and its drafter. Plain decoding is a session without a drafter.
#[derive(Debug)]
pub struct Session<T = DecoderTarget, D = Box<dyn Drafter>> {
    target: T,
    drafter: D,
    needs: Needs,
    /// The committed tokens, those of a source included.
    text: Vec<Token>,
    /// How many of them are the source of a target with an encoder.
    source: usize,
}

impl<T: Target> Session<T, NoDrafter> {
    /// A session that decodes plainly.
    pub fn plain(target: T) -> Self {
        Self::new(target, NoDrafter)
    }
}

impl<T: Target, D: Drafter> Session<T, D> {
    /// A session of a target and a drafter, both of which forget what they have read.
    pub fn new(mut target: T, mut drafter: D) -> Self {
        target.truncate(0);
        drafter.reset();
        Self { needs: drafter.needs(), target, drafter, text: vec![], source: 0 }
    }

    /// A session of a target and a drafter that both have read `text`.
    pub(crate) fn resumed(target: T, drafter: D, text: Vec<Token>) -> Self {
        Self { needs: drafter.needs(), target, drafter, text, source: 0 }
    }

    /// The tokens that were read and are kept, without target and drafter.
    pub(crate) fn into_text(self) -> Vec<Token> {
        self.text
    }

    /// Tokens that were read and are kept.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// True before the first token was read.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The tokens that were read and are kept.
    pub fn text(&self) -> &[Token] {
        &self.text
    }

    /// The target.
    pub fn target(&self) -> &T {
        &self.target
    }

    /// The drafter.
    pub fn drafter(&mut self) -> &mut D {
        &mut self.drafter
    }

    /// Requirements of the drafter.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Output of the target that the drafter reads of the tree that it drafted last.
    pub(crate) fn feedback(&self) -> Feedback {
        self.drafter.reads(self.needs.feedback)
    }

    pub(crate) fn parts(&mut self) -> (&mut T, &mut D) {
        (&mut self.target, &mut self.drafter)
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.target.truncate(0);
        self.drafter.reset();
        self.text.clear();
        self.source = 0;
    }

    /// Forgets tokens from `length` on. Within a source, and where the drafter cannot go back, everything is forgotten:
    /// [`Self::len`] says how much is left.
    pub fn truncate(&mut self, length: usize) {
        if length >= self.len() {
            return;
        }
        match length >= self.source && self.drafter.truncate(length) {
            true => {
                self.target.truncate(length);
                self.text.truncate(length);
            }
            false => self.reset(),
        }
    }

    /// Reads a text, as far as it is not known already, in chunks of which nothing is kept.
    ///
    /// # Errors
    /// As of [`read_on`](Self::read_on).
    pub fn read(&mut self, text: &[Token], ahead: usize) -> Result<Read, DecodeError> {
        let mut read = 0;
        loop {
            let chunk = self.read_on(text, ahead)?;
            read += chunk.read;
            if let Some(states) = chunk.states {
                return Ok(Read { states, read });
            }
        }
    }

    /// Reads the next chunk of a text, behind what is known of it. The cache gets room for the whole text and `ahead`
    /// more rows at once: a cache that grows while it is read copies its rows. A source is a chunk by itself: of a target
    /// with an encoder all of a text but its last token ([`Target::has_encoder`]).
    ///
    /// # Errors
    /// When the text is empty, does not fit or holds a token outside the vocabulary, or the drafter fails. What was
    /// read until then stays read.
    pub fn read_on(&mut self, text: &[Token], ahead: usize) -> Result<ReadChunk, DecodeError> {
        Ok(self.read_shared(text, ahead)?.0)
    }

    /// As [`Self::read_on`], with what the pass put out; `None` of a source.
    ///
    /// # Errors
    /// As of [`Self::read_on`].
    pub(crate) fn read_shared(
        &mut self,
        text: &[Token],
        ahead: usize,
    ) -> Result<(ReadChunk, Option<ChunkOutput>), DecodeError> {
        // The last token is read in any case: its state is asked for.
        let most = text.len().checked_sub(1).ok_or(ModelError::EmptyPrompt)?;
        let known = self.known(text).min(most);
        match self.target.has_encoder() && (self.source != most || known < most) {
            true => self.reset(),
            // A drafter that cannot go back forgets a source too.
            false => self.truncate(known),
        }
        if self.target.has_encoder() && self.source != most {
            self.target.check(text)?;
            self.read_source(&text[..most])?;
            return Ok((ReadChunk { states: None, read: most }, None));
        }
        self.prepare(text, ahead)?;
        let (from, unread) = (self.len(), text.len() - self.len());
        let chunk = &text[from..][..unread.min(PREFILL_CHUNK)];
        let output = self.target.extend(chunk)?;
        self.observe_chunk(chunk, &output)?;
        let states = (unread == chunk.len()).then(|| output.hidden.narrow(chunk.len() - 1, 1));
        Ok((ReadChunk { states, read: chunk.len() }, Some(ChunkOutput { from, output })))
    }

    /// Reads the chunk of a text that another session of the same model has read last, without a pass of its own: the
    /// rows of that session's cache are copied, and the drafter observes the same output. `None`, and nothing is read,
    /// where this text does not go on as that one, this session stands elsewhere, or its target cannot do so.
    ///
    /// # Errors
    /// As of [`Self::read_on`].
    pub(crate) fn read_along(
        &mut self,
        other: &Self,
        chunk: &ChunkOutput,
        text: &[Token],
        ahead: usize,
    ) -> Result<Option<ReadChunk>, DecodeError> {
        let (from, to) = (chunk.from, other.len());
        let is_same = text.len() >= to && text[..to] == other.text[..to];
        // The last token has to be read for its logits, so it is not taken as known.
        if !is_same || self.target.has_encoder() || self.known(text).min(text.len() - 1) != from {
            return Ok(None);
        }
        self.truncate(from);
        if self.len() != from {
            return Ok(None);
        }
        self.prepare(text, ahead)?;
        if !self.target.copy_rows(&other.target, to)? {
            return Ok(None);
        }
        self.observe_chunk(&text[from..to], &chunk.output)?;
        let states = (to == text.len()).then(|| chunk.output.hidden.narrow(to - from - 1, 1));
        Ok(Some(ReadChunk { states, read: to - from }))
    }

    /// Checks what is unread of a text, and makes room for it and `ahead` more rows.
    fn prepare(&mut self, text: &[Token], ahead: usize) -> Result<(), DecodeError> {
        self.target.check(&text[self.len()..])?;
        let unread = text.len() - self.len();
        self.target.reserve(unread + ahead.min(self.target.context().saturating_sub(text.len())));
        Ok(())
    }

    /// Takes note of a chunk that the target has committed.
    fn observe_chunk(&mut self, chunk: &[Token], output: &PassOutput) -> Result<(), DecodeError> {
        let rows: PooledVec<usize> = (0..chunk.len()).collect();
        let observed = self.drafter.observe(VerifiedPass::prompt(chunk, output, &rows));
        self.keep(chunk, observed)
    }

    /// Forgets all tokens from the first one that differs from a text on.
    pub(crate) fn rewind(&mut self, text: &[Token]) {
        self.truncate(self.known(text));
    }

    /// How many tokens a text has in common with the one that was read.
    fn known(&self, text: &[Token]) -> usize {
        self.text.iter().zip(text).take_while(|(known, token)| known == token).count()
    }

    /// Begins anew with the source of a target with an encoder.
    pub(crate) fn read_source(&mut self, source: &[Token]) -> Result<(), DecodeError> {
        self.reset();
        let output = self.target.read_source(source)?;
        self.source = source.len();
        let rows: PooledVec<usize> = (0..source.len()).collect();
        let observed = self.drafter.observe(VerifiedPass::source(source, &output, &rows));
        self.keep(source, observed)
    }

    /// Reads tokens after those that were read, in chunks. Returns the state after the final norm at the last one.
    pub(crate) fn extend(&mut self, tokens: &[Token]) -> Result<Option<HiddenStates>, DecodeError> {
        let mut last = None;
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            let output = self.target.extend(chunk)?;
            self.observe_chunk(chunk, &output)?;
            last = Some(output.hidden.narrow(chunk.len() - 1, 1));
        }
        Ok(last)
    }

    /// Takes note of committed tokens. A drafter that failed to observe them knows nothing any more.
    pub(crate) fn keep(&mut self, tokens: &[Token], observed: Result<(), DraftError>) -> Result<(), DecodeError> {
        self.text.extend_from_slice(tokens);
        if observed.is_err() {
            self.reset();
        }
        Ok(observed?)
    }
}
