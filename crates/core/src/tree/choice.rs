//! How a tree is named on the command line and in configs.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::suggest::did_you_mean;

use super::{ChainTree, DynamicTree, MAX_NODES, OwnTree, PublishedTree, TrellisTree};

/// A named choice of tree. [`FromStr`] and [`fmt::Display`] are inverse to each other, and serde uses both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TreeChoice {
    /// `none`: a lone root, which is plain decoding.
    None,
    /// `chain:N`: one path of N drafts, N at least 1.
    Chain(ChainTree),
    /// A published tree by its name.
    Published(PublishedTree),
    /// `calibrated`: made from measured accuracies and step times.
    Calibrated,
    /// `sequoia:N`: the optimal tree under measured positional acceptance.
    Sequoia {
        /// Nodes, the root included.
        nodes: usize,
    },
    /// `dynamic:TOTAL,DEPTH,TOPK`.
    Dynamic(DynamicTree),
    /// `trellis:NODES`, `trellis:NODES,DEPTH`, or `trellis` with a number of nodes by measured step times.
    Trellis(Option<(usize, usize)>),
    /// `own:NODES,DEPTH`: a budget, within which the drafter makes its own tree.
    Own(OwnTree),
    /// A path that ends in `.json`: a file with a list of rank paths.
    File(PathBuf),
}

impl TreeChoice {
    /// True for trees that are computed from a calibration of the heads.
    pub fn is_measured(&self) -> bool {
        matches!(self, Self::Calibrated | Self::Sequoia { .. } | Self::Trellis(None))
    }
}

/// A text that names no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No such name.
    #[error(
        "no tree is called {given:?}; {}allowed are {}, a file of rank paths (FILE.json), or a published tree: {}",
        did_you_mean(.given, FORMS.into_iter().chain(PublishedTree::ALL.map(PublishedTree::name))),
        FORMS.join(", "),
        PublishedTree::ALL.map(PublishedTree::name).join(", ")
    )]
    Unknown {
        /// The text.
        given: String,
    },
    /// The name is known, its numbers are not as they should be.
    #[error("tree {given:?} should have the form {form}")]
    Form {
        /// The text.
        given: String,
        /// The form it should have.
        form: &'static str,
    },
    /// A number is no whole number.
    #[error("tree {given:?} has {found:?} where {form} needs a whole number")]
    Number {
        /// The text.
        given: String,
        /// The form it should have.
        form: &'static str,
        /// The offending part.
        found: String,
    },
    /// A size is impossible.
    #[error("tree {given:?}: {reason}")]
    Size {
        /// The text.
        given: String,
        /// Why.
        reason: String,
    },
}

const CHAIN: &str = "chain:N";
const SEQUOIA: &str = "sequoia:N";
const DYNAMIC: &str = "dynamic:TOTAL,DEPTH,TOPK";
const TRELLIS: &str = "trellis:NODES,DEPTH";
const OWN: &str = "own:NODES,DEPTH";
/// All names but those of published trees.
const FORMS: [&str; 8] = ["none", CHAIN, "calibrated", SEQUOIA, DYNAMIC, "trellis", TRELLIS, OWN];

impl FromStr for TreeChoice {
    type Err = ChoiceError;

    fn from_str(given: &str) -> Result<Self, ChoiceError> {
        if given.len() > 5 && given.to_ascii_lowercase().ends_with(".json") {
            return Ok(Self::File(PathBuf::from(given)));
        }
        let (name, numbers) = given.split_once(':').map_or((given, None), |(name, numbers)| (name, Some(numbers)));
        let size = |reason: String| ChoiceError::Size { given: given.to_owned(), reason };
        match (name, numbers) {
            ("none", None) => Ok(Self::None),
            ("calibrated", None) => Ok(Self::Calibrated),
            ("none", Some(_)) => Err(ChoiceError::Form { given: given.to_owned(), form: "none" }),
            ("calibrated", Some(_)) => Err(ChoiceError::Form { given: given.to_owned(), form: "calibrated" }),
            ("chain", _) => match parse_numbers(given, CHAIN, numbers)? {
                [0] => Err(size("a chain has at least one draft; a lone root is called none".to_owned())),
                [drafts] => ChainTree::new(drafts).map(Self::Chain).map_err(|error| size(error.to_string())),
            },
            ("sequoia", _) => {
                let [nodes] = parse_numbers(given, SEQUOIA, numbers)?;
                if !(1..=MAX_NODES).contains(&nodes) {
                    return Err(size(format!("a tree has 1 to {MAX_NODES} nodes, its root included")));
                }
                Ok(Self::Sequoia { nodes })
            }
            ("dynamic", _) => {
                let [total, depth, top_k] = parse_numbers(given, DYNAMIC, numbers)?;
                let tree = DynamicTree::new(total, depth, top_k);
                tree.map(Self::Dynamic).map_err(|error| size(error.to_string()))
            }
            ("trellis", None) => Ok(Self::Trellis(None)),
            ("trellis", Some(listed)) => parse_trellis(given, listed).map(Self::Trellis),
            ("own", _) => {
                let [nodes, depth] = parse_numbers(given, OWN, numbers)?;
                OwnTree::new(nodes, depth).map(Self::Own).map_err(|error| size(error.to_string()))
            }
            _ => given.parse().map(Self::Published).map_err(|_| ChoiceError::Unknown { given: given.to_owned() }),
        }
    }
}

/// The nodes and depth of `trellis:NODES` or `trellis:NODES,DEPTH`.
fn parse_trellis(given: &str, listed: &str) -> Result<Option<(usize, usize)>, ChoiceError> {
    let [nodes, depth] = match listed.contains(',') {
        true => parse_numbers(given, TRELLIS, Some(listed))?,
        false => parse_numbers(given, TRELLIS, Some(listed)).map(|[nodes]| [nodes, TrellisTree::DEPTH])?,
    };
    let size = |reason: String| ChoiceError::Size { given: given.to_owned(), reason };
    let tree = TrellisTree::new(nodes, depth).map_err(|error| size(error.to_string()))?;
    Ok(Some((tree.nodes(), tree.depth())))
}

/// The comma-separated whole numbers after the colon, exactly `N` of them.
fn parse_numbers<const N: usize>(
    given: &str,
    form: &'static str,
    numbers: Option<&str>,
) -> Result<[usize; N], ChoiceError> {
    let wrong_form = || ChoiceError::Form { given: given.to_owned(), form };
    let parts: Vec<&str> = numbers.ok_or_else(wrong_form)?.split(',').map(str::trim).collect();
    let parts: [&str; N] = parts.try_into().map_err(|_| wrong_form())?;
    let mut parsed = [0; N];
    for (number, part) in parsed.iter_mut().zip(parts) {
        let wrong = |_| ChoiceError::Number { given: given.to_owned(), form, found: part.to_owned() };
        *number = part.parse().map_err(wrong)?;
    }
    Ok(parsed)
}

impl fmt::Display for TreeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Chain(chain) => write!(f, "chain:{}", chain.drafts()),
            Self::Published(tree) => write!(f, "{tree}"),
            Self::Calibrated => f.write_str("calibrated"),
            Self::Sequoia { nodes } => write!(f, "sequoia:{nodes}"),
            Self::Dynamic(tree) => write!(f, "dynamic:{},{},{}", tree.total_nodes(), tree.depth(), tree.top_k()),
            Self::Trellis(None) => f.write_str("trellis"),
            Self::Trellis(Some((nodes, TrellisTree::DEPTH))) => write!(f, "trellis:{nodes}"),
            Self::Trellis(Some((nodes, depth))) => write!(f, "trellis:{nodes},{depth}"),
            Self::Own(tree) => write!(f, "own:{},{}", tree.nodes(), tree.depth()),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl TryFrom<String> for TreeChoice {
    type Error = ChoiceError;

    fn try_from(given: String) -> Result<Self, ChoiceError> {
        given.parse()
    }
}

impl From<TreeChoice> for String {
    fn from(choice: TreeChoice) -> Self {
        choice.to_string()
    }
}
