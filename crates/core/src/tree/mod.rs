//! Token trees: the nodes of one verification pass, and how they are grown.
//!
//! A [`TokenTree`] holds tokens. A [`TreeShape`] holds only ranks ("the second guess after the top-1 guess") and
//! becomes a token tree once a [`CandidateSource`] names the tokens. A [`TreeBuilder`] decides which nodes exist:
//!
//! * [`ChainTree`]: one path;
//! * [`FixedTree`]: a shape known beforehand, be it [published](PublishedTree), [calibrated] on measured accuracies or
//!   the optimum of [Sequoia's dynamic program](sequoia);
//! * [`DynamicTree`]: expands where the drafter is confident and keeps the most probable nodes (EAGLE-2);
//! * [`TrellisTree`]: the most probable nodes of all, of corrected probabilities ([`RowCalibration`]);
//! * [`OwnTree`]: a budget only, for drafters that make their [`DraftTree`] themselves.
//!
//! A [`Trie`] merges whole token sequences into a tree, and is a [`CandidateSource`] for the other builders.

mod builder;
pub mod calibrated;
mod candidates;
mod chain;
mod choice;
mod draft_tree;
mod dynamic;
mod entry;
mod fixed;
mod growth;
mod kind;
mod limits;
mod ngram_counts;
mod ngram_hash;
mod ngram_table;
mod own;
mod published;
mod row_calibration;
pub mod sequoia;
mod shape;
mod token_tree;
mod trellis;
mod trie;
mod value;

pub use builder::{BuildError, CandidateSource, SourceError, TreeBuilder};
pub use candidates::{Candidate, CandidateRows};
pub use chain::{ChainError, ChainTree};
pub use choice::{ChoiceError, TreeChoice};
pub use draft_tree::DraftTree;
pub use dynamic::{DynamicError, DynamicTree};
pub use entry::Entry;
pub use fixed::FixedTree;
pub use kind::TreeKind;
pub use limits::{MAX_DEPTH, MAX_NODES, MAX_RANK};
pub use ngram_counts::{Following, NgramCounts};
pub use ngram_table::{NgramEntries, NgramTable};
pub use own::{OwnError, OwnTree};
pub use published::{PublishedTree, UnknownTree};
pub use row_calibration::{DepthCalibration, RowCalibration};
pub use shape::{RankPath, ShapeError, TreeShape};
pub use token_tree::{NodeInput, NodeKind, TokenTree, TreeError};
pub use trellis::{TrellisError, TrellisTree};
pub use trie::Trie;
