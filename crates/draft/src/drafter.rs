//! The seam between the decode loop and what proposes tokens.

use crate::coupled::CoupledTree;
use crate::trace::Trace;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{DraftRows, DraftSource, RandomSource, Rows, SamplingScheme, TargetRows};
use gorgon_core::tree::{BuildError, DraftTree, NodeInput, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::Target;
use smallvec::SmallVec;
use std::sync::Arc;

/// Why a drafter failed.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tree.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The target does not hand out the hidden states that the drafter needs.
    #[error("the drafter reads hidden states of {wanted} layers, the target hands out {found}")]
    Hooks {
        /// Hooks that the drafter needs.
        wanted: usize,
        /// Hooks that there are.
        found: usize,
    },
    /// A tree whose probes read embeddings that the proposal does not bring.
    #[error("a probe of the tree reads embedding {embedding}, and the proposal has no table of embeddings")]
    NoProbeTable {
        /// The embedding.
        embedding: usize,
    },
    /// A tree that the drafter cannot draft.
    #[error("{0}")]
    Tree(String),
    /// A drafter that runs layers of the target where the target cannot be lent.
    #[error("{drafter} runs layers of the target itself, which {place} cannot do yet: use one sequence at a time")]
    NotLent {
        /// The drafter.
        drafter: String,
        /// Where it was used.
        place: &'static str,
    },
}

/// Output of the target that a drafter reads at the rows of a verified tree, beside the hidden states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feedback {
    /// Nothing.
    #[default]
    None,
    /// The token with the greatest logit at every row.
    Argmax,
    /// All logits of every row.
    Logits,
}

/// Requirements of a drafter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Hidden states of named layers, which every pass of the target hands out.
    pub hooks: Hooks,
    /// Output of the target that is read at verified rows.
    pub feedback: Feedback,
    /// Whether it runs passes of the target's own layers ([`DraftContext::target`]).
    pub lends_target: bool,
}

/// A pass of the target of which tokens were committed: a chunk of a prompt, or the accepted path of a tree.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedPass<'a> {
    /// The committed tokens, in order.
    pub tokens: &'a [Token],
    /// The pass that computed them.
    pub output: &'a PassOutput,
    /// The row of each committed token in that pass.
    pub rows: &'a [usize],
    /// The tree that was verified; `None` for a chunk of a prompt.
    pub verified: Option<VerifiedTree<'a>>,
    /// Whether the tokens are the source of an encoder-decoder model, all of it. The text begins with them then.
    pub is_source: bool,
}

/// A verified tree. Rejected nodes count among its nodes: a drafter may learn from them, but keeps none of them as
/// committed text.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedTree<'a> {
    /// The tree.
    pub tree: &'a TokenTree,
    /// The committed nodes, the root first. Shorter than the accepted path where the text ended within it.
    pub path: &'a [usize],
    /// The token that follows the committed path: the next root.
    pub next: Token,
    /// The target's output at every node, as far as the drafter asks for it ([`Feedback`]).
    pub target: Option<TargetRows<'a>>,
}

impl VerifiedTree<'_> {
    /// The token with the greatest logit at a node, if it is known.
    pub fn argmax(&self, node: usize) -> Option<Token> {
        self.target?.argmax(node).ok()
    }
}

impl<'a> VerifiedPass<'a> {
    /// A chunk of a prompt.
    pub fn prompt(tokens: &'a [Token], output: &'a PassOutput, rows: &'a [usize]) -> Self {
        Self { tokens, output, rows, verified: None, is_source: false }
    }

    /// The source of an encoder-decoder model.
    pub fn source(tokens: &'a [Token], output: &'a PassOutput, rows: &'a [usize]) -> Self {
        Self { is_source: true, ..Self::prompt(tokens, output, rows) }
    }

    /// The state after the final norm at the last committed token.
    pub fn last_hidden(&self) -> Option<HiddenStates> {
        self.rows.last().map(|&row| self.output.hidden.narrow(row, 1))
    }
}

/// Inputs of a draft.
pub struct DraftContext<'a> {
    /// Grows a tree from the drafter's candidates. A drafter that makes a tree of its own keeps within its nodes and
    /// depth.
    pub tree: CoupledTree<'a>,
    /// Where drawn children come from.
    pub random: &'a mut dyn RandomSource,
    /// The target, for drafters that run some of its layers ([`Needs::lends_target`]).
    pub target: Option<&'a mut (dyn Target + 'a)>,
}

/// A drafted tree with what an acceptance rule has to know of its making.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The tree.
    pub draft: DraftTree,
    /// Where its children come from, by the number that the tree's entries have; a tree without entries has one source.
    pub sources: SmallVec<[Source; 1]>,
    /// How far a lent target has read the tree's nodes, if verification can go on from there.
    pub resume: Option<Resume>,
    /// Embeddings `[embeddings, d]` that the tree's probes read ([`NodeInput::Embedding`]), where the target is.
    /// Shared, so that no step copies them.
    pub probes: Option<Arc<HiddenStates>>,
    /// Tokens of the match that the drafts followed; 0 of drafters that go by no match.
    pub matched: usize,
}

/// A source of drafts.
#[derive(Clone, Debug)]
pub struct Source {
    /// The source's distribution at each node, as logits `[nodes · V]`; `None` if it has none.
    pub rows: Option<PooledVec<f32>>,
    /// How children were taken from it.
    pub scheme: SamplingScheme,
}

impl Source {
    fn view(&self, nodes: usize) -> DraftSource<'_> {
        let rows = self.rows.as_deref().map(|data| Rows::Logits { data, vocab: data.len() / nodes });
        DraftSource { rows, scheme: self.scheme }
    }
}

/// Hidden states that verification resumes from: the target's first layers have read every node of the tree, and their
/// keys and values are uncommitted rows of its cache, in the order of the nodes.
#[derive(Clone, Debug)]
pub struct Resume {
    /// The residual stream `[nodes, d]` in front of `layer`.
    pub stream: HiddenStates,
    /// The first layer that has not run.
    pub layer: usize,
}

/// Inputs of a tree's nodes, some of which are embeddings.
#[derive(Debug)]
pub struct ProbeRows<'a> {
    /// One per node.
    pub rows: PooledVec<NodeInput>,
    /// `[embeddings, d]`.
    pub table: &'a HiddenStates,
}

impl Proposal {
    /// A lone root.
    pub fn root(token: Token) -> Self {
        Self::list(DraftTree::root(token))
    }

    /// A tree whose children are a list: most likely tokens, or tokens that come with no distribution. Rules accept
    /// them as they accept any given tokens.
    pub fn list(draft: DraftTree) -> Self {
        Self::drawn(draft, None, SamplingScheme::Deterministic)
    }

    /// A tree whose children were all taken from one source.
    pub fn drawn(draft: DraftTree, rows: Option<PooledVec<f32>>, scheme: SamplingScheme) -> Self {
        Self { draft, sources: SmallVec::from_buf([Source { rows, scheme }]), resume: None, probes: None, matched: 0 }
    }

    /// The inputs of the tree's nodes where some of them are embeddings; `None` where all are tokens.
    ///
    /// # Errors
    /// When a probe reads an embedding, and there is no table of them.
    pub fn probe_rows(&self) -> Result<Option<ProbeRows<'_>>, DraftError> {
        let tree = self.draft.tree();
        let Some(embedding) = tree.first_embedding() else { return Ok(None) };
        let table = self.probes.as_deref().ok_or(DraftError::NoProbeTable { embedding })?;
        Ok(Some(ProbeRows { rows: (0..tree.len()).map(|node| tree.input(node)).collect(), table }))
    }

    /// Hands out what an acceptance rule has to know of the drafts.
    pub fn with_draft_rows<R>(&self, work: impl FnOnce(DraftRows<'_>) -> R) -> R {
        let nodes = self.draft.tree().len();
        let sources: SmallVec<[DraftSource<'_>; 1]> = self.sources.iter().map(|source| source.view(nodes)).collect();
        work(DraftRows::new(&sources, self.draft.entries()))
    }
}

/// Proposes token trees.
pub trait Drafter: Send {
    /// Its name, as on the command line.
    fn name(&self) -> &str;

    /// Requirements on the target's passes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Output of the target that it reads at the rows of the tree that it drafted last: at most what it needs.
    fn reads(&self, needed: Feedback) -> Feedback {
        needed
    }

    /// Forgets the sequence.
    fn reset(&mut self);

    /// Forgets committed tokens from `length` on, where there are more than that. False if it cannot: it is reset then,
    /// and reads the text again.
    fn truncate(&mut self, _length: usize) -> bool {
        false
    }

    /// Tokens were committed: a chunk of the prompt, or a step's root and accepted drafts.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError>;

    /// Drafts a tree on `root`, the last emitted token, which is not committed yet.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError>;

    /// An answer ended, by itself or at its length. Stores that outlive a text take it up.
    fn finished(&mut self, _answer: &[Token]) {}

    /// Drafts without a target of its own and with chance of seed 0: for measuring a drafter alone.
    ///
    /// # Errors
    /// As of [`draft`](Self::draft).
    fn propose(&mut self, root: Token, tree: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        self.draft(
            root,
            &mut DraftContext { tree: CoupledTree::plain(tree), random: &mut SeededRandom::new(0), target: None },
        )
    }

    /// States and logits of the drafter's network after `root` and after each of the given `drafts`; no tree is built
    /// and nothing is kept. `None` of a drafter that has no heads, or before the first committed token.
    ///
    /// # Errors
    /// When the drafter's own model fails.
    fn trace(&mut self, _root: Token, _drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        Ok(None)
    }
}

/// Plain decoding: drafts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDrafter;

impl Drafter for NoDrafter {
    fn name(&self) -> &str {
        "none"
    }

    fn reset(&mut self) {}

    fn truncate(&mut self, _: usize) -> bool {
        true
    }

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        Ok(Proposal::root(root))
    }
}

/// A drafter behind a pointer is a drafter.
macro_rules! behind_pointer {
    ($pointer:ty) => {
        impl<D: Drafter + ?Sized> Drafter for $pointer {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn needs(&self) -> Needs {
                (**self).needs()
            }

            fn reads(&self, needed: Feedback) -> Feedback {
                (**self).reads(needed)
            }

            fn reset(&mut self) {
                (**self).reset();
            }

            fn truncate(&mut self, length: usize) -> bool {
                (**self).truncate(length)
            }

            fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
                (**self).observe(pass)
            }

            fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
                (**self).draft(root, context)
            }

            fn finished(&mut self, answer: &[Token]) {
                (**self).finished(answer);
            }

            fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
                (**self).trace(root, drafts)
            }
        }
    };
}

behind_pointer!(&mut D);
behind_pointer!(Box<D>);
