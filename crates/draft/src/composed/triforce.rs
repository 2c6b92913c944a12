//! The name of TriForce with a small model.

use super::options::{Options, number};
use crate::draft_model::StreamingWindow;
use crate::partial::Partial;
use crate::training_free::TrainingFreeMethod;
use gorgon_core::tree::{TreeChoice, TreeKind};
use std::fmt;
use std::path::PathBuf;

/// Rows of the small model's cache unless others are named: 256 in all, as in the authors' code.
const WINDOW: StreamingWindow = StreamingWindow { sinks: 4, recent: 252 };
/// Drafts of the small model at a time, as in the authors' code.
const AHEAD: usize = 1;
/// Bounds of what may be named.
const SINKS: (usize, usize) = (0, 4096);
const RECENT: (usize, usize) = (8, 1 << 20);
const MOST_AHEAD: usize = 128;
/// Rows beyond a window that are kept while a chain is drafted.
const DRAFTED: usize = 64;

const KEYS: [&str; 4] = ["small", "sinks", "window", "ahead"];

/// The target over a part of its cache, for which a small model with a streaming cache drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriForceName {
    /// The part.
    pub partial: Partial,
    /// The small model's folder.
    pub model: PathBuf,
    /// Rows of its cache.
    pub window: StreamingWindow,
    /// Its drafts at a time.
    pub ahead: usize,
}

impl TriForceName {
    /// How it is written on the command line.
    pub const SYNTAX: &'static str = "partial:B,C,small=DIR[,sinks=N][,window=N][,ahead=N]";

    /// True if the arguments of `partial` name a small model or one of its options.
    pub(super) fn is_named(arguments: &str) -> bool {
        let key = |piece: &str| piece.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key));
        arguments.split(',').any(key)
    }

    pub(super) fn parse(arguments: &str) -> Result<Self, String> {
        let options = Options::of(arguments, &KEYS)?;
        let model = match options.get("small") {
            Some("") => return Err("small= is empty: it names the folder of a small model".into()),
            Some(model) => PathBuf::from(model),
            None => {
                return Err("B,C and then small=DIR are expected: sinks, window and ahead are the small model's".into());
            }
        };
        let count = |key, bounds, usual| options.get(key).map_or(Ok(usual), |text| number(key, text, bounds));
        let window = StreamingWindow {
            sinks: count("sinks", SINKS, WINDOW.sinks)?,
            recent: count("window", RECENT, WINDOW.recent)?,
        };
        let partial = Partial::parse(&options.first)?;
        Ok(Self { partial, model, window, ahead: count("ahead", (1, MOST_AHEAD), AHEAD)? })
    }

    pub(super) fn default_tree(&self) -> TreeChoice {
        self.partial.default_tree()
    }

    pub(super) fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        match tree {
            TreeKind::Chain(_) => Ok(()),
            _ => Err(format!("{self} drafts chains: it takes chain:N")),
        }
    }

    /// Rows of the small model's cache at most.
    pub(super) fn rows(&self) -> usize {
        self.window.rows() + DRAFTED
    }
}

impl fmt::Display for TriForceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},small={}", self.partial.name(), self.model.display())?;
        let StreamingWindow { sinks, recent } = self.window;
        for (key, value, usual) in
            [("sinks", sinks, WINDOW.sinks), ("window", recent, WINDOW.recent), ("ahead", self.ahead, AHEAD)]
        {
            if value != usual {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}
