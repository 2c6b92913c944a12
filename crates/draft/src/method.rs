//! Interface of a drafter without weights of its own.

use crate::draft_model::DraftSampling;
use crate::drafter::Drafter;
use crate::store::StoreFile;
use gorgon_core::tree::{TreeChoice, TreeKind};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;

/// A drafting method that needs no weights of its own.
pub trait TrainingFreeMethod: Sized {
    /// How it is written on the command line: its name, and its arguments after a colon.
    const SYNTAX: &'static str;

    /// Parses its arguments, those after the colon; empty if there is none.
    ///
    /// # Errors
    /// One line with the offending value.
    fn parse(arguments: &str) -> Result<Self, String>;

    /// Its name with its arguments, as on the command line.
    fn name(&self) -> String;

    /// The tree that it drafts unless another one is named.
    fn default_tree(&self) -> TreeChoice;

    /// Fails if it cannot draft for a model.
    ///
    /// # Errors
    /// One line with the offending value.
    fn check(&self, _model: &ModelConfig) -> Result<(), String> {
        Ok(())
    }

    /// Fails if it cannot draft trees of this kind.
    ///
    /// # Errors
    /// One line with its name and the trees that it can draft.
    fn check_tree(&self, _tree: &TreeKind) -> Result<(), String> {
        Ok(())
    }

    /// The store that it reads, if it reads one.
    fn store(&self) -> Option<&StoreFile> {
        None
    }

    /// The store that it reads, to be shared.
    fn store_mut(&mut self) -> Option<&mut StoreFile> {
        None
    }

    /// True if it writes a file that belongs to one model's weights. Then call [`bind`](Self::bind).
    fn is_of_weights(&self) -> bool {
        false
    }

    /// Binds the file that it writes to weights with this SHA-256, in hexadecimal.
    ///
    /// # Errors
    /// One line with the path when the file is of other weights.
    fn bind(&mut self, _weights: &str) -> Result<(), String> {
        Ok(())
    }

    /// Opens the files that it names.
    ///
    /// # Errors
    /// One line with the path.
    fn opened(self) -> Result<Self, String> {
        Ok(self)
    }

    /// Drafts nothing any more where fewer than `least` tokens match: another drafter drafts there.
    ///
    /// # Errors
    /// When it goes by no match.
    fn declining_below(self, _least: usize) -> Result<Self, String> {
        Err(format!("{} drafts in any case, and hands over to no other drafter", self.name()))
    }

    /// Bytes that a drafter keeps for one sequence of at most so many tokens, as far as they are worth counting.
    fn bytes(&self, _model: &ModelConfig, _compute: &Compute, _tokens: usize) -> u128 {
        0
    }

    /// A drafter for one sequence.
    fn drafter(&self) -> Box<dyn Drafter>;

    /// A drafter for one sequence whose drafts serve a rule: it draws them if it can.
    fn drafter_for(&self, _sampling: DraftSampling) -> Box<dyn Drafter> {
        self.drafter()
    }
}
