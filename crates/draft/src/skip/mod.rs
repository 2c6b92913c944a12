//! Draft & Verify (Zhang et al., 2024, <https://arxiv.org/abs/2309.08168>): the target drafts without some of its
//! attentions and feed-forward networks, on its own cache.
//!
//! Committed rows of the cache are the whole model's. Drafted rows have keys and values of the kept sub-layers only;
//! they are dropped, and verification reads the drafts again through all layers.
//!
//! A path ends after a draft that is less likely than `θ`, which begins at 0.8, or 0.5 at temperatures above 0. After a
//! step that drafted `d` tokens of which `a` were accepted, with the acceptance `m <- m/2 + a/(2d)`: `θ' = θ + 0.01` if
//! `m < 0.9`, else `θ` if a path reached the tree's depth, else `θ - 0.01`; `θ <- 0.9·θ + 0.1·θ'`. Whether a path ends
//! is decided by drafts before it, so no rule is biased. Drafts are a list of most likely tokens.

mod sublayers;

pub use sublayers::Sublayers;

use crate::draft_model::DraftSampling;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::levels::Levels;
use crate::method::TrainingFreeMethod;
use crate::own_layers::ReducedLayers;
use crate::stop_after::StopAfter;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeChoice};
use gorgon_model::config::ModelConfig;
use gorgon_model::pass::SkippedSublayers;
use std::path::Path;

/// Drafts unless another tree is named.
const CHAIN: usize = 8;
/// The threshold of a new text, of greedy and of sampled ones.
const THRESHOLDS: [f64; 2] = [0.8, 0.5];
/// Acceptance that the threshold is moved towards.
const WANTED: f64 = 0.9;

/// Draft & Verify, `skip:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// As it was typed.
    arguments: String,
    sublayers: Sublayers,
    /// The probability after which a path ends, in percent, where it stays as it is.
    stop: Option<u8>,
}

impl TrainingFreeMethod for Skip {
    const SYNTAX: &'static str = "skip:FILE[,stop=PERCENT]";

    fn parse(arguments: &str) -> Result<Self, String> {
        let (file, stop) = match arguments.rsplit_once(",stop=") {
            None => (arguments, None),
            Some((file, percent)) => match percent.parse() {
                Ok(percent @ 0..=100) => (file, Some(percent)),
                _ => return Err(format!("skip:{arguments}: stop is a number of percent, 0 to 100")),
            },
        };
        if file.is_empty() {
            return Err("skip: expected skip:FILE, a file of sub-layers to leave out".into());
        }
        Ok(Self { arguments: arguments.into(), sublayers: Sublayers::read(Path::new(file))?, stop })
    }

    fn name(&self) -> String {
        format!("skip:{}", self.arguments)
    }

    fn default_tree(&self) -> TreeChoice {
        ChainTree::new(CHAIN).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        self.sublayers.of(model.layers).map(drop).map_err(|error| format!("{}: {error}", self.name()))
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        self.drafter_for(DraftSampling::GREEDY)
    }

    fn drafter_for(&self, sampling: DraftSampling) -> Box<dyn Drafter> {
        Box::new(self.of(sampling))
    }
}

impl Skip {
    fn of(&self, sampling: DraftSampling) -> SkipDrafter {
        let stop = self.stop.map(|percent| f64::from(percent) / 100.0);
        SkipDrafter { draws: sampling.draws(), ..SkipDrafter::new(self.name(), self.sublayers.clone(), stop) }
    }
}

/// Drafts with the target's own layers, without some sub-layers.
#[derive(Clone, Debug)]
pub struct SkipDrafter {
    name: String,
    sublayers: Sublayers,
    /// For the target that was lent first.
    skipped: Option<SkippedSublayers>,
    /// Of this text, from its first draft on.
    threshold: Option<Threshold>,
    /// True if its drafts serve a rule that draws at random. Under a coupling the text is sampled too.
    draws: bool,
    /// The threshold, where it stays as it is.
    stop: Option<f64>,
    /// The greatest depth of the last tree that was asked for.
    depth: usize,
}

impl SkipDrafter {
    /// A drafter that leaves out these sub-layers. Paths end after a draft less likely than `stop`; without one, the
    /// threshold adapts.
    pub fn new(name: String, sublayers: Sublayers, stop: Option<f64>) -> Self {
        Self { name, sublayers, skipped: None, threshold: None, draws: false, stop, depth: 0 }
    }
}

impl Drafter for SkipDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.threshold = None;
    }

    fn truncate(&mut self, _: usize) -> bool {
        // All that it knows of the text is in the target's cache.
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (Some(verified), Some(threshold)) = (pass.verified, &mut self.threshold) {
            let deepest = verified.tree.depths().iter().copied().max().unwrap_or(0);
            threshold.learn(deepest, verified.path.len().saturating_sub(1), deepest == self.depth);
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(target) = context.target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name.clone(), place: "this way of decoding" });
        };
        self.depth = context.tree.max_depth();
        if self.depth == 0 {
            return Ok(Proposal::root(root));
        }
        if self.skipped.as_ref().is_none_or(|skipped| skipped.layers() != target.layers()) {
            self.skipped = Some(self.sublayers.of(target.layers()).map_err(DraftError::Tree)?);
        }
        let is_sampled = self.draws || context.tree.coupling.is_some();
        let threshold = self.threshold.get_or_insert(Threshold::new(THRESHOLDS[usize::from(is_sampled)]));
        let Some(skipped) = &self.skipped else { return Ok(Proposal::root(root)) };
        let levels = Levels::with_probabilities(ReducedLayers::new(target, skipped));
        let mut source = StopAfter::new(levels, self.stop.unwrap_or(threshold.value));
        Ok(Proposal::list(context.tree.build(root, &mut source)?))
    }
}

/// The probability after which a path ends.
#[derive(Clone, Copy, Debug)]
struct Threshold {
    value: f64,
    /// Running acceptance.
    acceptance: f64,
}

impl Threshold {
    fn new(value: f64) -> Self {
        Self { value, acceptance: WANTED }
    }

    /// After a step that drafted `drafted` tokens on its longest path; `full` says that there was no room for more.
    fn learn(&mut self, drafted: usize, accepted: usize, full: bool) {
        if drafted == 0 {
            return;
        }
        self.acceptance = 0.5 * self.acceptance + 0.5 * accepted as f64 / drafted as f64;
        let wanted = match () {
            () if self.acceptance < WANTED => self.value + 0.01,
            () if full => self.value,
            () => self.value - 0.01,
        };
        self.value = (0.9 * self.value + 0.1 * wanted).clamp(0.0, 1.0);
    }
}

#[cfg(test)]
mod tests;
