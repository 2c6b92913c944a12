//! From `--heads`, `--drafter` and `--tree` to what takes part in a step.

mod bound;
mod by_times;
mod composed;
mod memory;
mod named;
mod newer;
mod nodes;
mod ratios;
pub mod recording;
mod sequoia;
pub mod stored_tree;
mod tree;

pub use self::newer::Newer;
pub(crate) use self::ratios::step_ratios;
pub use self::sequoia::{SequoiaChoice, sequoia_choice};
pub use gorgon_draft::choice::{DrafterChoice, Drafters};

use self::named::named;
use self::stored_tree::TREE_FILE;
use self::tree::{CALIBRATED, TRELLIS, builder};
use crate::console::Console;
use crate::failure::Failure;
use crate::fitting::FITTED_MODEL;
use crate::load;
use crate::settings::Settings;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{
    ChainTree, FixedTree, NgramTable, RowCalibration, TreeBuilder, TreeChoice, TreeKind, TreeShape, TrellisTree,
};
use gorgon_draft::calibrated::CalibratedDrafter;
use gorgon_draft::draft_model::{DraftModel, DraftSampling};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fallback::FallbackDrafter;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::handover;
use gorgon_draft::measured;
use gorgon_draft::ngram_table;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_draft::step_costs::StepCosts;
use gorgon_model::decoder::Decoder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requested drafter, tree and heads, before any weights are read.
pub struct Drafting {
    choice: DrafterChoice,
    heads: Option<HeadsFolder>,
    /// The tree's name.
    pub tree_name: String,
    /// Arranges the drafts.
    pub builder: Box<dyn TreeBuilder>,
    /// How many plain steps a step lasts, where the tree was calibrated on this kind of device and not named by hand.
    cost: Option<(f64, String)>,
    /// Where a drafter's probabilities are corrected while it drafts: the measured start, and the n-grams of answers.
    corrected: Option<(RowCalibration, Option<Arc<NgramTable>>)>,
    /// Where the steps that are decoded are timed: the largest tree, and the times that are known before.
    timed: Option<(TrellisTree, StepCosts)>,
    /// How a draft model drafts, which depends on the acceptance rule.
    sampling: DraftSampling,
    /// Folder of the model whose text is drafted, once it is known.
    target: Option<PathBuf>,
}

impl Drafting {
    /// Opens the heads and resolves the tree.
    ///
    /// # Errors
    /// When heads are missing or wrong, or the tree is none.
    pub fn resolve(
        heads: Option<&Path>,
        choice: &DrafterChoice,
        tree: Option<&TreeChoice>,
        console: &Console,
    ) -> Result<Self, Failure> {
        let heads = heads.map(|path| load::heads(path, console)).transpose()?;
        let choice = named(choice, heads.as_ref())?;
        if let Some(tree) = tree.filter(|tree| choice == DrafterChoice::None && **tree != TreeChoice::None) {
            return Err(Failure::input(format!("tree {tree}: without heads or a drafter there is nothing to arrange"))
                .hint("name heads or a drafter too, or leave the tree out"));
        }
        let stored = heads.as_ref().map(|folder| folder.path.join(TREE_FILE)).filter(|path| path.is_file());
        let (tree_name, builder) = builder(tree, &choice, heads.as_ref(), stored)?;
        report(&choice, heads.as_ref(), (&tree_name, builder.max_nodes()), tree.is_some());
        if let DrafterChoice::TrainingFree(method) = choice.last() {
            method.check_tree(&builder.kind()).map_err(Failure::input)?;
        }
        if choice == DrafterChoice::Measured && builder.max_depth() > 0 {
            measured::check_tree(&builder.kind()).map_err(Failure::input)?;
        }
        if let DrafterChoice::Composed(composed) = choice.last()
            && builder.max_depth() > 0
        {
            composed.check_tree(&builder.kind()).map_err(Failure::input)?;
        }
        let record = match (&heads, tree) {
            (Some(folder), None) if tree_name == CALIBRATED => CalibrationRecord::read(&folder.path)?,
            _ => None,
        };
        let cost = record.and_then(|record| Some((record.cost(builder.max_nodes())?, record.device)));
        let corrected = match tree_name.parse() {
            Ok(TreeChoice::Trellis(_)) => Some(row_calibration(heads.as_ref())?),
            _ => None,
        };
        let sampling = DraftSampling::GREEDY;
        Ok(Self { choice, heads, tree_name, builder, cost, corrected, timed: None, sampling, target: None })
    }

    /// The folders of the draft models that draft.
    fn models(&self) -> Vec<&PathBuf> {
        match self.choice.last() {
            DrafterChoice::Model(dir) => vec![dir],
            DrafterChoice::Composed(composed) => composed.models(),
            DrafterChoice::Auto
            | DrafterChoice::Measured
            | DrafterChoice::None
            | DrafterChoice::Heads(_)
            | DrafterChoice::TrainingFree(_)
            | DrafterChoice::Handover { .. }
            | DrafterChoice::Oracle(_) => vec![],
        }
    }

    /// Where a calibration found that no tree pays: the best tree with drafts, so that there is something to measure.
    ///
    /// # Errors
    /// When the calibration's record cannot be read.
    pub fn or_best_tree(self, settings: &Settings) -> Result<Self, Failure> {
        let folder = self.heads.as_ref().filter(|_| self.tree_name == CALIBRATED && self.builder.max_depth() == 0);
        let Some(folder) = folder else { return Ok(self) };
        let record = CalibrationRecord::read(&folder.path)?.filter(|record| !record.drafting_tree.is_empty());
        let (tree_name, builder): (String, Box<dyn TreeBuilder>) = match record {
            Some(record) => {
                let shape = TreeShape::new(record.drafting_tree).map_err(Failure::input)?;
                (format!("best with drafts, {} nodes", shape.len()), Box::new(FixedTree::new(shape)))
            }
            None => ("chain:1".to_owned(), Box::new(ChainTree::new(1).map_err(Failure::input)?)),
        };
        settings.console.say(format!(
            "note: the last calibration of these heads expects no tree to beat plain decoding here; measured is \"{tree_name}\""
        ));
        Ok(Self { tree_name, builder, cost: None, ..self })
    }

    /// Whether heads draft of which nothing was measured yet.
    ///
    /// # Errors
    /// When a record of a calibration cannot be read.
    pub fn is_uncalibrated(&self) -> Result<bool, Failure> {
        let Some(folder) = &self.heads else { return Ok(false) };
        Ok(CalibrationRecord::read(&folder.path)?.is_none())
    }

    /// The draft model, if that is what drafts, on the target's device.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn draft_model(&self, decoder: &Decoder) -> Result<Option<DraftModel>, Failure> {
        let DrafterChoice::Model(dir) = self.choice.last() else { return Ok(None) };
        Ok(Some(DraftModel::new(self.choice.last().to_string(), load::draft_model(dir, decoder)?, decoder.config())))
    }

    /// Opens heads, or a fitted draft model, with the tree that their kind is decoded with before one is measured: what
    /// evaluations take.
    ///
    /// # Errors
    /// When they are missing or wrong.
    pub fn unmeasured(heads: &Path) -> Result<Self, Failure> {
        if heads.ends_with(FITTED_MODEL) {
            return Self::resolve(None, &DrafterChoice::Model(heads.into()), None, &Console::silent());
        }
        let heads = HeadsFolder::open(heads)?;
        let choice = DrafterChoice::Heads(heads.detected.format.method());
        let (tree_name, builder) = builder(None, &choice, Some(&heads), None)?;
        Ok(Self {
            choice,
            heads: Some(heads),
            tree_name,
            builder,
            cost: None,
            corrected: None,
            timed: None,
            sampling: DraftSampling::GREEDY,
            target: None,
        })
    }

    /// The drafter's name.
    pub fn name(&self) -> String {
        match &self.choice {
            _ if self.is_plain() => "none".into(),
            choice => choice.to_string(),
        }
    }

    /// Whether heads or a draft model draft, and nothing else: they can be fitted where they are corrected.
    pub fn learns(&self) -> bool {
        matches!(self.choice, DrafterChoice::Model(_) | DrafterChoice::Heads(_))
    }

    /// True if the drafter keeps something of earlier texts: their tokens, or times and gains of their steps. Heads and
    /// draft models that draft alone keep nothing.
    pub fn keeps_texts(&self) -> bool {
        !self.learns() && !matches!(self.choice, DrafterChoice::Oracle(_))
    }

    /// The heads that draft, and as what.
    pub fn heads(&self) -> Option<(&DrafterChoice, &HeadsFolder)> {
        self.heads.as_ref().map(|folder| (&self.choice, folder))
    }

    /// Whether the drafter takes a chain of drafts, whatever its own tree is.
    pub fn takes_chains(&self) -> bool {
        match self.choice.last() {
            DrafterChoice::None | DrafterChoice::Auto | DrafterChoice::Measured => false,
            DrafterChoice::TrainingFree(method) => method.check_tree(&TreeKind::Chain(1)).is_ok(),
            DrafterChoice::Composed(composed) => composed.check_tree(&TreeKind::Chain(1)).is_ok(),
            DrafterChoice::Handover { .. } => true,
            DrafterChoice::Heads(_) | DrafterChoice::Model(_) | DrafterChoice::Oracle(_) => true,
        }
    }

    /// Whether drafting stops on a device wherever it does not pay, going by what steps took there. A handover goes by
    /// them itself.
    pub fn stops_on(&self, device: &str) -> bool {
        !self.is_plain()
            && !matches!(self.choice, DrafterChoice::Handover { .. })
            && self.cost.as_ref().is_some_and(|(_, measured_on)| measured_on == device)
    }

    /// True for plain decoding.
    pub fn is_plain(&self) -> bool {
        match self.choice {
            DrafterChoice::None => true,
            // Where no tree of the heads pays, the first drafter drafts all the same.
            DrafterChoice::Handover { .. } if self.tree_name == CALIBRATED => false,
            _ => self.builder.max_depth() == 0,
        }
    }

    /// The drafter, with its weights on the model's device.
    ///
    /// # Errors
    /// When the heads do not fit the model or cannot be read.
    pub fn load(&self, decoder: &Arc<Decoder>, seed: u64) -> Result<Loaded, Failure> {
        let (DrafterChoice::Oracle(rates), Some(folder)) = (&self.choice, &self.heads) else {
            return Ok(Loaded::Other(self.drafter(&self.drafters(decoder)?)));
        };
        let inner = Drafters::of_heads(folder.detected.format.method(), folder, decoder)?.drafter();
        let vocab = decoder.config().vocab_size;
        Ok(Loaded::Oracle(Box::new(OracleDrafter::new(inner, rates.clone(), vocab, seed))))
    }

    /// One of some drafters, as the tree wants it.
    pub fn drafter(&self, all: &Drafters) -> Box<dyn Drafter> {
        match &self.corrected {
            Some((start, table)) => Box::new(CalibratedDrafter::new(all.drafter(), start.clone(), table.clone())),
            None => all.drafter(),
        }
    }

    /// Drafters of sequences that are decoded together, all with the same weights. An oracle, to which each
    /// sequence has to be revealed first, counts as its heads.
    ///
    /// # Errors
    /// When the heads do not fit the model or cannot be read.
    pub fn drafters(&self, decoder: &Arc<Decoder>) -> Result<Drafters, Failure> {
        self.drafters_of(&self.choice, self.heads.as_ref(), decoder)
    }

    fn drafters_of(
        &self,
        choice: &DrafterChoice,
        heads: Option<&HeadsFolder>,
        decoder: &Arc<Decoder>,
    ) -> Result<Drafters, Failure> {
        Ok(match (choice, heads) {
            (DrafterChoice::Handover { first, below, other }, _) => {
                first.check(decoder.config()).map_err(Failure::input)?;
                let ratios = if below.is_none() { Some(self.step_ratios(decoder)?) } else { None };
                let other = Box::new(self.drafters_of(other, heads, decoder)?);
                let tree = handover::tree().map_err(Failure::input)?;
                Drafters::Handover { first: first.clone(), tree, ratios, nodes: self.builder.max_nodes(), other }
            }
            (DrafterChoice::None | DrafterChoice::Auto, _) => Drafters::None,
            (DrafterChoice::Measured, _) => Drafters::Measured,
            (DrafterChoice::TrainingFree(method), _) => {
                method.check(decoder.config()).map_err(Failure::input)?;
                Drafters::TrainingFree(method.clone(), self.sampling)
            }
            (DrafterChoice::Model(_), _) => {
                self.draft_model(decoder)?.map_or(Drafters::None, |model| Drafters::DraftModel(model, self.sampling))
            }
            (DrafterChoice::Composed(composed), _) => composed::drafters(composed, decoder, self.sampling)?,
            (DrafterChoice::Heads(_) | DrafterChoice::Oracle(_), None) => Drafters::None,
            (DrafterChoice::Heads(method), Some(folder)) => Drafters::of_heads(*method, folder, decoder)?,
            (DrafterChoice::Oracle(_), Some(folder)) => {
                Drafters::of_heads(folder.detected.format.method(), folder, decoder)?
            }
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
            (Loaded::Other(drafter), Some((cost, _))) if self.stops_on(&device) => {
                Loaded::Other(Box::new(FallbackDrafter::new(drafter, *cost)))
            }
            (Loaded::Other(drafter), _) => Loaded::Other(self.timing(drafter)),
            (loaded, _) => loaded,
        })
    }
}

/// Where the correction of a drafter's probabilities begins: as measured with the heads, or with no correction.
fn row_calibration(heads: Option<&HeadsFolder>) -> Result<(RowCalibration, Option<Arc<NgramTable>>), Failure> {
    let Some(folder) = heads else { return Ok((RowCalibration::new(), None)) };
    let record = CalibrationRecord::read(&folder.path)?;
    let start = RowCalibration::starting_at(record.as_ref().map_or(&[], |record| &record.rows));
    Ok((start, ngrams(folder)?))
}

/// The n-grams of the answers that heads were fitted to, if they are there.
///
/// # Errors
/// When their file is damaged.
pub fn ngrams(heads: &HeadsFolder) -> Result<Option<Arc<NgramTable>>, Failure> {
    let path = heads.path.join(ngram_table::FILE);
    ngram_table::read(&heads.path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// Logs what drafts, in which format its heads are, and why this tree was taken.
fn report(choice: &DrafterChoice, heads: Option<&HeadsFolder>, (tree, nodes): (&str, usize), named: bool) {
    let why = match tree {
        _ if named => "named by --tree",
        CALIBRATED => "stored with the heads",
        TRELLIS => "the fastest in the calibration of the heads",
        _ => "default of the drafter",
    };
    let (folder, format) = heads
        .map_or_else(Default::default, |heads| (heads.path.display().to_string(), heads.detected.format.to_string()));
    tracing::debug!(drafter = %choice, heads = folder, format, tree, nodes, why, "drafter chosen");
}

/// A drafter that is ready.
pub enum Loaded {
    /// An oracle, to which the truth is revealed first.
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
