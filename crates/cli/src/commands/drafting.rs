//! From `--heads`, `--drafter` and `--tree` to what takes part in a step.

use crate::commands::tree::sequoia_choice;
use crate::error::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, PublishedTree, TreeBuilder, TreeChoice, TreeShape};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::three::Eagle3Model;
use gorgon_draft::eagle::{EagleDrafter, EagleModel};
use gorgon_draft::fallback::FallbackDrafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_draft::ngram::{self, NgramDrafter};
use gorgon_draft::oracle::OracleDrafter;
use gorgon_model::decoder::Decoder;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Drafts of prompt lookup, if no tree is named.
const NGRAM_CHAIN: usize = 8;

/// The tree stored with heads.
pub const TREE_FILE: &str = "tree.json";

/// The dynamic tree of EAGLE unless told otherwise, as in EAGLE-2: nodes, expansions after the first level, width.
const EAGLE_TREE: (usize, usize, usize) = (60, 5, 10);

/// What `--drafter` names.
#[derive(Clone, Debug, PartialEq)]
pub enum DrafterChoice {
    /// What `--heads` holds, or nothing.
    Auto,
    /// Plain decoding.
    None,
    /// Medusa heads.
    Medusa,
    /// An EAGLE draft layer of any generation.
    Eagle,
    /// Prompt lookup: what followed the last tokens before, compared up to this many.
    Ngram(usize),
    /// Heads at full cost whose tokens are overridden to be right at these rates.
    Oracle(Vec<f64>),
}

impl FromStr for DrafterChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => match text {
                "auto" => Ok(Self::Auto),
                "none" => Ok(Self::None),
                "medusa" => Ok(Self::Medusa),
                "eagle" => Ok(Self::Eagle),
                other => Err(format!(
                    "no drafter is called {other:?}: expected auto, none, medusa, eagle, ngram:N or \
                     oracle:R1,R2,…"
                )),
            },
            Some(("oracle", rates)) => {
                let rate = |text: &str| match text.trim().parse::<f64>() {
                    Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
                    _ => Err(format!("{text:?} is no rate between 0 and 1")),
                };
                rates.split(',').map(rate).collect::<Result<_, _>>().map(Self::Oracle)
            }
            Some(("ngram", n)) => match n.trim().parse() {
                Ok(n) if (1..=ngram::LONGEST).contains(&n) => Ok(Self::Ngram(n)),
                _ => Err(format!("{n:?} is no length from 1 to {}", ngram::LONGEST)),
            },
            Some((other, _)) => Err(format!("no drafter is called {other:?}")),
        }
    }
}

/// What was asked for, before any weights are read.
pub struct Drafting {
    choice: DrafterChoice,
    heads: Option<HeadsFolder>,
    /// The tree's name.
    pub tree_name: String,
    /// Arranges the drafts.
    pub builder: Box<dyn TreeBuilder>,
    /// How many plain steps a step lasts, where the tree was calibrated on this kind of device and not named by hand.
    cost: Option<(f64, String)>,
}

impl Drafting {
    /// Opens the heads and resolves the tree.
    ///
    /// # Errors
    /// When heads are missing or wrong, or the tree is none.
    pub fn resolve(heads: Option<&Path>, choice: &DrafterChoice, tree: Option<&TreeChoice>) -> Result<Self, Failure> {
        let heads = heads.map(HeadsFolder::open).transpose()?;
        let choice = match (choice, &heads) {
            (DrafterChoice::Auto, None) => DrafterChoice::None,
            (DrafterChoice::Auto, Some(folder)) => held(folder)?,
            (DrafterChoice::Medusa | DrafterChoice::Eagle | DrafterChoice::Oracle(_), None) => {
                return Err(Failure::input("this drafter needs heads").hint("name their folder with --heads"));
            }
            (named, _) => named.clone(),
        };
        let (tree_name, builder) = builder(tree, &choice, heads.as_ref())?;
        let record = match (&heads, tree) {
            (Some(folder), None) if tree_name == "calibrated" => CalibrationRecord::read(&folder.path)?,
            _ => None,
        };
        let cost = record.and_then(|record| Some((record.cost(builder.max_nodes())?, record.device)));
        Ok(Self { choice, heads, tree_name, builder, cost })
    }

    /// The drafter's name.
    pub fn name(&self) -> String {
        match &self.choice {
            _ if self.is_plain() => "none".into(),
            DrafterChoice::Auto | DrafterChoice::None => "none".into(),
            DrafterChoice::Medusa => "medusa".into(),
            DrafterChoice::Eagle => "eagle".into(),
            DrafterChoice::Ngram(n) => format!("ngram:{n}"),
            DrafterChoice::Oracle(rates) => {
                let rates: Vec<String> = rates.iter().map(f64::to_string).collect();
                format!("oracle:{}", rates.join(","))
            }
        }
    }

    /// True for plain decoding.
    pub fn is_plain(&self) -> bool {
        self.choice == DrafterChoice::None || self.builder.max_depth() == 0
    }

    /// The drafter, with its weights on the model's device.
    ///
    /// # Errors
    /// When the heads do not fit the model or cannot be read.
    pub fn load(&self, decoder: &Arc<Decoder>, seed: u64) -> Result<Loaded, Failure> {
        if let DrafterChoice::Ngram(n) = self.choice {
            return Ok(Loaded::Other(Box::new(NgramDrafter::new(n))));
        }
        let Some(folder) = self.heads.as_ref().filter(|_| self.choice != DrafterChoice::None) else {
            return Ok(Loaded::Other(Box::new(gorgon_draft::drafter::NoDrafter)));
        };
        Ok(match &self.choice {
            DrafterChoice::Oracle(rates) => {
                let (inner, vocab) = (drafter(&held(folder)?, folder, decoder)?, decoder.config().vocab_size);
                Loaded::Oracle(Box::new(OracleDrafter::new(inner, rates.clone(), vocab, seed)))
            }
            choice => Loaded::Other(drafter(choice, folder, decoder)?),
        })
    }
}

impl Drafting {
    /// As [`Self::load`], and with the stored tree drafting stops wherever it does not pay.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub fn load_for_use(&self, decoder: &Arc<Decoder>, seed: u64) -> Result<Loaded, Failure> {
        let device = decoder.compute().choice().to_string();
        Ok(match (self.load(decoder, seed)?, &self.cost) {
            (Loaded::Other(drafter), Some((cost, measured_on))) if *measured_on == device && !self.is_plain() => {
                Loaded::Other(Box::new(FallbackDrafter::new(drafter, *cost)))
            }
            (loaded, _) => loaded,
        })
    }
}

/// The drafter that a folder's heads are for.
fn held(folder: &HeadsFolder) -> Result<DrafterChoice, Failure> {
    let format = folder.detected.format;
    match format.method() {
        "medusa" => Ok(DrafterChoice::Medusa),
        "eagle" => Ok(DrafterChoice::Eagle),
        _ => {
            let message = format!("{}: {format} heads cannot be decoded with yet", folder.path.display());
            Err(Failure::input(message))
        }
    }
}

/// Heads on the model's device.
fn drafter(choice: &DrafterChoice, folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Result<Box<dyn Drafter>, Failure> {
    Ok(match choice {
        DrafterChoice::Eagle => eagle(folder, decoder)?,
        _ => Box::new(MedusaDrafter::new(MedusaModel::load(folder, decoder.clone())?)),
    })
}

/// A draft layer of the generation that the folder holds.
fn eagle(folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Result<Box<dyn Drafter>, Failure> {
    Ok(match folder.detected.format {
        HeadsFormat::Eagle3 | HeadsFormat::Eagle3Speculators | HeadsFormat::Eagle3ModelOpt => {
            Box::new(EagleDrafter::new(Eagle3Model::load(folder, decoder.clone())?))
        }
        _ => Box::new(EagleDrafter::new(EagleModel::load(folder, decoder.clone())?)),
    })
}

/// A drafter that is ready.
pub enum Loaded {
    /// One that has to be told the truth first.
    Oracle(Box<OracleDrafter>),
    /// Any other.
    Other(Box<dyn Drafter>),
}

impl Loaded {
    /// As any drafter.
    pub fn drafter(&mut self) -> &mut dyn Drafter {
        match self {
            Self::Oracle(oracle) => oracle.as_mut(),
            Self::Other(other) => other.as_mut(),
        }
    }
}

fn builder(
    tree: Option<&TreeChoice>,
    choice: &DrafterChoice,
    heads: Option<&HeadsFolder>,
) -> Result<(String, Box<dyn TreeBuilder>), Failure> {
    let fixed = |name: String, shape: TreeShape| (name, Box::new(FixedTree::new(shape)) as Box<dyn TreeBuilder>);
    let root = || TreeShape::new(vec![]).map_err(Failure::input);
    if *choice == DrafterChoice::None {
        return Ok(fixed("none".into(), root()?));
    }
    if let (None, DrafterChoice::Ngram(_)) = (tree, choice) {
        let chain = ChainTree::new(NGRAM_CHAIN).map_err(Failure::input)?;
        return Ok((format!("chain:{NGRAM_CHAIN}"), Box::new(chain)));
    }
    let stored = heads.map(|folder| folder.path.join(TREE_FILE)).filter(|path| path.is_file());
    let Some(tree) = tree else {
        return match stored {
            Some(path) => Ok(fixed("calibrated".into(), file(&path)?)),
            None if heads.is_some_and(|folder| folder.detected.format.method() == "eagle") => {
                let (total, depth, top_k) = EAGLE_TREE;
                let dynamic = DynamicTree::new(total, depth, top_k).map_err(Failure::input)?;
                Ok((TreeChoice::Dynamic(dynamic).to_string(), Box::new(dynamic)))
            }
            None => {
                let published: PublishedTree = "mc_sim_7b_63".parse().map_err(Failure::input)?;
                Ok(fixed(published.name().into(), published.shape().clone()))
            }
        };
    };
    let name = tree.to_string();
    Ok(match tree {
        TreeChoice::None => fixed(name, root()?),
        TreeChoice::Chain(chain) => (name, Box::new(*chain)),
        TreeChoice::Published(published) => fixed(name, published.shape().clone()),
        TreeChoice::Dynamic(dynamic) => (name, Box::new(*dynamic)),
        TreeChoice::File(path) => fixed(name, file(path)?),
        TreeChoice::Calibrated => fixed(name, file(&stored.ok_or_else(|| unmeasured(tree))?)?),
        TreeChoice::Sequoia { nodes } => {
            let record = heads.map(|folder| CalibrationRecord::read(&folder.path)).transpose()?.flatten();
            fixed(name, sequoia_choice(&record.ok_or_else(|| unmeasured(tree))?, Some(*nodes))?.shape)
        }
    })
}

fn unmeasured(tree: &TreeChoice) -> Failure {
    Failure::input(format!("--tree {tree}: nothing was measured for these heads"))
        .hint("gorgon tree calibrate measures it")
}

/// A tree from a file: a list of rank paths.
///
/// # Errors
/// When it cannot be read or is no such list.
pub fn file(path: &Path) -> Result<TreeShape, Failure> {
    let wrong = |reason: String| Failure::input(format!("{}: {reason}", path.display()));
    let bytes = gorgon_model::file::read(path, 1 << 20).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    TreeShape::from_json(&text).map_err(|error| wrong(error.to_string()))
}
