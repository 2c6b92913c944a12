//! Drafting on a GPU without a word from the host: what was committed is read, a tree is grown level by level, and the table of the
//! pass that verifies it is written. The decisions are [`gorgon_kernels::dynamic_tree`]'s.

use super::model::EagleModel;
use super::propose::read_pairs;
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::tree::{DynamicTree, TreeBuilder};
use gorgon_kernels::dynamic_tree::{self, Grown, Growth, MOST_CANDIDATES};
use gorgon_kernels::greedy_step::{self, Outcome, Trail, TreeTable};
use gorgon_kernels::tree_attention::Flight;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;

/// Why a tree cannot be grown on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowthError {
    /// The candidates are too many for one group of threads.
    #[error("a tree that drafts {0} nodes cannot be grown on a device: at most {MOST_CANDIDATES} can be drafted there")]
    Candidates(usize),
    /// Rows of the layer do not see all of their ancestors.
    #[error(
        "a tree of {depth} levels below the first cannot be grown on a device: the draft layer sees {window} tokens"
    )]
    Window {
        /// Tokens that a row sees.
        window: usize,
        /// Levels.
        depth: usize,
    },
    /// There are not as many tokens as children.
    #[error("a node cannot have {top_k} children: the vocabulary has {vocab} tokens")]
    Vocabulary {
        /// Children.
        top_k: usize,
        /// Tokens.
        vocab: usize,
    },
    /// There is nothing to draft.
    #[error("a tree without drafts needs no draft layer")]
    Empty,
}

/// A draft layer with its cache and the tables of what it drafts. As with [`super::EagleDrafter`], the cache holds the pairs of committed
/// tokens up to the root's; rows of a tree are written behind them and written over by the next one.
#[derive(Debug)]
pub struct EagleOnDevice {
    model: EagleModel,
    cache: KvCache,
    grown: Grown,
    trail: Trail,
}

impl EagleOnDevice {
    /// A layer on a GPU that drafts `tree`s for a target with room for `capacity` tokens.
    ///
    /// # Errors
    /// When such trees cannot be grown there.
    pub fn new(model: EagleModel, tree: &DynamicTree, capacity: usize) -> Result<Self, GrowthError> {
        let growth = Growth { top_k: tree.top_k(), depth: tree.depth(), nodes: tree.max_nodes() };
        let (window, vocab) = (model.window(), model.vocab_size());
        if growth.candidates() > MOST_CANDIDATES {
            return Err(GrowthError::Candidates(growth.candidates()));
        }
        if growth.nodes < 2 {
            return Err(GrowthError::Empty);
        }
        if growth.top_k > vocab {
            return Err(GrowthError::Vocabulary { top_k: growth.top_k, vocab });
        }
        if let Some(window) = window.filter(|&window| window <= growth.depth) {
            return Err(GrowthError::Window { window, depth: growth.depth });
        }
        let device = model.device().clone();
        let grown = Grown::new(growth, window, 0, &device);
        let trail = Trail::new(growth.longest(), window, 0, &device);
        let cache = model.new_cache(capacity + rows(growth));
        Ok(Self { model, cache, grown, trail })
    }

    /// The sizes of its trees.
    pub fn growth(&self) -> Growth {
        self.grown.growth()
    }

    /// Rows behind the committed ones that a step writes to the cache at most.
    pub fn rows(&self) -> usize {
        rows(self.growth())
    }

    /// Reads a prompt: `tokens` are those after its first one and the first emitted one, `features` the target's states at the prompt.
    /// Gives the state guessed at the root; `None` without tokens.
    ///
    /// # Shapes
    /// `features [1, tokens, d]`, result `[1, 1, d]`.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn prefill(&mut self, tokens: &[Token], features: &Tensor<3>) -> Result<Option<Tensor<3>>, ModelError> {
        self.cache.truncate(0);
        read_pairs(&self.model, &mut self.cache, tokens, features)
    }

    /// Reads what a step committed, of which `features` are the target's states at all nodes. Gives the state guessed at the new root.
    ///
    /// # Shapes
    /// `features [1, R, d]`, result `[1, 1, d]`; at most `slots` slots of the cache are read.
    ///
    /// # Errors
    /// When the layer is on the CPU.
    pub fn catch_up(&mut self, features: &Tensor<3>, outcome: &Outcome, slots: usize) -> Result<Tensor<3>, ModelError> {
        greedy_step::follow(outcome, &self.trail);
        let features = features.clone().select(1, self.trail.nodes());
        let guessed = self.model.forward_flight(&self.trail.pass().with_slots(slots), features, &mut self.cache)?;
        Ok(guessed.select(1, self.trail.last()))
    }

    /// Grows a tree below the root that `flight` has, behind as many committed rows, and writes it there and into `tree`.
    ///
    /// # Shapes
    /// `guessed [1, 1, d]`, the state guessed at the root.
    ///
    /// # Errors
    /// When the layer is on the CPU.
    pub fn draft(&mut self, mut guessed: Tensor<3>, tree: &TreeTable, flight: &Flight) -> Result<(), ModelError> {
        let depth = self.growth().depth;
        for level in 0..=depth {
            dynamic_tree::expand(&self.grown, level, &self.model.logits_there(&guessed));
            if level < depth {
                dynamic_tree::descend(&self.grown, level, flight);
                let features = guessed.select(1, self.grown.slots());
                let pass = self.grown.pass(level).with_slots(flight.slots());
                guessed = self.model.forward_flight(&pass, features, &mut self.cache)?;
            }
        }
        dynamic_tree::plant(&self.grown, tree, flight);
        Ok(())
    }
}

/// The rows of an accepted path, and behind them those of all levels that are expanded.
fn rows(growth: Growth) -> usize {
    growth.longest() + growth.depth * growth.top_k
}
