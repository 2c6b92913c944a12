//! From `--tree` to a tree builder.

use super::sequoia::sequoia_choice;
use super::stored_tree;
use crate::failure::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{
    ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeChoice, TreeShape, TrellisTree,
};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::{HeadSpec, HeadsMethod};
use gorgon_draft::{measured, probes};
use std::path::PathBuf;

/// The name of the tree that a calibration stored with the heads.
pub(super) const CALIBRATED: &str = "calibrated";

/// The name of the trellis tree whose size follows from step times.
pub(super) const TRELLIS: &str = "trellis";

/// Drafts of a draft model.
const MODEL_CHAIN: usize = 4;

/// The dynamic tree of EAGLE and multi-token prediction unless told otherwise, as in EAGLE-2: nodes, expansions after
/// the first level, width.
const EAGLE_TREE: (usize, usize, usize) = (60, 5, 10);

/// Nodes of the trellis tree of block drafters unless told otherwise.
const BLOCK_TREE: usize = 60;

/// Drafts of Kangaroo unless told otherwise, as in the paper.
const KANGAROO_CHAIN: usize = 6;

/// The largest trellis tree whose size follows from step times.
pub(super) const MOST_MEASURED: usize = 64;

/// The tree that a drafter without heads drafts, if none is named.
fn default_tree(choice: &DrafterChoice) -> Option<TreeChoice> {
    match choice.last() {
        DrafterChoice::TrainingFree(method) => Some(method.default_tree()),
        DrafterChoice::Composed(composed) => Some(composed.default_tree()),
        DrafterChoice::Model(_) => ChainTree::new(MODEL_CHAIN).ok().map(TreeChoice::Chain),
        DrafterChoice::Measured => measured::largest_tree().ok().map(TreeChoice::Own),
        DrafterChoice::Auto | DrafterChoice::None | DrafterChoice::Heads(_) | DrafterChoice::Oracle(_) => None,
        // The last one is none.
        DrafterChoice::Handover { .. } => None,
    }
}

/// The tree that is named, or the one that the heads are decoded with.
///
/// # Errors
/// When it is none, or the heads were not measured.
pub(super) fn builder(
    tree: Option<&TreeChoice>,
    choice: &DrafterChoice,
    heads: Option<&HeadsFolder>,
    stored: Option<PathBuf>,
) -> Result<(String, Box<dyn TreeBuilder>), Failure> {
    let root = || TreeShape::new(vec![]).map_err(Failure::input);
    if *choice.last() == DrafterChoice::None {
        return Ok(fixed("none".into(), root()?));
    }
    let own = default_tree(choice);
    let Some(tree) = tree.or(own.as_ref()) else {
        return unnamed(heads, stored);
    };
    let name = tree.to_string();
    Ok(match tree {
        TreeChoice::None => fixed(name, root()?),
        TreeChoice::Chain(chain) => (name, Box::new(*chain)),
        TreeChoice::Published(published) => fixed(name, published.shape().clone()),
        TreeChoice::Dynamic(dynamic) => (name, Box::new(*dynamic)),
        TreeChoice::Trellis(size) => (name, Box::new(trellis(*size, tree, heads)?)),
        TreeChoice::Own(own) => (name, Box::new(*own)),
        TreeChoice::File(path) => fixed(name, stored_tree::file(path)?),
        TreeChoice::Calibrated => fixed(name, stored_tree::file(&stored.ok_or_else(|| unmeasured(tree))?)?),
        TreeChoice::Sequoia { nodes } => {
            fixed(name, sequoia_choice(&record(heads)?.ok_or_else(|| unmeasured(tree))?, Some(*nodes))?.shape)
        }
    })
}

fn fixed(name: String, shape: TreeShape) -> (String, Box<dyn TreeBuilder>) {
    (name, Box::new(FixedTree::new(shape)))
}

/// The tree that heads are decoded with: the fastest of their calibration, the stored one, or the one of their kind.
fn unnamed(heads: Option<&HeadsFolder>, stored: Option<PathBuf>) -> Result<(String, Box<dyn TreeBuilder>), Failure> {
    match stored {
        Some(_) if fastest(heads)?.as_ref() == Some(&TreeChoice::Trellis(None)) => {
            let tree = TreeChoice::Trellis(None);
            Ok((tree.to_string(), Box::new(trellis(None, &tree, heads)?)))
        }
        Some(path) => Ok(fixed(CALIBRATED.into(), stored_tree::file(&path)?)),
        None if heads.is_some_and(|folder| has_layers(folder.detected.format.method())) => {
            let (total, depth, top_k) = EAGLE_TREE;
            let dynamic = DynamicTree::new(total, depth, top_k).map_err(Failure::input)?;
            Ok((TreeChoice::Dynamic(dynamic).to_string(), Box::new(dynamic)))
        }
        None if heads.is_some_and(|folder| folder.detected.format.method() == HeadsMethod::Block) => {
            let trellis = TrellisTree::new(BLOCK_TREE, TrellisTree::DEPTH).map_err(Failure::input)?;
            Ok((TreeChoice::Trellis(Some((BLOCK_TREE, TrellisTree::DEPTH))).to_string(), Box::new(trellis)))
        }
        None if let Some(HeadSpec::Probes(spec)) = heads.map(|folder| &folder.detected.spec) => {
            let tree = probes::default_tree(spec.kind, spec.places);
            builder(Some(&tree), &DrafterChoice::Auto, heads, None)
        }
        None if heads.is_some_and(|folder| folder.detected.format.method() == HeadsMethod::Kangaroo) => {
            let chain = ChainTree::new(KANGAROO_CHAIN).map_err(Failure::input)?;
            Ok((TreeChoice::Chain(chain).to_string(), Box::new(chain)))
        }
        None => {
            let published: PublishedTree = "mc_sim_7b_63".parse().map_err(Failure::input)?;
            Ok(fixed(published.name().into(), published.shape().clone()))
        }
    }
}

/// The trellis tree of a size, or of as many nodes a step as pay by the measured step times.
fn trellis(
    size: Option<(usize, usize)>,
    tree: &TreeChoice,
    heads: Option<&HeadsFolder>,
) -> Result<TrellisTree, Failure> {
    if let Some((nodes, depth)) = size {
        return TrellisTree::new(nodes, depth).map_err(Failure::input);
    }
    let record = record(heads)?.ok_or_else(|| unmeasured(tree))?;
    let largest = record.step_times.last().map_or(1, |time| time.nodes).clamp(2, MOST_MEASURED);
    let trellis = TrellisTree::new(largest, TrellisTree::DEPTH).map_err(Failure::input)?;
    // A record that lacks the plain step says nothing of costs: then every node is worth its time.
    Ok(trellis.with_costs(|nodes| record.cost(nodes).unwrap_or(1.0)))
}

/// The tree with which the calibration decoded fastest, and faster than without drafts.
fn fastest(heads: Option<&HeadsFolder>) -> Result<Option<TreeChoice>, Failure> {
    let fastest = record(heads)?.and_then(|record| record.decoded.into_iter().next());
    Ok(fastest.filter(|decoded| decoded.speedup > 1.0).and_then(|decoded| decoded.tree.parse().ok()))
}

/// The record of the heads' calibration.
fn record(heads: Option<&HeadsFolder>) -> Result<Option<CalibrationRecord>, Failure> {
    Ok(heads.map(|folder| CalibrationRecord::read(&folder.path)).transpose()?.flatten())
}

/// Whether a method's heads are decoder layers that read their own drafts, and so draft deep trees.
fn has_layers(method: HeadsMethod) -> bool {
    match method {
        HeadsMethod::Eagle | HeadsMethod::Mtp => true,
        HeadsMethod::Medusa | HeadsMethod::Hydra | HeadsMethod::Block => false,
        HeadsMethod::Kangaroo | HeadsMethod::Probes(_) => false,
    }
}

fn unmeasured(tree: &TreeChoice) -> Failure {
    Failure::input(format!("--tree {tree}: nothing was measured for these heads"))
        .hint("gorgon tree calibrate measures it")
}
