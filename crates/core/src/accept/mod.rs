//! Acceptance rules: given a verified tree, pick a path and a bonus token.
//!
//! | rule | file | lossless |
//! |---|---|---|
//! | [`Greedy`] | `greedy.rs` | yes, for the target's greedy text |
//! | [`Sampling`]: speculative sampling, and its multi-round form on trees | `sampling.rs` | yes |
//! | [`KSeq`]: SpecTr's k-SEQ | `k_seq.rs` | yes |
//! | [`Nucleus`]: sample and match | `nucleus.rs` | yes |
//! | [`Typical`]: Medusa's typical acceptance | `typical.rs` | no |
//! | [`Lossy`], [`LossyGreedy`]: speculative sampling with slack | `lossy.rs` | no |
//! | [`Cascade`]: speculative cascades | `cascade.rs` | no |
//! | [`Bild`]: the rollback of Big Little Decoder | `bild.rs` | no |
//! | [`TopBeta`]: SpecDec's relaxed verification | `top_beta.rs` | no |
//!
//! [`RuleChoice`] names them as configurations do. What several rules share is in `walk.rs` (how a tree is walked) and
//! `rounds.rs` (how one node's children are tried in turn).

mod bild;
mod cascade;
mod choice;
mod greedy;
mod k_seq;
mod lossy;
mod nucleus;
pub mod random;
mod rounds;
mod sampling;
mod top_beta;
mod typical;
mod walk;

pub use bild::Bild;
pub use cascade::{Cascade, Deferral};
pub use choice::{ChoiceError, RuleChoice};
pub use greedy::Greedy;
pub use k_seq::{KSeq, smallest_rho};
pub use lossy::{Beta, Lossy, LossyGreedy, balanced_beta, lossy_law};
pub use nucleus::Nucleus;
pub use sampling::Sampling;
pub use top_beta::TopBeta;
pub use typical::{Typical, TypicalCut};
pub use walk::longest;

use crate::{PooledVec, Token, dist::Row, tree::TokenTree};

/// All chance in the project. A rule asks questions; an implementation answers from a seed, from given uniforms, or, in
/// tests, with every possible answer in turn.
pub trait RandomSource: Send {
    /// True with probability `probability` (clamped to `[0, 1]`; exactly 0 is never true, exactly 1 always).
    fn flip(&mut self, probability: f64) -> bool;
    /// An index drawn with probability proportional to `weights` (non-negative, with a positive sum).
    fn pick(&mut self, weights: &[f64]) -> usize;
}

impl<R: RandomSource + ?Sized> RandomSource for &mut R {
    fn flip(&mut self, probability: f64) -> bool {
        (**self).flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        (**self).pick(weights)
    }
}

/// What a rule decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Nodes from the root (included) to the last accepted one.
    pub path: PooledVec<usize>,
    /// The token emitted after the path.
    pub bonus: Token,
}

/// How the children of a node were chosen from the drafter's distribution at that node.
///
/// A lossless rule is lossless only if this is the truth: a drafter that chooses among its draws afterwards (say, keeps
/// the likeliest ones) holds a [`SamplingScheme::Deterministic`] list, which is always safe to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingScheme {
    /// Independent draws (siblings may repeat a token).
    Independent,
    /// Draws without replacement, in the order of the children.
    WithoutReplacement,
    /// A deterministic list (the drafter's top k, or tokens that come with no distribution at all).
    Deterministic,
}

/// One distribution per tree node, over the vocabulary.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// Raw scores `[nodes, vocab]`; a softmax makes them probabilities.
    Logits {
        /// Row-major scores.
        data: &'a [f32],
        /// Row length.
        vocab: usize,
    },
    /// Probabilities `[nodes, vocab]`.
    Probabilities {
        /// Row-major probabilities.
        data: &'a [f64],
        /// Row length.
        vocab: usize,
    },
}

impl<'a> Rows<'a> {
    /// The row of `node`; `None` if the data end before it.
    ///
    /// # Shapes
    /// `[vocab]`.
    pub fn row(&self, node: usize) -> Option<Row<'a>> {
        let span = |vocab: usize| Some(node.checked_mul(vocab)?..node.checked_add(1)?.checked_mul(vocab)?);
        match *self {
            Self::Logits { data, vocab } => data.get(span(vocab)?).map(Row::Logits),
            Self::Probabilities { data, vocab } => data.get(span(vocab)?).map(Row::Probabilities),
        }
    }

    /// The target's row of `node`, which a verified tree always has.
    ///
    /// # Panics
    /// If the data end before it: the target then verified another tree.
    fn verified(&self, node: usize) -> Row<'a> {
        self.row(node).unwrap_or_else(|| panic!("the target's rows end before node {node} of the verified tree"))
    }
}

/// What the drafter knows about its own tree.
///
/// Rows are the drafter's own law before any [`Transform`](crate::dist::Transform); the rule applies the transform, and
/// the drafter must have drawn from the transformed law. Rows are untrusted: one that is missing or not
/// [sound](Row::is_sound) is not used, and the node's children count as a deterministic list, which keeps a lossless
/// rule lossless whatever the tokens are. Rows of nodes without children are never read.
#[derive(Clone, Copy, Debug)]
pub struct DraftRows<'a> {
    /// The drafter's distribution *at* each node (the law its children were taken from); `None` if it has none.
    pub rows: Option<Rows<'a>>,
    /// How the children were taken.
    pub law: SamplingScheme,
}

impl<'a> DraftRows<'a> {
    /// A drafter without distributions: every node's children are a list.
    pub const NONE: DraftRows<'static> = DraftRows { rows: None, law: SamplingScheme::Deterministic };

    /// The row of `node`, if there is one and it is sound.
    fn sound(&self, node: usize) -> Option<Row<'a>> {
        self.rows.and_then(|rows| rows.row(node)).filter(Row::is_sound)
    }
}

/// A rule that turns a verified tree into emitted tokens.
pub trait AcceptanceRule: Send + Sync {
    /// Whether the emitted text has exactly the target's law (for greedy: is the target's greedy text).
    fn is_lossless(&self) -> bool;
    /// Picks a root-to-node path and a bonus token. Only the rows of nodes that the rule visits are read.
    ///
    /// # Shapes
    /// `target` has one row per node of `tree`: the target's scores after that node's token. `draft`, where it has
    /// rows, has one per node as well.
    ///
    /// # Panics
    /// If `target` has no row for a visited node. Whatever `draft` holds causes no panic.
    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: Rows<'_>,
        random: &mut dyn RandomSource,
    ) -> Verdict;

    /// The rule if it is [`Greedy`], which asks for nothing but each node's likeliest token. Where those are known
    /// without all logits [`Greedy::accept_argmax`] is called instead of [`Self::accept`] and [`Self::next`]; a rule
    /// that has to see every step says `None`.
    fn as_greedy(&self) -> Option<&Greedy> {
        None
    }

    /// The token after `last` when nothing was drafted: what [`Self::accept`] says of a lone root with the target's
    /// `row`.
    fn next(&self, last: Token, row: Row<'_>, random: &mut dyn RandomSource) -> Token {
        let rows = match row {
            Row::Logits(data) => Rows::Logits { data, vocab: data.len() },
            Row::Probabilities(data) => Rows::Probabilities { data, vocab: data.len() },
        };
        self.accept(&TokenTree::root(last), DraftRows::NONE, rows, random).bonus
    }
}
