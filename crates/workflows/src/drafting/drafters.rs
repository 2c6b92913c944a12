//! Drafters that share their weights: one for each sequence that is decoded at a time.

use super::choice::DrafterChoice;
use crate::failure::Failure;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{Drafter, NoDrafter};
use gorgon_draft::eagle::three::Eagle3Model;
use gorgon_draft::eagle::{EagleDrafter, EagleModel};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::hydra::{HydraDrafter, HydraModel};
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_draft::mtp::{MtpDrafter, MtpModel};
use gorgon_draft::ngram::NgramDrafter;
use gorgon_model::decoder::Decoder;
use std::sync::Arc;

/// What drafters are made of.
pub enum Drafters {
    /// Nothing: plain decoding.
    None,
    /// The length of what is looked up.
    Ngram(usize),
    /// A draft model and how it drafts.
    DraftModel(DraftModel, DraftSampling),
    /// Medusa heads.
    Medusa(Arc<MedusaModel>),
    /// Hydra heads.
    Hydra(Arc<HydraModel>),
    /// Multi-token-prediction modules.
    Mtp(Arc<MtpModel>),
    /// An EAGLE-1 draft layer.
    Eagle(Arc<EagleModel>),
    /// An EAGLE-3 draft layer.
    Eagle3(Arc<Eagle3Model>),
}

impl Drafters {
    /// Heads on the model's device.
    ///
    /// # Errors
    /// When they do not fit the model or cannot be read.
    pub fn of_heads(choice: &DrafterChoice, folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Result<Self, Failure> {
        let decoder = decoder.clone();
        Ok(match (choice, folder.detected.format) {
            (
                DrafterChoice::Eagle,
                HeadsFormat::Eagle3 | HeadsFormat::Eagle3Speculators | HeadsFormat::Eagle3ModelOpt,
            ) => Self::Eagle3(Arc::new(Eagle3Model::load(folder, decoder)?)),
            (DrafterChoice::Eagle, _) => Self::Eagle(Arc::new(EagleModel::load(folder, decoder)?)),
            (DrafterChoice::Hydra, _) => Self::Hydra(Arc::new(HydraModel::load(folder, decoder)?)),
            (DrafterChoice::Mtp, _) => Self::Mtp(Arc::new(MtpModel::load(folder, decoder)?)),
            _ => Self::Medusa(Arc::new(MedusaModel::load(folder, decoder)?)),
        })
    }

    /// A drafter for one sequence.
    pub fn drafter(&self) -> Box<dyn Drafter> {
        match self {
            Self::None => Box::new(NoDrafter),
            Self::Ngram(n) => Box::new(NgramDrafter::new(*n)),
            Self::DraftModel(model, law) => Box::new(DraftModelDrafter::new(model.clone(), *law)),
            Self::Medusa(model) => Box::new(MedusaDrafter::sharing(model.clone())),
            Self::Hydra(model) => Box::new(HydraDrafter::sharing(model.clone())),
            Self::Mtp(model) => Box::new(MtpDrafter::sharing(model.clone())),
            Self::Eagle(model) => Box::new(EagleDrafter::sharing(model.clone())),
            Self::Eagle3(model) => Box::new(EagleDrafter::sharing(model.clone())),
        }
    }
}
