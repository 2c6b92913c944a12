//! Drafting by the noise with which the target will pick its tokens.

use gorgon_core::accept::{AcceptanceRule, NoiseAhead, RandomSource};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{
    BuildError, Candidate, CandidateRows, CandidateSource, DraftTree, SourceError, TokenTree, TreeBuilder, TreeKind,
};
use gorgon_core::{PooledVec, Token};

/// Candidates that are asked for at least: noise lifts unlikely tokens too.
const CANDIDATES: usize = 64;
/// Sharpness `β` of drafted rows. At 1 a row that is the target's own would always be right. Drafters are less sure than
/// they should be of their best tokens where the noise is high: 2 accepts most (`benchmarks/README.md`).
pub const SHARPNESS: f64 = 2.0;
/// Probabilities that sum to more than this are those of no distribution.
const MOST_MASS: f64 = 1.001;

/// The noise of the tokens that come next, and the temperature at which the target picks by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    noise: NoiseAhead,
    temperature: f64,
}

impl Coupling {
    /// The coupling of a rule with a random source; `None` where the rule makes random choices of its own, or the source
    /// has no noise.
    pub fn of(rule: &dyn AcceptanceRule, random: &dyn RandomSource) -> Option<Self> {
        let transform = rule.coupling().filter(|transform| !transform.is_greedy())?;
        Some(Self { noise: random.noise()?, temperature: transform.temperature() })
    }

    /// The transform by which a model that samples by this noise emits what [`Self::ranked`] would put first of its
    /// rows: its top candidates at the temperature `T/β`.
    pub fn of_drafts(&self) -> Option<Transform> {
        Transform::new(self.temperature / SHARPNESS, Some(CANDIDATES), None).ok()
    }

    /// A row of candidates after a node of a depth, best first under the noise: by `s(x) = β·ln q(x)/T - ln E(x)`, since
    /// the target picks the greatest `ln p(x)/T - ln E(x)`.
    ///
    /// Their probabilities become `softmax(s)`, where all other tokens together have the score
    /// `ln(1 - Σ q) + (β/T - 1)·ln q_least - ln ln 2`: the median of their greatest, were each as likely as the least
    /// candidate. A row that is no distribution stays as it is.
    fn ranked(&self, depth: usize, row: &[Candidate]) -> PooledVec<Candidate> {
        let mut ranked = PooledVec::from(row);
        let mass: f64 = row.iter().map(|candidate| candidate.probability).sum();
        let least = row.iter().map(|candidate| candidate.probability).filter(|&p| p > 0.0).fold(1.0, f64::min);
        if mass.is_nan() || mass > MOST_MASS {
            return ranked;
        }
        let sharpness = SHARPNESS / self.temperature;
        for candidate in ranked.iter_mut() {
            let exponential = self.noise.exponential(depth, candidate.token);
            candidate.probability = sharpness * candidate.probability.ln() - exponential.ln();
        }
        let score = |candidate: &Candidate| candidate.probability;
        ranked.sort_unstable_by(|a, b| score(b).total_cmp(&score(a)).then(a.token.cmp(&b.token)));
        let others = (1.0 - mass).max(0.0).ln() + (sharpness - 1.0) * least.ln() - std::f64::consts::LN_2.ln();
        let greatest = ranked.iter().map(score).fold(others, f64::max);
        if greatest == f64::NEG_INFINITY {
            return row.into();
        }
        let weight = |score: f64| (score - greatest).exp();
        let sum = ranked.iter().map(|candidate| weight(score(candidate))).sum::<f64>() + weight(others);
        ranked.iter_mut().for_each(|candidate| candidate.probability = weight(candidate.probability) / sum);
        ranked
    }
}

/// A tree that, under a coupling, is grown from candidates in the order in which the noise prefers them. Lossless, since
/// a coupled rule never reads how a draft was made.
#[derive(Clone, Copy)]
pub struct CoupledTree<'a> {
    /// Grows the tree.
    pub tree: &'a dyn TreeBuilder,
    /// The coupling, if there is one.
    pub coupling: Option<Coupling>,
}

impl<'a> CoupledTree<'a> {
    /// A tree of candidates as a drafter names them.
    pub fn plain(tree: &'a dyn TreeBuilder) -> Self {
        Self { tree, coupling: None }
    }
}

impl TreeBuilder for CoupledTree<'_> {
    fn max_nodes(&self) -> usize {
        self.tree.max_nodes()
    }

    fn max_depth(&self) -> usize {
        self.tree.max_depth()
    }

    fn takes_in_order(&self) -> bool {
        self.tree.takes_in_order()
    }

    fn ranks_at(&self, depth: usize) -> Option<usize> {
        // The noise is added to probabilities.
        if self.coupling.is_some() { None } else { self.tree.ranks_at(depth) }
    }

    fn kind(&self) -> TreeKind {
        self.tree.kind()
    }

    fn is_budget(&self) -> bool {
        self.tree.is_budget()
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        match self.coupling {
            Some(coupling) => self.tree.build(root, &mut CoupledSource { source, coupling }),
            None => self.tree.build(root, source),
        }
    }
}

/// Another source, whose rows are ordered by the noise.
struct CoupledSource<'a> {
    source: &'a mut dyn CandidateSource,
    coupling: Coupling,
}

impl CandidateSource for CoupledSource<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let wide = |&width: &usize| if width == 0 { 0 } else { width.max(CANDIDATES) };
        let asked: PooledVec<usize> = widths.iter().map(wide).collect();
        let rows = self.source.expand(tree, nodes, &asked)?;
        let mut ranked = CandidateRows::default();
        for ((row, &node), &width) in rows.iter().zip(nodes).zip(widths) {
            ranked.push(self.coupling.ranked(tree.depths()[node], row).iter().take(width).copied());
        }
        Ok(ranked)
    }
}

#[cfg(test)]
mod tests;
