//! A store that grows: the finished answers of one owner, a server or a chat session.
//!
//! It lives in memory alone and ends with its owner. What it holds shows in the time of later answers, so whoever asks
//! the same owner can learn of answers that others got. Nothing keeps one unless it is named (`suffix:live`).
//!
//! Answers are kept in the order in which they were finished; beyond its size the oldest leave. Drafts read a snapshot, a
//! [`Store`] like one of a file, which is made anew once an eighth of the answers' tokens is newer. So a token is ordered
//! some eight times, however large the store is.

use super::{Store, StoreBuilder, StoreError};
use gorgon_core::Token;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a token at most: while a snapshot is made, four as kept, eleven each of the old one and the new one, and
/// twenty on the way.
const TOKEN_BYTES: usize = 48;
/// Memory of an answer beside its tokens, in tokens.
const ANSWER: usize = 2;
/// The share of new tokens from which on a snapshot is made anew is one in so many.
const NEWER: usize = 8;
/// Errors name this place.
const PLACE: &str = "live store";

/// Finished answers, and a snapshot of them.
#[derive(Debug)]
pub struct LiveStore {
    /// Tokens at most.
    most: AtomicUsize,
    tokenizer: OnceLock<String>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: VecDeque<Vec<Token>>,
    tokens: usize,
    /// Tokens that came since the snapshot was made.
    newer: usize,
    snapshot: Option<Arc<Store>>,
}

impl LiveStore {
    /// An empty one that takes at most so many MiB of memory.
    pub fn new(mib: usize) -> Self {
        Self { most: AtomicUsize::new(tokens(mib)), tokenizer: OnceLock::new(), state: Mutex::default() }
    }

    /// Lets it take so many MiB at least.
    pub fn grow(&self, mib: usize) {
        self.most.fetch_max(tokens(mib), Ordering::Relaxed);
    }

    /// Bytes of memory that it takes at most.
    pub fn most_bytes(&self) -> u128 {
        self.most.load(Ordering::Relaxed) as u128 * TOKEN_BYTES as u128
    }

    /// Binds it to the tokenizer with this SHA-256, in hexadecimal. False if it is bound to another one.
    pub fn bind(&self, tokenizer: &str) -> bool {
        self.tokenizer.get_or_init(|| tokenizer.to_owned()) == tokenizer
    }

    /// Takes up a finished answer. Of one that is longer than the whole store, the end.
    pub fn add(&self, answer: &[Token]) {
        let most = self.most.load(Ordering::Relaxed);
        let answer = &answer[answer.len().saturating_sub(most.saturating_sub(ANSWER))..];
        let mut state = self.state();
        if answer.is_empty() || StoreBuilder::default().add(answer).is_err() {
            return;
        }
        state.answers.push_back(answer.to_vec());
        state.tokens += answer.len();
        state.newer += answer.len();
        while state.tokens + ANSWER * state.answers.len() > most
            && let Some(oldest) = state.answers.pop_front()
        {
            state.tokens -= oldest.len();
        }
        if NEWER * state.newer < state.tokens {
            return;
        }
        state.newer = 0;
        let answers = state.answers.clone();
        // Readers go on with the old snapshot meanwhile.
        drop(state);
        match self.ordered(&answers).and_then(|bytes| Store::of_bytes(bytes, Path::new(PLACE))) {
            Ok(store) => self.state().snapshot = Some(Arc::new(store)),
            Err(error) => tracing::warn!(%error, "the live store keeps its old snapshot"),
        }
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        *self.state() = State::default();
    }

    /// The store that drafts are looked up in: all answers but the newest ones. `None` before the first.
    pub fn snapshot(&self) -> Option<Arc<Store>> {
        self.state().snapshot.clone()
    }

    /// The bytes of a store file with all answers.
    ///
    /// # Errors
    /// When there is no answer yet.
    pub fn bytes(&self) -> Result<Vec<u8>, StoreError> {
        let answers = self.state().answers.clone();
        self.ordered(&answers)
    }

    /// Answers and tokens that it holds.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state();
        (state.answers.len(), state.tokens)
    }

    fn ordered(&self, answers: &VecDeque<Vec<Token>>) -> Result<Vec<u8>, StoreError> {
        let mut builder = StoreBuilder::default();
        answers.iter().try_for_each(|answer| builder.add(answer))?;
        let unbound = "0".repeat(64);
        builder.bytes(self.tokenizer.get().unwrap_or(&unbound))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that so many MiB hold.
fn tokens(mib: usize) -> usize {
    (mib << 20) / TOKEN_BYTES
}

#[cfg(test)]
mod tests;
