//! Cache of drafters that read pairs: a state, and the token after it.
//!
//! Pairs of committed tokens are in a cache, and so is that of the last root, which will be committed with the next
//! step.

use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::target::PREFILL_CHUNK;

/// Guesses from some pairs, whose keys and values stay uncommitted in a cache.
pub(crate) trait ReadFeatureTokens:
    FnMut(&[Token], &HiddenStates, &AttentionMask, &mut KvCache) -> Result<HiddenStates, ModelError>
{
}
impl<F: FnMut(&[Token], &HiddenStates, &AttentionMask, &mut KvCache) -> Result<HiddenStates, ModelError>>
    ReadFeatureTokens for F
{
}

/// One network's pairs.
#[derive(Debug)]
pub(crate) struct FeatureTokenCache {
    /// Pairs that were read. What a tree's rows add is taken back when it is drafted.
    pub cache: KvCache,
    /// States that no pair was made of.
    states: Vec<HiddenStates>,
    /// The tokens after them, the last one's apart: that will be the root.
    next: Vec<Token>,
    /// The root of the last proposal, whose pair is the last one in the cache.
    rooted: Option<Rooted>,
}

/// The last pair and what it gave.
#[derive(Debug)]
struct Rooted {
    root: Token,
    /// The state before it.
    state: HiddenStates,
    /// One state.
    guessed: HiddenStates,
}

/// State of the root that was read ahead, once tokens were committed.
pub(crate) enum Root {
    /// None was.
    NotRead,
    /// It is the first of the tokens; what had been guessed at it.
    Committed(HiddenStates),
    /// Another token was committed; its pair was taken back.
    Dropped,
}

impl FeatureTokenCache {
    pub fn new(cache: KvCache) -> Self {
        Self { cache, states: vec![], next: vec![], rooted: None }
    }

    /// Pairs in the cache: those of committed tokens, and that of the last root.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Committed tokens that were not read.
    pub fn waiting(&self) -> usize {
        self.next.len()
    }

    /// The root that was read ahead, if there is one.
    pub fn root(&self) -> Option<Token> {
        self.rooted.as_ref().map(|rooted| rooted.root)
    }

    /// The state before that root.
    pub fn state(&self) -> Option<&HiddenStates> {
        self.rooted.as_ref().map(|rooted| &rooted.state)
    }

    pub fn reset(&mut self) {
        self.cache.truncate(0);
        self.take_note(None);
    }

    /// All that waited was read, and so was a root.
    fn take_note(&mut self, rooted: Option<Rooted>) {
        self.states.clear();
        self.next.clear();
        self.rooted = rooted;
    }

    /// Tokens were committed (at least one), with these states at them.
    pub fn observe(&mut self, tokens: &[Token], states: HiddenStates) -> Root {
        let (root, paired) = match self.rooted.take() {
            Some(rooted) if rooted.root == tokens[0] => (Root::Committed(rooted.guessed), &tokens[1..]),
            Some(rooted) => {
                self.take_back(rooted);
                (Root::Dropped, tokens)
            }
            // The very first token follows nothing.
            None if self.states.is_empty() => (Root::NotRead, &tokens[1..]),
            None => (Root::NotRead, tokens),
        };
        self.next.extend_from_slice(paired);
        self.states.push(states);
        root
    }

    /// Reads what is waiting and the pair of `root`: the state guessed at the root; `None` before the first state.
    /// `tell` gets the other tokens, with what is guessed at them.
    pub fn catch_up(
        &mut self,
        root: Token,
        read: &mut impl ReadFeatureTokens,
        tell: &mut dyn FnMut(&[Token], HiddenStates),
    ) -> Result<Option<HiddenStates>, ModelError> {
        if let Some(rooted) = self.rooted.as_ref().filter(|rooted| rooted.root == root) {
            return Ok(Some(rooted.guessed.clone()));
        }
        self.unroot();
        if self.states.is_empty() {
            return Ok(None);
        }
        let states = HiddenStates::concat(&self.states);
        let waiting = self.next.len();
        let tokens: PooledVec<Token> = self.next.iter().copied().chain([root]).collect();
        let (mut left, mut at_root) = (waiting, None);
        read_feature_tokens(read, &mut self.cache, &tokens, &states, &mut |tokens, guessed| {
            let committed = tokens.len().min(left);
            left -= committed;
            if committed < tokens.len() {
                at_root = Some(row(&guessed, committed));
            }
            if committed > 0 {
                tell(&tokens[..committed], guessed.narrow(0, committed));
            }
        })?;
        let rooted = at_root.map(|guessed| Rooted { root, state: row(&states, waiting), guessed });
        let at_root = rooted.as_ref().map(|rooted| rooted.guessed.clone());
        self.take_note(rooted);
        Ok(at_root)
    }

    /// Reads what is waiting alone, and tells of it.
    pub fn read_waiting(
        &mut self,
        read: &mut impl ReadFeatureTokens,
        tell: &mut dyn FnMut(&[Token], HiddenStates),
    ) -> Result<(), ModelError> {
        let waiting = self.next.len();
        if waiting > 0 {
            let states = HiddenStates::concat(&self.states);
            read_feature_tokens(read, &mut self.cache, &self.next, &states, tell)?;
            self.take_note(None);
            self.states.push(row(&states, waiting));
        }
        Ok(())
    }

    /// Takes the pair of a root that was not committed back, if there is one.
    pub fn unroot(&mut self) {
        if let Some(rooted) = self.rooted.take() {
            self.take_back(rooted);
        }
    }

    fn take_back(&mut self, rooted: Rooted) {
        self.cache.truncate(self.cache.len() - 1);
        self.take_note(None);
        self.states.push(rooted.state);
    }
}

/// Commits pairs of states (one for each token, or more) and the tokens after them to `cache`, in chunks, and tells of
/// each what is guessed at its tokens. After an error the cache is as it was.
pub(crate) fn read_feature_tokens(
    read: &mut impl ReadFeatureTokens,
    cache: &mut KvCache,
    tokens: &[Token],
    states: &HiddenStates,
    tell: &mut dyn FnMut(&[Token], HiddenStates),
) -> Result<(), ModelError> {
    let before = cache.len();
    for (i, chunk) in tokens.chunks(PREFILL_CHUNK).enumerate() {
        let part = states.narrow(i * PREFILL_CHUNK, chunk.len());
        let guessed = read(chunk, &part, &AttentionMask::Causal { rows: chunk.len() }, cache).and_then(|guessed| {
            cache.commit(&(0..chunk.len()).collect::<PooledVec<_>>())?;
            Ok(guessed)
        });
        match guessed {
            Ok(guessed) => tell(chunk, guessed),
            Err(error) => {
                cache.truncate(before);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Rows from which one of them is copied instead of looked at: on a GPU, what looks at a row keeps all of them in
/// memory.
const MANY: usize = 64;

/// One of some states.
pub(crate) fn row(states: &HiddenStates, row: usize) -> HiddenStates {
    match states.rows() {
        rows if rows < MANY => states.narrow(row, 1),
        _ => states.select(&[row]),
    }
}
