//! SWIFT (Xia et al., 2024, <https://arxiv.org/abs/2410.06916>): Draft & Verify ([`crate::skip`]) whose set of sub-layers
//! to leave out is searched while answers are decoded.
//!
//! The first and the last layer are kept. Of the `2 (L - 2)` other sub-layers, `n = ⌊2 ρ (L - 2)⌋` are left out at all
//! times. Once 33 tokens of an answer are out, every step tries one other set ([`Search`]) on the answer's first tokens,
//! until the search has ended. The set and the state of the search survive answers; scores of different answers are not
//! compared. Which sets are tried depends on the seed and on the text alone, and no set changes the text. A file keeps the
//! search for later processes ([`StateFile`]).
//!
//! Drafts are a path of most likely tokens with siblings at each place: 3, 5, 8 or 10 tokens where the first is more
//! likely than 0.95, 0.8, 0.5, or less; 1, 3, 5 or 10 at temperatures above 0. The path ends after a token less likely
//! than 0.8. All are a list.

mod gaussian;
mod search;
mod spine;
mod stored;

pub use search::Search;
pub use stored::{StateFile, Stored};

use crate::draft_model::DraftSampling;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::levels::Levels;
use crate::method::TrainingFreeMethod;
use crate::own_layers::ReducedLayers;
use gorgon_core::Token;
use gorgon_core::tree::{OwnTree, TreeBuilder, TreeChoice};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use gorgon_model::target::Target;
use search::Answer;
use spine::Spine;
use std::path::Path;
use stored::left_out;

/// Percent of the sub-layers that are left out unless another share is named: the paper's.
const SHARE: u8 = 45;
/// Nodes and depth of the tree unless another one is named.
const TREE: (usize, usize) = (64, 25);

/// SWIFT: `swift`, `swift:PERCENT`, and after a comma `seed=N` and `state=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swift {
    /// `ρ` in percent.
    pub share: u8,
    /// Seed of the search.
    pub seed: u64,
    /// Where the search is kept, if it is.
    pub state: Option<Box<StateFile>>,
}

impl TrainingFreeMethod for Swift {
    const SYNTAX: &'static str = "swift:PERCENT[,seed=N][,state=FILE]";

    fn parse(arguments: &str) -> Result<Self, String> {
        let wrong = || {
            format!("swift:{arguments}: expected a share of 1 to 100 percent, and after commas seed=N and state=FILE")
        };
        // A file's name may have commas, so it comes last.
        let (arguments, file) = match arguments.split_once("state=") {
            Some((before, file)) if before.is_empty() || before.ends_with(',') => {
                (before.strip_suffix(',').unwrap_or(before), Some(file))
            }
            _ => (arguments, None),
        };
        let state = match file {
            Some("") => return Err(wrong()),
            file => file.map(|file| StateFile::open(Path::new(file)).map(Box::new)).transpose()?,
        };
        let mut parsed = Self { share: SHARE, seed: 0, state };
        for part in arguments.split(',').map(str::trim).filter(|_| !arguments.is_empty()) {
            match part.strip_prefix("seed=") {
                Some(seed) => parsed.seed = seed.parse().map_err(|_| wrong())?,
                None => parsed.share = part.parse().ok().filter(|share| (1..=100).contains(share)).ok_or_else(wrong)?,
            }
        }
        Ok(parsed)
    }

    fn name(&self) -> String {
        let seed = if self.seed == 0 { String::new() } else { format!(",seed={}", self.seed) };
        let state = self.state.as_ref().map(|state| format!(",state={}", state.path.display()));
        format!("swift:{}{seed}{}", self.share, state.unwrap_or_default())
    }

    fn default_tree(&self) -> TreeChoice {
        OwnTree::new(TREE.0, TREE.1).map_or(TreeChoice::None, TreeChoice::Own)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        if let Some(StateFile { path, stored: Some(stored), .. }) = self.state.as_deref() {
            let checked = stored.check(model.layers, model.vocab_size, self.share);
            checked.map_err(|reason| format!("swift: {}: {reason}", path.display()))?;
        }
        match left_out(model.layers, self.share) {
            0 => Err(format!(
                "{}: of a model with {} layers no sub-layer would be left out: the first and the last layer are kept",
                self.name(),
                model.layers
            )),
            _ => Ok(()),
        }
    }

    fn is_of_weights(&self) -> bool {
        self.state.is_some()
    }

    fn bind(&mut self, weights: &str) -> Result<(), String> {
        self.state.as_mut().map_or(Ok(()), |state| state.bind(weights))
    }

    /// The copy that the search reads answers with.
    fn bytes(&self, model: &ModelConfig, compute: &Compute, tokens: usize) -> u128 {
        KvCache::bytes(model, compute, tokens)
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(SwiftDrafter::new(self.clone()))
    }

    fn drafter_for(&self, sampling: DraftSampling) -> Box<dyn Drafter> {
        let mut drafter = SwiftDrafter::new(self.clone());
        drafter.draws = sampling.draws();
        Box::new(drafter)
    }
}

/// Drafts with the target's own layers, and searches those to leave out.
pub struct SwiftDrafter {
    name: String,
    method: Swift,
    /// True if its drafts serve a rule that draws at random. Under a coupling the text is sampled too.
    draws: bool,
    /// For the target that was lent first.
    search: Option<Search>,
    /// Its state in the file, and the target's vocabulary.
    stored: Option<Stored>,
    vocab_size: usize,
    /// Committed tokens.
    committed: usize,
    /// Those in front of the answer.
    prompt: usize,
    /// The answer's committed tokens, as far as the search reads them.
    answer: Vec<Token>,
    /// A copy of the target with the prompt alone, while the search reads the answer.
    before: Option<Box<dyn Target>>,
}

impl SwiftDrafter {
    /// A drafter whose search has not begun.
    pub fn new(method: Swift) -> Self {
        let (name, stored) = (method.name(), method.state.as_ref().and_then(|state| state.stored.clone()));
        let (search, answer, before) = (None, vec![], None);
        Self { name, method, draws: false, search, stored, vocab_size: 0, committed: 0, prompt: 0, answer, before }
    }

    /// The search, once a target was lent.
    pub fn search(&self) -> Option<&Search> {
        self.search.as_ref()
    }

    /// Another answer begins after the committed tokens.
    fn begin(&mut self) {
        self.prompt = self.committed;
        self.answer.clear();
        self.store();
        if self.before.take().is_some()
            && let Some(search) = &mut self.search
        {
            search.leave_answer();
        }
    }

    /// Stores the search, if it went on since it was stored.
    fn store(&mut self) {
        let (Some(file), Some(search)) = (&self.method.state, &self.search) else { return };
        let searched = search.stored(self.vocab_size, self.method.share);
        let now = Stored { weights_sha256: file.weights(), ..searched };
        if self.stored.as_ref() != Some(&now) {
            file.write(&now);
            self.stored = Some(now);
        }
    }

    /// A search for a target: the stored one, if it is of such a target.
    fn search_for(&self, target: &dyn Target) -> Search {
        let (layers, share, seed) = (target.layers(), self.method.share, self.method.seed);
        let known = self.stored.as_ref().filter(|stored| stored.check(layers, target.vocab_size(), share).is_ok());
        known.map_or_else(|| Search::new(layers, share, seed), |stored| Search::resumed(stored, seed))
    }

    /// Tries a set, if the answer is long enough and the search goes on.
    fn look_on(&mut self, target: &dyn Target) -> Result<(), DraftError> {
        let Some(search) = self.search.as_mut().filter(|search| !search.has_ended()) else {
            self.before = None;
            return Ok(());
        };
        if self.answer.len() <= search::CONTEXT {
            return Ok(());
        }
        let before = self.before.get_or_insert_with(|| target.fork(self.prompt));
        Ok(search.step(&mut Answer { before: before.as_mut(), tokens: &self.answer })?)
    }
}

impl Drop for SwiftDrafter {
    fn drop(&mut self) {
        self.store();
    }
}

impl Drafter for SwiftDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.truncate(0);
    }

    fn truncate(&mut self, length: usize) -> bool {
        // What is left of an answer counts as a prompt.
        self.committed = self.committed.min(length);
        self.begin();
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.committed += pass.tokens.len();
        match pass.verified {
            // A prompt may come in pieces.
            None => self.begin(),
            Some(_) => {
                let room = (search::CONTEXT + 1).saturating_sub(self.answer.len());
                self.answer.extend(pass.tokens.iter().take(room));
            }
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(target) = context.target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name.clone(), place: "this way of decoding" });
        };
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        if self.search.as_ref().is_none_or(|search| search.left_out().layers() != target.layers()) {
            self.search = Some(self.search_for(&*target));
            self.vocab_size = target.vocab_size();
            self.before = None;
        }
        self.look_on(&*target)?;
        let Some(search) = &self.search else { return Ok(Proposal::root(root)) };
        let levels = Levels::with_probabilities(ReducedLayers::new(target, search.left_out()));
        let is_sampled = self.draws || context.tree.coupling.is_some();
        let widths = if is_sampled { spine::SAMPLED } else { spine::GREEDY };
        Ok(Proposal::list(context.tree.build(root, &mut Spine::new(levels, widths))?))
    }
}

#[cfg(test)]
mod tests;
