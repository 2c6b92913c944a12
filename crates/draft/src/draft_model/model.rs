//! A draft model on a device.

use gorgon_core::{PooledVec, Token};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a model cannot draft for another one.
#[derive(Debug, thiserror::Error)]
pub enum DraftModelError {
    /// The draft model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A tokenizer that is there and cannot be read.
    #[error(transparent)]
    Text(#[from] TokenizerError),
    /// An id stands for different tokens.
    #[error(
        "{} and {} have different tokenizers: token {id} is {theirs} in the one and {ours} in the other",
        .draft.display(), .target.display()
    )]
    Tokenizer {
        /// The draft model's folder.
        draft: PathBuf,
        /// The target's.
        target: PathBuf,
        /// The first id that differs.
        id: u32,
        /// Token of the draft model.
        theirs: String,
        /// Token of the target.
        ours: String,
    },
    /// A draft model that reads a source, for a target that reads none.
    #[error("{} is an encoder-decoder model, and {} has no source for it to read", .draft.display(), .target.display())]
    Encoder {
        /// The draft model's folder.
        draft: PathBuf,
        /// The target's.
        target: PathBuf,
    },
    /// Without tokenizers, the sizes are all that can be compared.
    #[error("{} has a vocabulary of {theirs} tokens and {} one of {ours}", .draft.display(), .target.display())]
    Vocabulary {
        /// The draft model's folder.
        draft: PathBuf,
        /// The target's.
        target: PathBuf,
        /// The draft model's vocabulary.
        theirs: usize,
        /// The target's.
        ours: usize,
    },
}

/// A draft model.
#[derive(Clone, Debug)]
pub struct DraftModel {
    name: String,
    decoder: Arc<Decoder>,
    /// Tokens that draft model and target have in common. Some models have more rows than there are tokens.
    vocab_size: usize,
}

/// The tokenizer in a folder, if there is one.
fn tokenizer(folder: &Path) -> Result<Option<Tokenizer>, TokenizerError> {
    match Tokenizer::load(folder) {
        Ok(text) => Ok(Some(text)),
        Err(TokenizerError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl DraftModel {
    /// Fails unless the model in one folder can draft for the one in another: unless they have the same tokens, by their
    /// tokenizers, or by the size of their vocabularies where one has no tokenizer, and where it reads a source the other
    /// has one.
    ///
    /// # Errors
    /// One line with both folders, or what is wrong with one of them.
    pub fn check_vocabulary(draft: &Path, target: &Path) -> Result<(), DraftModelError> {
        let config = |folder| Ok::<_, DraftModelError>(ModelConfig::read(folder).map_err(ModelError::from)?);
        let (theirs, ours) = (config(draft)?, config(target)?);
        let folders = || (draft.to_path_buf(), target.to_path_buf());
        if theirs.encoder.is_some() && ours.encoder.is_none() {
            let (draft, target) = folders();
            return Err(DraftModelError::Encoder { draft, target });
        }
        let (theirs, ours) = (theirs.vocab_size, ours.vocab_size);
        let (Some(draft_text), Some(target_text)) = (tokenizer(draft)?, tokenizer(target)?) else {
            let (draft, target) = folders();
            let same = theirs == ours;
            return if same { Ok(()) } else { Err(DraftModelError::Vocabulary { draft, target, theirs, ours }) };
        };
        let Some(id) = draft_text.first_difference(&target_text) else { return Ok(()) };
        let (draft, target) = folders();
        let spelled = |text: &Tokenizer| text.token(id).map_or_else(|| "nothing".into(), |token| format!("{token:?}"));
        Err(DraftModelError::Tokenizer { draft, target, id, theirs: spelled(&draft_text), ours: spelled(&target_text) })
    }

    /// A draft model under a name.
    pub fn new(name: String, decoder: Arc<Decoder>, target: &ModelConfig) -> Self {
        let vocab_size = decoder.config().vocab_size.min(target.vocab_size);
        Self { name, decoder, vocab_size }
    }

    /// Copy that drafts none of the tokens from `vocab_size` on.
    pub fn within(mut self, vocab_size: usize) -> Self {
        self.vocab_size = self.vocab_size.min(vocab_size);
        self
    }

    /// Its name, as on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The model.
    pub fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    /// Tokens that it can draft.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// An empty cache, which grows as it needs.
    pub(super) fn new_cache(&self) -> KvCache {
        self.decoder.new_cache(self.decoder.config().max_positions)
    }

    /// The top `widths[i]` tokens after state `i`, if they can be found without all logits.
    pub(super) fn top_tokens(&self, hidden: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        // Rows that are no tokens of the target's may be among the top ones.
        let all = self.decoder.config().vocab_size == self.vocab_size;
        if all { self.decoder.top_tokens(hidden, widths) } else { None }
    }

    /// Logits of the tokens that it can draft.
    ///
    /// # Shapes
    /// Result `[rows · vocab_size]`, row-major.
    pub(super) fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        let logits = self.decoder.logits(hidden);
        let own = self.decoder.config().vocab_size;
        if own == self.vocab_size {
            return logits;
        }
        logits.chunks_exact(own).flat_map(|row| &row[..self.vocab_size]).copied().collect()
    }
}
