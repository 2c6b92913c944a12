//! Tree shapes: sets of rank paths, the form in which fixed, calibrated and optimal trees are written down.

use std::collections::HashMap;

use serde_json::Value;

use super::{MAX_DEPTH, MAX_NODES, MAX_RANK};

/// A node named by ranks from the root down: `[0, 2]` is the third guess after the first guess. The root is `[]` and is
/// never listed.
pub type RankPath = Vec<usize>;

/// Which ranks a tree explores, before any token is known: a connected set of rank paths and the root.
///
/// Nodes are numbered as in a [`TokenTree`](super::TokenTree): the root is 0, then the paths sorted by length and,
/// within a length, lexicographically (as `generate_medusa_buffers` of the Medusa reference sorts them).
///
/// As JSON, a list of lists of ranks: `[[0], [0, 0], [1]]`, in any order.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<RankPath>", into = "Vec<RankPath>")]
pub struct TreeShape {
    /// `paths[i]` is node `i + 1`.
    paths: Vec<RankPath>,
    /// Parents by node; the root's entry is 0.
    parents: Vec<usize>,
}

/// Why a list of paths is no tree shape. Entries are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The text is not JSON.
    #[error("a tree is a JSON list of rank paths such as [[0], [0, 0], [1]], but this is no JSON: {0}")]
    Json(String),
    /// The JSON is something else.
    #[error("a tree is a JSON list of rank paths such as [[0], [0, 0], [1]], but this is {0}")]
    NotAList(&'static str),
    /// An entry is no list.
    #[error("entry {entry} of the tree is {found}, not a list of ranks")]
    NotAPath {
        /// Which entry.
        entry: usize,
        /// The kind of value found.
        found: &'static str,
    },
    /// A rank is no whole number from 0 to [`MAX_RANK`].
    #[error("entry {entry} of the tree, {path}, has rank {rank}; ranks go from 0 to {MAX_RANK}")]
    Rank {
        /// Which entry.
        entry: usize,
        /// The whole path.
        path: String,
        /// The offending rank.
        rank: String,
    },
    /// The root is listed.
    #[error("entry {entry} of the tree is the empty path; the root is implied and never listed")]
    EmptyPath {
        /// Which entry.
        entry: usize,
    },
    /// A path is longer than [`MAX_DEPTH`].
    #[error("entry {entry} of the tree has {depth} ranks; a path has at most {MAX_DEPTH}")]
    TooDeep {
        /// Which entry.
        entry: usize,
        /// Its length.
        depth: usize,
    },
    /// More than [`MAX_NODES`] nodes with the root.
    #[error("the tree has {nodes} nodes with its root; at most {MAX_NODES} are allowed")]
    TooManyNodes {
        /// Nodes with the root.
        nodes: usize,
    },
    /// A path is listed twice.
    #[error("the tree lists {path:?} more than once")]
    Duplicate {
        /// The path.
        path: RankPath,
    },
    /// A path's parent is not listed.
    #[error("the tree lists {path:?} but not its parent {:?}", &path[..path.len() - 1])]
    Unconnected {
        /// The path whose parent is missing.
        path: RankPath,
    },
}

impl TreeShape {
    /// A shape from its paths, in any order.
    ///
    /// # Errors
    /// If a path is empty, repeated or without its parent, or a size limit is passed ([`MAX_NODES`], [`MAX_DEPTH`],
    /// [`MAX_RANK`]).
    pub fn new(mut paths: Vec<RankPath>) -> Result<Self, ShapeError> {
        if paths.len() >= MAX_NODES {
            return Err(ShapeError::TooManyNodes { nodes: paths.len().saturating_add(1) });
        }
        paths.iter().enumerate().try_for_each(|(entry, path)| check_path(entry, path))?;
        paths.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ShapeError::Duplicate { path: pair[0].clone() });
        }
        let mut parents = vec![0; paths.len() + 1];
        let mut nodes: HashMap<&[usize], usize> = HashMap::from([(&[][..], 0)]);
        for (index, path) in paths.iter().enumerate() {
            let parent = nodes.get(&path[..path.len() - 1]);
            parents[index + 1] = *parent.ok_or_else(|| ShapeError::Unconnected { path: path.clone() })?;
            nodes.insert(path, index + 1);
        }
        Ok(Self { paths, parents })
    }

    /// A shape from JSON text: a list of lists of ranks.
    ///
    /// # Errors
    /// If the text is no such list, or the paths are no shape (see [`TreeShape::new`]); the error names the entry.
    pub fn from_json(text: &str) -> Result<Self, ShapeError> {
        if text.trim().is_empty() {
            return Err(ShapeError::Json("it is empty".into()));
        }
        let json: Value = serde_json::from_str(text).map_err(|error| ShapeError::Json(error.to_string()))?;
        let Value::Array(entries) = json else { return Err(ShapeError::NotAList(kind(&json))) };
        Self::new(
            entries.iter().enumerate().map(|(entry, value)| path_from_json(entry, value)).collect::<Result<_, _>>()?,
        )
    }

    /// All combinations of the `widths[k]` most likely guesses at each depth `k`: Medusa's Cartesian product.
    ///
    /// # Errors
    /// If a size limit is passed.
    pub fn cartesian(widths: &[usize]) -> Result<Self, ShapeError> {
        let mut paths: Vec<RankPath> = Vec::new();
        let mut level: Vec<RankPath> = vec![Vec::new()];
        for &width in widths {
            let nodes = level.len().saturating_mul(width).saturating_add(paths.len() + 1);
            if nodes > MAX_NODES {
                return Err(ShapeError::TooManyNodes { nodes });
            }
            level = level.iter().flat_map(|path| (0..width).map(|rank| [&path[..], &[rank]].concat())).collect();
            paths.extend_from_slice(&level);
        }
        Self::new(paths)
    }

    /// Number of nodes, the root included.
    #[allow(clippy::len_without_is_empty)] // a shape always has its root
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// The rank paths in canonical order, the root left out: entry `i` is node `i + 1`.
    pub fn paths(&self) -> &[RankPath] {
        &self.paths
    }

    /// The rank path of `node`; empty for the root.
    pub fn path(&self, node: usize) -> &[usize] {
        node.checked_sub(1).map_or(&[], |index| &self.paths[index])
    }

    /// Parents by node. The root's entry is 0, itself.
    pub fn parents(&self) -> &[usize] {
        &self.parents
    }

    /// The length of the longest path.
    pub fn max_depth(&self) -> usize {
        self.paths.last().map_or(0, Vec::len)
    }

    /// The greatest rank at each depth: a drafter must offer one candidate more than that. Entry 0 is for the root's
    /// children.
    pub fn max_ranks(&self) -> Vec<usize> {
        let mut ranks = vec![0; self.max_depth()];
        for path in &self.paths {
            let depth = path.len() - 1;
            ranks[depth] = ranks[depth].max(path[depth]);
        }
        ranks
    }

    /// The first node, if any, whose next better sibling is missing. Such a shape suits drafters that list their
    /// top-k tokens. One that *samples* candidates must not leave out a sample, or the rest no longer follow the
    /// distribution that lossless acceptance counts on.
    pub fn first_gap(&self) -> Option<&[usize]> {
        let follows = |index: usize| {
            let path = &self.paths[index];
            let (rank, parent) = (path[path.len() - 1], &path[..path.len() - 1]);
            // Siblings are neighbours in canonical order.
            rank == 0 || index > 0 && self.paths[index - 1] == [parent, &[rank - 1]].concat()
        };
        (0..self.paths.len()).find(|&index| !follows(index)).map(|index| &self.paths[index][..])
    }
}

/// `Σ over nodes Π along the path of acceptance(depth, rank)`, the root left out and depths counted from 0 at its
/// children: the expected number of accepted drafts when `acceptance` is the probability that a child is accepted given
/// that its parent is. `Err` holds the first path for which `acceptance` has no answer.
pub(super) fn expected_accepted(
    shape: &TreeShape,
    acceptance: impl Fn(usize, usize) -> Option<f64>,
) -> Result<f64, RankPath> {
    let mut reached = vec![1.0; shape.len()];
    for (index, path) in shape.paths.iter().enumerate() {
        let depth = path.len() - 1;
        let given_parent = acceptance(depth, path[depth]).ok_or_else(|| path.clone())?;
        reached[index + 1] = reached[shape.parents[index + 1]] * given_parent;
    }
    Ok(reached[1..].iter().sum())
}

impl TryFrom<Vec<RankPath>> for TreeShape {
    type Error = ShapeError;

    fn try_from(paths: Vec<RankPath>) -> Result<Self, ShapeError> {
        Self::new(paths)
    }
}

impl From<TreeShape> for Vec<RankPath> {
    fn from(shape: TreeShape) -> Self {
        shape.paths
    }
}

/// The limits on a single path.
fn check_path(entry: usize, path: &[usize]) -> Result<(), ShapeError> {
    if path.is_empty() {
        return Err(ShapeError::EmptyPath { entry });
    }
    if path.len() > MAX_DEPTH {
        return Err(ShapeError::TooDeep { entry, depth: path.len() });
    }
    match path.iter().find(|&&rank| rank > MAX_RANK) {
        Some(rank) => Err(ShapeError::Rank { entry, path: format!("{path:?}"), rank: rank.to_string() }),
        None => Ok(()),
    }
}

/// One path, or its error.
fn path_from_json(entry: usize, value: &Value) -> Result<RankPath, ShapeError> {
    let Value::Array(ranks) = value else {
        return Err(ShapeError::NotAPath { entry, found: kind(value) });
    };
    if ranks.len() > MAX_DEPTH {
        return Err(ShapeError::TooDeep { entry, depth: ranks.len() });
    }
    let rank = |rank: &Value| {
        let number = rank.as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| ShapeError::Rank { entry, path: value.to_string(), rank: rank.to_string() })
    };
    ranks.iter().map(rank).collect()
}

/// The kind of a JSON value, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
