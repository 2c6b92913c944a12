//! The conversations and the interface of all methods that fit to a frozen backbone's states.

use super::features::Features;
use super::init_from::InitialValues;
use super::windows::Windows;
use crate::error::{TrainError, io};
use crate::parameters::Parameter;
use crate::trainer::Objective;
use burn::tensor::{DType, Tensor};
use gorgon_core::Token;
use gorgon_core::tree::NgramTable;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::ngram_table;
use gorgon_kernels::Table;
use gorgon_model::hooks::Hooks;
use std::path::Path;

/// Conversations, where the backbone's states at their tokens come from, and how much is decoded in an evaluation.
pub struct Conversations {
    /// The source of hidden states.
    pub features: Features,
    /// Conversations to fit to, or their [windows](Self::in_windows).
    pub rows: Vec<Row>,
    /// The conversations that the windows were cut from.
    pub windows: Windows,
    /// Conversations to measure on.
    pub held_out: Vec<Row>,
    /// Which of them go into which step.
    pub packing: Packing,
    /// The backbone's folder or name, for the checkpoints' config.
    pub base: String,
    /// Held-out prompts that are decoded in every evaluation.
    pub decoded_prompts: usize,
    /// New tokens of each of them.
    pub decoded_tokens: usize,
    /// Values that the parameters start from; random ones if `None`.
    pub init_from: Option<InitialValues>,
}

impl Conversations {
    /// The parameters with the values of [`Self::init_from`], if it is set.
    pub(super) fn initialised(&self, parameters: Vec<Parameter>) -> Vec<Parameter> {
        match &self.init_from {
            Some(values) => values.apply(parameters),
            None => parameters,
        }
    }

    /// Cuts the conversations to fit to into windows of `tokens` tokens, which steps then read as sequences of their
    /// own: a layer attends to nothing before its window. Held-out conversations stay whole. Hidden states depend on
    /// all tokens before, so they have to come from a cache of the whole conversations.
    #[must_use]
    pub fn in_windows(self, tokens: usize) -> Self {
        let (rows, windows) = Windows::cut(self.rows, tokens);
        let lengths = rows.iter().map(|row| row.example.ids.len()).collect();
        Self { packing: self.packing.of_lengths(lengths), windows, rows, ..self }
    }

    /// The conversations to fit to, whole.
    pub fn whole(&self) -> &[Row] {
        if self.windows.starts().is_some() { self.windows.whole() } else { &self.rows }
    }

    /// A conversation, or a window of one.
    pub fn row(&self, held_out: bool, index: usize) -> &Row {
        if held_out { &self.held_out[index] } else { &self.rows[index] }
    }

    /// Embeddings of tokens, `[tokens, d]` in `f32`.
    pub(super) fn embed(&self, tokens: &[Token]) -> Result<Tensor<2>, TrainError> {
        let decoder = &self.features.decoder;
        let d = decoder.config().hidden_size;
        if tokens.is_empty() {
            return Ok(Tensor::zeros([0, d], decoder.compute().device()));
        }
        let embedded = decoder.embed(tokens).map_err(|error| TrainError::Data(error.to_string()))?;
        Ok(embedded.into_tensor().cast(DType::F32).reshape([tokens.len(), d]))
    }

    /// Writes the n-grams of the answers beside the heads: trellis trees begin with them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn publish_ngrams(&self, heads: &Path) -> Result<(), TrainError> {
        let mut table = NgramTable::default();
        self.whole().iter().for_each(|row| table.add(&row.example.ids, &row.example.assistant));
        ngram_table::write(heads, &table.finish()).map_err(io(&heads.join(ngram_table::FILE)))
    }

    /// Bytes of the n-grams, at most.
    pub(super) fn ngrams_bytes(&self) -> u64 {
        let labels: usize = self.whole().iter().map(|row| row.example.labels()).sum();
        NgramTable::most_bytes(labels)
    }

    /// The name of a conversation in error messages.
    pub(super) fn place(&self, held_out: bool, index: usize) -> String {
        let row = self.row(held_out, index);
        format!("{} row {} ({}, {} line {})", row.shard, row.row, row.id, row.source, row.line)
    }
}

/// Copies the parameters of a checkpoint and their config to a folder.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn copy_fitted(checkpoint: &Path, folder: &Path) -> Result<(), TrainError> {
    std::fs::create_dir_all(folder).map_err(io(folder))?;
    for name in [crate::checkpoint::MODEL_FILE, "config.json"] {
        let bytes = std::fs::read(checkpoint.join(name)).map_err(io(&checkpoint.join(name)))?;
        let path = folder.join(name);
        gorgon_runs::atomic::write(&path, |file| file.write_all(&bytes)).map_err(io(&path))?;
    }
    Ok(())
}

/// The three accessors of [`OnBackbone`] for a type with the fields `lm_head` and `data`.
macro_rules! on_conversations {
    () => {
        fn lm_head(&self) -> &gorgon_kernels::Table {
            &self.lm_head
        }

        fn data(&self) -> &$crate::methods::Conversations {
            &self.data
        }

        fn data_mut(&mut self) -> &mut $crate::methods::Conversations {
            &mut self.data
        }
    };
}
pub(super) use on_conversations;

/// An objective over a frozen backbone's states.
pub trait OnBackbone: Objective {
    /// The conversations.
    fn data(&self) -> &Conversations;

    /// The conversations, to be given a cache.
    fn data_mut(&mut self) -> &mut Conversations;

    /// The backbone's LM head.
    fn lm_head(&self) -> &Table;

    /// Called with the run folder before the first step.
    fn attach(&mut self, _run: &Path) {}

    /// The positions of a conversation whose states are read; none if it has nothing to fit to.
    fn positions(&self, example: &Example) -> Vec<usize>;

    /// The backbone's states that are read beside those after the final norm.
    fn hooks(&self) -> Hooks {
        Hooks::none()
    }

    /// Computes the states of a micro-batch and drops them, to measure the time.
    ///
    /// # Errors
    /// When the backbone fails.
    fn read(&self, batch: &Self::Batch) -> Result<(), TrainError>;

    /// Whether steps read every state once only, however many epochs there are.
    fn reads_once(&self) -> bool {
        false
    }

    /// Bytes that [`Self::publish`] leaves of so many parameters.
    fn published_bytes(&self, parameters: usize) -> u64 {
        4 * parameters as u64 + self.data().ngrams_bytes()
    }

    /// Writes the best checkpoint into the run folder as `heads/`, from which it is loaded.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    fn publish(&self, checkpoint: &Path, run: &Path) -> Result<(), TrainError> {
        let heads = run.join("heads");
        copy_fitted(checkpoint, &heads)?;
        self.data().publish_ngrams(&heads)
    }

    /// The held-out conversations with the model that decodes the finished run; `None` if that is the backbone.
    ///
    /// # Errors
    /// When that model cannot be loaded.
    fn served(&self, _run: &Path) -> Result<Option<Conversations>, TrainError> {
        Ok(None)
    }

    /// The drafter that decodes the finished run, where none is among what was fitted.
    fn drafter(&self) -> Option<DrafterChoice> {
        None
    }

    /// A short description of the fitted parameters.
    fn title(&self) -> String;

    /// Bytes that a micro-batch of this many tokens (heads: positions that are read) has at work beside the weights,
    /// roughly.
    fn bytes_at_work(&self, tokens: usize) -> usize;
}
