//! The names of drafters, and drafters that share their weights.

use crate::block::{BlockDrafter, BlockModel};
use crate::composed::Composed;
use crate::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use crate::drafter::{Drafter, NoDrafter};
use crate::eagle::three::Eagle3Model;
use crate::eagle::{EagleDrafter, EagleModel};
use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadsFormat, HeadsMethod, ProbeKind};
use crate::handover::{HandoverDrafter, StepRatios};
use crate::hydra::{HydraDrafter, HydraModel};
use crate::kangaroo::{KangarooDrafter, KangarooModel};
use crate::measured::{self, MeasuredDrafter};
use crate::medusa::{MedusaDrafter, MedusaModel};
use crate::mtp::{MtpDrafter, MtpModel};
use crate::probes::{ProbeDrafter, ProbeModel};
use crate::training_free::TrainingFree;
use gorgon_core::suggest::did_you_mean;
use gorgon_core::tree::OwnTree;
use gorgon_model::decoder::Decoder;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Drafter named by `--drafter`.
#[derive(Clone, Debug, PartialEq)]
pub enum DrafterChoice {
    /// The method of `--heads`; without heads, drafters without weights where they pay.
    Auto,
    /// Drafters without weights, each where its drafts pay.
    Measured,
    /// Plain decoding.
    None,
    /// Heads of a method.
    Heads(HeadsMethod),
    /// A drafter without weights of its own.
    TrainingFree(TrainingFree),
    /// A separate draft model in this folder.
    Model(PathBuf),
    /// One that is made of other drafters.
    Composed(Composed),
    /// Heads at full cost whose tokens are overridden to be right at these rates.
    Oracle(Vec<f64>),
    /// One that goes by matches, and another for where too few tokens match.
    Handover {
        /// The first.
        first: TrainingFree,
        /// Tokens of the shortest match that it drafts for; where none is named, the measured gains decide.
        below: Option<usize>,
        /// The other.
        other: Box<DrafterChoice>,
    },
}

/// Stands in front of the other drafter, and of the first one's threshold.
const ELSE: &str = ",else=";
const BELOW: &str = ",below=";

impl FromStr for DrafterChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((first, other)) = text.split_once(ELSE) {
            return handover(first, other);
        }
        if text.contains(BELOW) {
            return Err(format!("{text:?} names no drafter to hand over to: end it with {ELSE}DRAFTER"));
        }
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        if let Some(parsed) = Composed::parse(name, arguments) {
            return parsed.map(Self::Composed);
        }
        if let Some(parsed) = training_free(text) {
            return parsed.map(Self::TrainingFree);
        }
        let heads = HeadsMethod::ALL.into_iter().find(|method| method.name() == text);
        match (text, name) {
            ("auto", _) => Ok(Self::Auto),
            ("none", _) => Ok(Self::None),
            (_, "oracle") => arguments.split(',').map(rate).collect::<Result<_, _>>().map(Self::Oracle),
            (_, "model") if arguments.is_empty() => Err("model:DIR names a folder with a draft model".into()),
            (_, "model") => Ok(Self::Model(arguments.into())),
            _ => heads.map(Self::Heads).ok_or_else(|| unknown(text)),
        }
    }
}

/// `NAME` or `NAME:ARGUMENTS` of a method without weights; `None` if no such method has the name.
fn training_free(text: &str) -> Option<Result<TrainingFree, String>> {
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let parsed = TrainingFree::parse(name, arguments)?;
    // Without arguments an error begins with the name and two colons.
    let parsed = parsed.map_err(|error| match error.strip_prefix(&format!("{name}:: ")) {
        Some(reason) if arguments.is_empty() => format!("{name}: {reason}"),
        _ => error,
    });
    Some(if text.ends_with(':') { Err(format!("{text:?}: nothing follows the colon")) } else { parsed })
}

/// `FIRST[,below=N]` and the drafter after `,else=`.
fn handover(first: &str, other: &str) -> Result<DrafterChoice, String> {
    let (first, below) = first.rsplit_once(BELOW).map_or((first, None), |(first, below)| (first, Some(below)));
    let number = |below: &str| match below.parse() {
        Ok(below) if below > 0 => Ok(below),
        _ => Err(format!("below={below}: a whole number of tokens from 1 on is expected")),
    };
    let below = below.map(number).transpose()?;
    let parsed = training_free(first).unwrap_or_else(|| Err(unknown_first(first)))?;
    let first = parsed.declining_below(below.unwrap_or(1))?;
    Ok(DrafterChoice::Handover { first, below, other: Box::new(other.parse()?) })
}

fn unknown_first(first: &str) -> String {
    format!("{first:?} hands over to no other drafter; suffix and rest do")
}

fn rate(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err(format!("{text:?} is no rate between 0 and 1")),
    }
}

fn unknown(text: &str) -> String {
    let mut known = vec!["auto", "none"];
    known.extend(HeadsMethod::ALL.map(HeadsMethod::name));
    known.extend(TrainingFree::SYNTAX);
    known.push("model:DIR");
    known.extend(Composed::SYNTAX);
    known.extend(["oracle:R1,R2,…", "suffix[:STORE][,below=N],else=DRAFTER"]);
    // Without what may follow a name.
    let name = |text: &'static str| text.split([':', '[', ',']).next().unwrap_or(text);
    let forms: Vec<&str> =
        known.iter().copied().filter(|known| text.split([':', ',']).next() == Some(name(known))).collect();
    if !forms.is_empty() {
        return format!("{text:?} is not of the form {}", forms.join(" or "));
    }
    let names = known.iter().map(|known| name(known));
    let suggestion = did_you_mean(text, names);
    match suggestion.is_empty() {
        true => format!("no drafter is called {text:?}; known are {}", known.join(", ")),
        false => format!("no drafter is called {text:?}; {suggestion}--help lists all"),
    }
}

impl fmt::Display for DrafterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto | Self::Measured => f.write_str(measured::NAME),
            Self::None => f.write_str("none"),
            Self::Heads(method) => f.write_str(method.name()),
            Self::TrainingFree(method) => method.fmt(f),
            Self::Model(dir) => write!(f, "model:{}", dir.display()),
            Self::Composed(composed) => composed.fmt(f),
            Self::Oracle(rates) => {
                let rates: Vec<String> = rates.iter().map(f64::to_string).collect();
                write!(f, "oracle:{}", rates.join(","))
            }
            Self::Handover { first, below: None, other } => write!(f, "{first}{ELSE}{other}"),
            Self::Handover { first, below: Some(below), other } => write!(f, "{first}{BELOW}{below}{ELSE}{other}"),
        }
    }
}

impl DrafterChoice {
    /// Whether it drafts with heads.
    pub fn needs_heads(&self) -> bool {
        match self {
            Self::Heads(_) | Self::Oracle(_) => true,
            Self::Handover { other, .. } => other.needs_heads(),
            Self::Auto | Self::Measured | Self::None => false,
            Self::TrainingFree(_) | Self::Model(_) | Self::Composed(_) => false,
        }
    }

    /// True if this drafter uses the heads of `--heads`.
    pub fn uses_heads(&self) -> bool {
        match self {
            Self::Auto | Self::Measured => true,
            Self::Handover { other, .. } => other.uses_heads(),
            other => other.needs_heads(),
        }
    }

    /// True if this drafter, or the one it hands over to, has weights: a draft model or heads.
    pub fn has_weights(&self) -> bool {
        match self {
            Self::Heads(_) | Self::Oracle(_) | Self::Model(_) | Self::Composed(_) => true,
            Self::Handover { other, .. } => other.has_weights(),
            Self::Auto | Self::Measured | Self::None | Self::TrainingFree(_) => false,
        }
    }

    /// The method without weights, if one drafts, alone or first.
    pub fn training_free(&self) -> Option<&TrainingFree> {
        match self {
            Self::TrainingFree(method) | Self::Handover { first: method, .. } => Some(method),
            Self::Auto | Self::Measured | Self::None | Self::Heads(_) => None,
            Self::Model(_) | Self::Composed(_) | Self::Oracle(_) => None,
        }
    }

    /// The drafter that it hands over to.
    fn other(&self) -> Option<&Self> {
        match self {
            Self::Handover { other, .. } => Some(other),
            Self::Auto | Self::Measured | Self::None | Self::TrainingFree(_) => None,
            Self::Heads(_) | Self::Model(_) | Self::Composed(_) | Self::Oracle(_) => None,
        }
    }

    /// The last drafter of those that hand over; itself if it does not.
    pub fn last(&self) -> &Self {
        self.other().map_or(self, Self::last)
    }

    /// All live stores that it reads become one, of the largest size that is named.
    pub fn share_live_store(&mut self) {
        let mut shared = None;
        let Ok(()) = self.each_method::<Infallible>(&mut |method, _| {
            method.store_mut().into_iter().for_each(|store| store.share(&mut shared));
            Ok(())
        });
    }

    /// Changes all methods without weights. Each comes with the folder of the model that it drafts for, where that is
    /// not the target.
    ///
    /// # Errors
    /// The first of `work`.
    pub fn each_method<E>(&mut self, work: &mut Change<'_, E>) -> Result<(), E> {
        match self {
            Self::TrainingFree(method) => work(method, None),
            Self::Composed(composed) => composed.then_mut().map_or(Ok(()), |(method, model)| work(method, Some(model))),
            Self::Handover { first, other, .. } => {
                work(first, None)?;
                other.each_method(work)
            }
            Self::Auto | Self::Measured | Self::None | Self::Heads(_) | Self::Model(_) | Self::Oracle(_) => Ok(()),
        }
    }

    /// All methods without weights.
    pub fn methods(&self) -> impl Iterator<Item = &TrainingFree> {
        std::iter::successors(Some(self), |choice| choice.other()).filter_map(Self::training_free)
    }
}

/// A change of a method, with the folder of the model that it drafts for where that is not the target.
type Change<'a, E> = dyn FnMut(&mut TrainingFree, Option<&Path>) -> Result<(), E> + 'a;

/// Drafters that share their weights: one for each sequence that is decoded at a time.
pub enum Drafters {
    /// Plain decoding.
    None,
    /// One without weights of its own, and how it drafts if it draws.
    TrainingFree(TrainingFree, DraftSampling),
    /// A draft model and how it drafts.
    DraftModel(DraftModel, DraftSampling),
    /// Made of other drafters, by a function that shares their weights.
    Composed(Box<dyn Fn() -> Box<dyn Drafter> + Send + Sync>),
    /// Medusa heads.
    Medusa(Arc<MedusaModel>),
    /// Hydra heads.
    Hydra(Arc<HydraModel>),
    /// Multi-token-prediction modules.
    Mtp(Arc<MtpModel>),
    /// A block drafter.
    Block(Arc<BlockModel>),
    /// Probes.
    Probes(Arc<ProbeModel>),
    /// An adapter on an early exit.
    Kangaroo(Arc<KangarooModel>),
    /// An EAGLE-1 draft layer.
    Eagle(Arc<EagleModel>),
    /// An EAGLE-3 draft layer.
    Eagle3(Arc<Eagle3Model>),
    /// Drafters without weights, each where its drafts pay.
    Measured,
    /// One without weights, its tree, and the others.
    Handover {
        /// The first.
        first: TrainingFree,
        /// The first one's tree.
        tree: OwnTree,
        /// How long steps last, where the measured gains decide which one drafts.
        ratios: Option<StepRatios>,
        /// Nodes of the others' usual tree.
        nodes: usize,
        /// The others.
        other: Box<Drafters>,
    },
}

impl Drafters {
    /// Heads of a method, on the model's device.
    ///
    /// # Errors
    /// When they are of another method, do not fit the model or cannot be read.
    pub fn of_heads(method: HeadsMethod, folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Result<Self, HeadsError> {
        let decoder = decoder.clone();
        Ok(match method {
            HeadsMethod::Medusa => Self::Medusa(Arc::new(MedusaModel::load(folder, decoder)?)),
            HeadsMethod::Hydra => Self::Hydra(Arc::new(HydraModel::load(folder, decoder)?)),
            HeadsMethod::Mtp => Self::Mtp(Arc::new(MtpModel::load(folder, decoder)?)),
            HeadsMethod::Kangaroo => Self::Kangaroo(Arc::new(KangarooModel::load(folder, decoder)?)),
            HeadsMethod::Block => Self::Block(Arc::new(BlockModel::load(folder, decoder)?)),
            HeadsMethod::Probes(kind) => Self::Probes(Arc::new(probes_of(kind, folder, decoder)?)),
            HeadsMethod::Eagle => match folder.detected.format {
                HeadsFormat::Eagle3 | HeadsFormat::Eagle3Speculators | HeadsFormat::Eagle3ModelOpt => {
                    Self::Eagle3(Arc::new(Eagle3Model::load(folder, decoder)?))
                }
                // Heads of other methods are refused there.
                HeadsFormat::Eagle1
                | HeadsFormat::MedusaV1
                | HeadsFormat::MedusaV2
                | HeadsFormat::MedusaVllm
                | HeadsFormat::MedusaModelOpt
                | HeadsFormat::MedusaInModel
                | HeadsFormat::Hydra
                | HeadsFormat::HydraPlusPlus
                | HeadsFormat::Mtp
                | HeadsFormat::DFlash
                | HeadsFormat::DFlashSpeculators
                | HeadsFormat::Kangaroo
                | HeadsFormat::Probes(_) => Self::Eagle(Arc::new(EagleModel::load(folder, decoder)?)),
            },
        })
    }

    /// A drafter for one sequence.
    pub fn drafter(&self) -> Box<dyn Drafter> {
        match self {
            Self::None => Box::new(NoDrafter),
            // Trees of fixed sizes have no error.
            Self::Measured => Box::new(MeasuredDrafter::default()),
            Self::TrainingFree(method, sampling) => method.drafter_for(*sampling),
            Self::DraftModel(model, sampling) => Box::new(DraftModelDrafter::new(model.clone(), *sampling)),
            Self::Composed(drafter) => drafter(),
            Self::Medusa(model) => Box::new(MedusaDrafter::sharing(model.clone())),
            Self::Hydra(model) => Box::new(HydraDrafter::sharing(model.clone())),
            Self::Mtp(model) => Box::new(MtpDrafter::sharing(model.clone())),
            Self::Block(model) => Box::new(BlockDrafter::sharing(model.clone())),
            Self::Probes(model) => Box::new(ProbeDrafter::sharing(model.clone())),
            Self::Kangaroo(model) => Box::new(KangarooDrafter::sharing(model.clone())),
            Self::Eagle(model) => Box::new(EagleDrafter::sharing(model.clone())),
            Self::Eagle3(model) => Box::new(EagleDrafter::sharing(model.clone())),
            Self::Handover { first, tree, ratios, nodes, other } => {
                let drafter = HandoverDrafter::new(first.drafter(), other.drafter(), *tree).usually(*nodes);
                Box::new(match ratios {
                    Some(ratios) => drafter.measured(ratios.clone()),
                    None => drafter,
                })
            }
        }
    }
}

/// Probes of a kind; others are refused.
fn probes_of(kind: ProbeKind, folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<ProbeModel, HeadsError> {
    let model = ProbeModel::load(folder, decoder)?;
    if model.kind() == kind {
        return Ok(model);
    }
    let reason = format!("{} heads, not {}", model.kind().name(), kind.name());
    Err(HeadsError::Format { path: folder.path.clone(), reason })
}
