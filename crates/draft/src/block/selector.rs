//! The candidate selector (DFlash 2): pairwise scores of neighbouring tokens.
//!
//! Of each slot `t` the `K` tokens of the greatest logits `U_t` are candidates. A candidate `b` after `a` has the score
//! `S_t(a, b) = U_t(b) + ⟨A[a] ∘ (P h_t), B[b]⟩` with `h_t` what the LM head reads. `B` starts as zeros, so that scores
//! start as logits. In drafting, `p_t(b | a) = κ_t · softmax_K(S_t(a, ·))(b)` with `κ_t` the candidates' share of the
//! slot's distribution.

use crate::folder::HeadsError;
use crate::parameter::{Init, ParameterSpec};
use crate::settings::SettingsCheck;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, SourceError, TokenTree};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::{TopRows, top_rows};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::linear::{Linear, Loader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A selector of candidates by their predecessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelectorConfig {
    /// Candidates of each slot, 2 to 64.
    pub k: usize,
    /// Width of the tables of tokens, 1 to 4096.
    pub rank: usize,
}

impl Default for SelectorConfig {
    /// DFlash 2's.
    fn default() -> Self {
        Self { k: 16, rank: 256 }
    }
}

/// Standard deviation of the predecessors' table at the start.
const DEVIATION: f64 = 0.02;
/// Names of the tables of predecessors and successors, and of the projection without `.weight`.
const NAMES: [&str; 3] = [
    "candidate_selector.predecessor_codebook",
    "candidate_selector.successor_codebook",
    "candidate_selector.hidden_projection",
];

impl SelectorConfig {
    pub(super) fn check(&self) -> SettingsCheck {
        let mut check = SettingsCheck::table("block.selector");
        check.within("k", self.k as u64, 2..=64);
        check.within("rank", self.rank as u64, 1..=4096);
        check
    }

    /// `A`, `B` and `P`.
    pub(super) fn parameters(&self, hidden_size: usize, vocab_size: usize) -> [ParameterSpec; 3] {
        let [predecessor, successor, projection] = NAMES;
        let shape = vec![vocab_size, self.rank];
        [
            ParameterSpec { name: predecessor.into(), shape: shape.clone(), init: Init::Normal(DEVIATION) },
            ParameterSpec::zeros(successor, &shape),
            ParameterSpec::matrix(format!("{projection}.weight"), self.rank, hidden_size),
        ]
    }
}

/// A selector that was loaded for decoding.
#[derive(Debug)]
pub struct Selector {
    config: SelectorConfig,
    /// `[V, rank]`.
    predecessor: Vec<f32>,
    /// `[V, rank]`.
    successor: Vec<f32>,
    /// `[rank, d]`.
    projection: Linear,
}

impl Selector {
    /// Loads a selector of these sizes.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read.
    pub(super) fn load(loader: &Loader<'_>, config: SelectorConfig) -> Result<Self, HeadsError> {
        let table = |name: &str| loader.checkpoint.read_all(name);
        Ok(Self {
            config,
            predecessor: table(NAMES[0])?,
            successor: table(NAMES[1])?,
            projection: loader.linear(&[NAMES[2].to_owned()], false)?,
        })
    }

    /// Candidates of slots with these states and logits.
    ///
    /// # Shapes
    /// `states [slots, d]`, `logits [slots, vocab]`.
    pub(super) fn candidates(&self, states: &HiddenStates, logits: &[f32], vocab: usize) -> PairwiseByDepth<'_> {
        let widths: SmallVec<[usize; 16]> = (0..states.rows()).map(|_| self.config.k).collect();
        let top = top_rows(logits, vocab, &widths);
        PairwiseByDepth { selector: self, projected: self.projection.forward(states).into_values(), top }
    }

    /// `⟨A[a] ∘ (P h), B[b]⟩`.
    fn edge(&self, predecessor: Token, projected: &[f32], successor: Token) -> f32 {
        let row = |table: &'_ [f32], token: Token| token as usize * self.config.rank..table.len();
        let a = &self.predecessor[row(&self.predecessor, predecessor)];
        let b = &self.successor[row(&self.successor, successor)];
        a.iter().zip(projected).zip(b).map(|((a, h), b)| a * h * b).sum()
    }
}

/// The candidates of each depth, with probabilities that depend on the token before them.
pub(super) struct PairwiseByDepth<'a> {
    selector: &'a Selector,
    /// `P h`, `[depths, rank]`.
    projected: PooledVec<f32>,
    /// Candidates of each depth with their shares of the slot's distribution.
    top: TopRows,
}

impl PairwiseByDepth<'_> {
    /// The `width` best candidates of a depth after a token.
    fn row(&self, depth: usize, predecessor: Token, width: usize) -> PooledVec<Candidate> {
        if depth >= self.top.len() {
            return PooledVec::new();
        }
        let (rank, top) = (self.selector.config.rank, self.top.row(depth));
        let projected = &self.projected[depth * rank..(depth + 1) * rank];
        // Shares are the exponentials of logits, up to a factor that all of a slot have.
        let score = |&(token, share): &(u32, f32)| {
            let edge = self.selector.edge(predecessor, projected, token);
            Candidate { token, probability: f64::from(share).ln() + f64::from(edge) }
        };
        let mut row: PooledVec<Candidate> = top.iter().map(score).collect();
        let most = row.iter().map(|candidate| candidate.probability).fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut().for_each(|candidate| candidate.probability = (candidate.probability - most).exp());
        let total: f64 = row.iter().map(|candidate| candidate.probability).sum();
        let share: f64 = top.iter().map(|&(_, share)| f64::from(share)).sum();
        row.iter_mut().for_each(|candidate| candidate.probability *= share / total);
        row.sort_unstable_by(|a, b| b.probability.total_cmp(&a.probability).then(a.token.cmp(&b.token)));
        row.iter().take(width).copied().collect()
    }
}

impl CandidateSource for PairwiseByDepth<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let mut rows = CandidateRows::default();
        for (&node, &width) in nodes.iter().zip(widths) {
            rows.push(self.row(tree.depths()[node], tree.token(node), width).iter().copied());
        }
        Ok(rows)
    }
}
