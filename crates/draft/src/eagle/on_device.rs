//! Drafting on a GPU without a word from the host: what was committed is read, a tree is grown level by level, and the
//! table of the pass that verifies it is written. The decisions are [`gorgon_kernels::dynamic_tree`]'s.

use super::device_layer::DeviceLayer;
use super::feature_layer::Columns;
use super::propose::reading;
use crate::drafter::{DraftError, Needs};
use crate::feature_tokens::{read_feature_tokens, row};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_core::tree::{DynamicTree, TreeBuilder};
use gorgon_kernels::dynamic_tree::{self, GrowingTree, Growth, MOST_CANDIDATES};
use gorgon_kernels::recorded_step::{self, MOST_NODES, Outcome, Trail, TreeTable};
use gorgon_kernels::tree_attention::PassTable;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::pass::PassOutput;

/// Why a tree cannot be grown on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowthError {
    /// The candidates are too many for one group of threads.
    #[error("a tree that drafts {0} nodes cannot be grown on a device: at most {MOST_CANDIDATES} can be drafted there")]
    Candidates(usize),
    /// The nodes are too many for one group of threads.
    #[error("a tree of {0} nodes cannot be verified in a recorded step: at most {MOST_NODES} can")]
    Nodes(usize),
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

/// A draft layer with its cache and the tables of what it drafts. As with [`super::EagleDrafter`], the cache holds the
/// pairs of committed tokens up to the root's; rows of a tree are written behind them and written over by the next one.
#[derive(Debug)]
pub struct EagleOnDevice {
    model: Box<dyn DeviceLayer>,
    cache: KvCache,
    /// The tokens of the logits' columns, where those are not their numbers.
    tokens: Option<Tensor<1, Int>>,
    growing: GrowingTree,
    trail: Trail,
}

impl EagleOnDevice {
    /// A layer on a GPU that drafts `tree`s for a target with room for `capacity` tokens.
    ///
    /// # Errors
    /// When such trees cannot be grown there.
    pub fn new(
        model: Box<dyn DeviceLayer>,
        tree: &DynamicTree,
        capacity: usize,
        device: &Device,
    ) -> Result<Self, GrowthError> {
        let growth = Growth { top_k: tree.top_k(), depth: tree.depth(), nodes: tree.max_nodes() };
        let window = model.layer().config().windows.first().copied().flatten();
        let (vocab, named) = match model.columns() {
            Columns::All(vocab) => (vocab, None),
            Columns::Named(tokens) => (tokens.len(), Some(tokens.to_vec())),
        };
        if growth.candidates() > MOST_CANDIDATES {
            return Err(GrowthError::Candidates(growth.candidates()));
        }
        if growth.nodes > MOST_NODES {
            return Err(GrowthError::Nodes(growth.nodes));
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
        let growing = GrowingTree::new(growth, window, 0, device);
        let trail = Trail::new(growth.longest(), window, 0, device);
        let cache = model.new_cache(capacity + rows(growth));
        let ids = named.map(|tokens| tokens.into_iter().map(|token| token as i32).collect::<Vec<_>>());
        let tokens = ids.map(|ids| Tensor::from_data(TensorData::new(ids, [vocab]), device));
        Ok(Self { model, cache, tokens, growing, trail })
    }

    /// The sizes of its trees.
    pub fn growth(&self) -> Growth {
        self.growing.growth()
    }

    /// Rows behind the committed ones that a step writes to the cache at most.
    pub fn rows(&self) -> usize {
        rows(self.growth())
    }

    /// Requirements on the target's passes.
    pub fn needs(&self) -> Needs {
        self.model.needs()
    }

    /// Forgets the pairs behind the first `length` ones, all of which were read. Steps on the device read pairs that the
    /// cache has not counted.
    ///
    /// # Errors
    /// When there is no room for so many.
    pub fn truncate(&mut self, length: usize) -> Result<(), ModelError> {
        Ok(self.cache.set_len(length)?)
    }

    /// Reads a chunk of a prompt: `output` is the target's pass over it, `tokens` are those after each of its own, the
    /// last of all the first emitted one. Gives the state guessed at the last of them; `None` without tokens.
    ///
    /// # Shapes
    /// Result `[1, 1, d]`.
    ///
    /// # Errors
    /// When a token is outside the vocabulary, or the pass lacks the states of hooked layers.
    pub fn read(&mut self, tokens: &[Token], output: &PassOutput) -> Result<Option<Tensor<3>>, DraftError> {
        let states = self.model.states(output, &(0..tokens.len()).collect::<Vec<_>>())?;
        let mut last = None;
        read_feature_tokens(&mut reading(&*self.model), &mut self.cache, tokens, &states, &mut |tokens, guessed| {
            last = Some(row(&guessed, tokens.len() - 1).into_tensor());
        })?;
        Ok(last)
    }

    /// Reads what a step committed, of which `output` is the verification. Gives the state guessed at the new root.
    ///
    /// # Shapes
    /// Result `[1, 1, d]`; at most `slots` slots of the cache are read.
    ///
    /// # Errors
    /// When the layer is on the CPU, or the pass lacks the states of hooked layers.
    pub fn catch_up(&mut self, output: &PassOutput, outcome: &Outcome, slots: usize) -> Result<Tensor<3>, DraftError> {
        recorded_step::follow(outcome, &self.trail);
        let states = self.model.states_on_device(output, self.trail.nodes())?;
        let guessed = self.model.forward_on_device(&self.trail.pass().with_slots(slots), states, &mut self.cache)?;
        Ok(guessed.select(1, self.trail.last()))
    }

    /// Grows a tree below the root that `pass_table` has, behind as many committed rows, and writes it there and into
    /// `tree`.
    ///
    /// # Shapes
    /// `guessed [1, 1, d]`, the state guessed at the root.
    ///
    /// # Errors
    /// When the layer is on the CPU.
    pub fn draft(
        &mut self,
        mut guessed: Tensor<3>,
        tree: &TreeTable,
        pass_table: &PassTable,
    ) -> Result<(), ModelError> {
        let depth = self.growth().depth;
        for level in 0..=depth {
            dynamic_tree::expand(&self.growing, level, &self.model.logits_on_device(&guessed), self.tokens.as_ref());
            if level < depth {
                dynamic_tree::descend(&self.growing, level, pass_table);
                let states = guessed.select(1, self.growing.slots());
                let pass = self.growing.pass(level).with_slots(pass_table.slots());
                guessed = self.model.forward_on_device(&pass, states, &mut self.cache)?;
            }
        }
        dynamic_tree::finish(&self.growing, tree, pass_table);
        Ok(())
    }
}

/// The rows of an accepted path, and behind them those of all levels that are expanded.
fn rows(growth: Growth) -> usize {
    growth.longest() + growth.depth * growth.top_k
}
