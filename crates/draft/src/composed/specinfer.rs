//! The name of SpecInfer's drafter.

use super::options::{Options, number};
use gorgon_core::tree::{MAX_DEPTH, MAX_NODES, OwnTree, TreeChoice, TreeKind, TreeShape};
use std::fmt;
use std::path::PathBuf;

/// Draft models at most.
const MOST_MODELS: usize = 8;
/// Children of a node at most.
const WIDEST: usize = 64;
/// Children by depth unless told otherwise: the first five steps of the paper's `<1,1,3,1,1,1,1,1>`.
const EXPANSION: [usize; 5] = [1, 1, 3, 1, 1];

/// Several draft models whose trees are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecInferName {
    /// Their folders, in the order in which their drafts are tried.
    pub models: Vec<PathBuf>,
    /// Children by depth of the tree that each of them grows, if they are named.
    pub expand: Option<Vec<usize>>,
}

impl SpecInferName {
    /// How it is written on the command line.
    pub const SYNTAX: &'static str = "specinfer:DIR1+DIR2[,expand=K1,K2,…]";

    pub(super) fn parse(arguments: &str) -> Result<Self, String> {
        let options = Options::of(arguments, &["expand"])?;
        let models: Vec<PathBuf> = options.first.split('+').map(PathBuf::from).collect();
        if models.iter().any(|model| model.as_os_str().is_empty()) {
            return Err("expected the folders of draft models, joined by +".into());
        }
        if models.len() > MOST_MODELS {
            return Err(format!("{} draft models; at most {MOST_MODELS} draft together", models.len()));
        }
        let expand = |text: &str| text.split(',').map(|k| number("expand", k, (1, WIDEST))).collect();
        let name = Self { models, expand: options.get("expand").map(expand).transpose()? };
        let widths = name.widths();
        if widths.len() > MAX_DEPTH {
            return Err(format!("expand= has {} steps; a tree is at most {MAX_DEPTH} drafts deep", widths.len()));
        }
        let shape = name.shape().map_err(|error| format!("expand=: {error}"))?;
        if name.nodes(&shape) > MAX_NODES {
            return Err(format!("the merged tree has {} nodes; at most {MAX_NODES} are drafted", name.nodes(&shape)));
        }
        Ok(name)
    }

    /// Children by depth of the tree that each model grows where it is not named by `--tree`.
    fn widths(&self) -> &[usize] {
        self.expand.as_deref().unwrap_or(&EXPANSION)
    }

    /// The tree that each model grows where it is not named by `--tree`.
    ///
    /// # Errors
    /// When it is too large.
    pub fn shape(&self) -> Result<TreeShape, String> {
        TreeShape::cartesian(self.widths()).map_err(|error| error.to_string())
    }

    /// Nodes of the merged tree if no two drafts are alike.
    fn nodes(&self, shape: &TreeShape) -> usize {
        1 + self.models.len() * (shape.len() - 1)
    }

    /// Nodes and depth of the merged tree, at most.
    fn size(&self) -> (usize, usize) {
        (self.shape().map_or(1, |shape| self.nodes(&shape)), self.widths().len())
    }

    pub(super) fn default_tree(&self) -> TreeChoice {
        let (nodes, depth) = self.size();
        OwnTree::new(nodes, depth).map_or(TreeChoice::None, TreeChoice::Own)
    }

    pub(super) fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        let (nodes, depth) = self.size();
        let fits = match tree {
            TreeKind::Own(own) => own.nodes() >= nodes && own.depth() >= depth,
            TreeKind::Fixed(_) | TreeKind::Chain(_) | TreeKind::Dynamic(_) => self.expand.is_none(),
        };
        let name = "specinfer with its own trees";
        if fits { Ok(()) } else { Err(format!("{name} takes own:NODES,DEPTH from own:{nodes},{depth} on")) }
    }
}

impl fmt::Display for SpecInferName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: Vec<String> = self.models.iter().map(|model| model.display().to_string()).collect();
        write!(f, "specinfer:{}", models.join("+"))?;
        let Some(expand) = &self.expand else { return Ok(()) };
        let widths: Vec<String> = expand.iter().map(usize::to_string).collect();
        write!(f, ",expand={}", widths.join(","))
    }
}
