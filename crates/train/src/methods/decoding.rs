//! Held-out prompts in an evaluation, decoded with the heads by the decoder that users run.

use super::conversations::Conversations;
use super::features::Features;
use super::windows::Windows;
use crate::checkpoint;
use crate::error::{TrainError, io};
use crate::evaluation::Decoded;
use crate::parameters::Parameter;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy};
use gorgon_core::tree::{ChainTree, DynamicTree, TreeBuilder, TreeChoice, TrellisTree};
use gorgon_data::pack::Packing;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::folder::{HeadsError, HeadsFolder};
use gorgon_draft::probes::{ProbeShape, default_tree};
use gorgon_infer::{Limits, Method, Request, Session};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::DecoderTarget;
use gorgon_runs::tensors::Stored;
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Nodes, expansions and width of the tree that draft layers are measured with: the default of decoding.
const LAYER_TREE: (usize, usize, usize) = (60, 5, 10);

/// The tree that draft layers are measured with.
///
/// # Errors
/// When its sizes contradict each other: a defect of this program.
pub(super) fn layer_tree() -> Result<DynamicTree, TrainError> {
    let (total, depth, top_k) = LAYER_TREE;
    DynamicTree::new(total, depth, top_k).map_err(|error| TrainError::Data(error.to_string()))
}

/// Nodes of the tree that block drafters are measured with: the default of decoding.
const BLOCK_TREE: usize = 60;

/// The tree that block drafters are measured with.
///
/// # Errors
/// As of [`layer_tree`].
pub(super) fn block_tree() -> Result<TrellisTree, TrainError> {
    TrellisTree::new(BLOCK_TREE, TrellisTree::DEPTH).map_err(|error| TrainError::Data(error.to_string()))
}

/// The tree that probes are measured with: the default of decoding.
pub(super) fn probe_tree(shape: &ProbeShape) -> Box<dyn TreeBuilder> {
    match default_tree(shape.kind, shape.places) {
        TreeChoice::Own(own) => Box::new(own),
        TreeChoice::Chain(chain) => Box::new(chain),
        _ => Box::new(ChainTree::ROOT),
    }
}

/// Drafts of the chain that adapters on an early exit are measured with: the default of decoding.
const ADAPTER_CHAIN: usize = 6;

/// The tree that adapters on an early exit are measured with.
///
/// # Errors
/// As of [`layer_tree`].
pub(super) fn adapter_tree() -> Result<ChainTree, TrainError> {
    ChainTree::new(ADAPTER_CHAIN).map_err(|error| TrainError::Data(error.to_string()))
}

/// The record of steps with these numbers of accepted drafts; `None` without steps.
fn decoded(accepted: &[usize]) -> Option<Decoded> {
    let steps = accepted.len();
    let share = |n: usize| accepted.iter().filter(|&&drafts| drafts >= n).count() as f64 / steps as f64;
    let deepest = accepted.iter().copied().max()?;
    let tokens = accepted.iter().sum::<usize>() + steps;
    Some(Decoded { tokens_per_step: tokens as f64 / steps as f64, by_depth: (1..=deepest).map(share).collect() })
}

/// Loads a drafter from a folder of heads.
pub type Load = fn(&HeadsFolder, Arc<Decoder>) -> Result<Box<dyn Drafter>, HeadsError>;

impl Conversations {
    /// The held-out conversations that are decoded, with the model in a folder instead of the backbone.
    ///
    /// # Errors
    /// When the model cannot be loaded.
    pub(super) fn on_model(&self, folder: &Path) -> Result<Self, TrainError> {
        let compute = self.features.decoder.compute();
        let decoder = Decoder::load(folder, compute).map_err(|error| TrainError::Data(error.to_string()))?;
        Ok(Self {
            features: Features { decoder: Arc::new(decoder), cache: None },
            rows: vec![],
            held_out: self.held_out.iter().take(self.decoded_prompts).cloned().collect(),
            packing: Packing::new(vec![], 1, 1, 0),
            base: folder.display().to_string(),
            decoded_prompts: self.decoded_prompts,
            decoded_tokens: self.decoded_tokens,
            init_from: None,
            windows: Windows::default(),
        })
    }

    /// [`Self::decode`] with the default tree of draft layers.
    pub(super) fn decode_layer(
        &self,
        parameters: &[Parameter],
        constants: &[Stored],
        document: &Value,
        load: Load,
    ) -> Result<Option<Decoded>, TrainError> {
        self.decode(parameters, constants, document, load, &layer_tree()?)
    }

    /// Decodes the first held-out prompts greedily with these parameters and constants; `None` if no prompt leaves room
    /// for a step.
    pub(super) fn decode(
        &self,
        parameters: &[Parameter],
        constants: &[Stored],
        document: &Value,
        load: Load,
        builder: &dyn TreeBuilder,
    ) -> Result<Option<Decoded>, TrainError> {
        if self.decoded_prompts == 0 {
            return Ok(None);
        }
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        // Through files, as users load heads: this measures what users will run.
        let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
        checkpoint::write_parameters(folder.path(), parameters, constants)?;
        let path = folder.path().join("config.json");
        std::fs::write(&path, document.to_string()).map_err(io(&path))?;
        let heads = HeadsFolder::open(folder.path()).map_err(|error| wrong(&error))?;
        let mut drafter = load(&heads, self.features.decoder.clone()).map_err(|error| wrong(&error))?;
        self.decode_with(drafter.as_mut(), builder)
    }

    /// Decodes the first held-out prompts greedily with any drafter; `None` if no prompt leaves room
    /// for a step.
    ///
    /// # Errors
    /// When the backbone or the drafter fails.
    pub fn decode_with(
        &self,
        drafter: &mut dyn Drafter,
        builder: &dyn TreeBuilder,
    ) -> Result<Option<Decoded>, TrainError> {
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let decoder = &self.features.decoder;
        let context = decoder.config().max_positions;
        let limits = Limits { max_new_tokens: self.decoded_tokens, end_tokens: decoder.config().eos_tokens.clone() };
        let mut target = DecoderTarget::new(decoder.clone(), context, drafter.needs().hooks);
        let mut accepted = vec![];
        for row in self.held_out.iter().take(self.decoded_prompts) {
            let prompt = row.example.assistant.iter().position(|own| *own).unwrap_or(0);
            if prompt == 0 || prompt + self.decoded_tokens > context || self.decoded_tokens == 0 {
                continue;
            }
            let (rule, random): (&dyn AcceptanceRule, _) = (&Greedy, &mut SeededRandom::new(0));
            let generation = Session::new(&mut target, &mut *drafter).generate(
                Method { tree: builder, rule },
                Request::new(&row.example.ids[..prompt], &limits, random),
                &mut |_| ControlFlow::Continue(()),
            );
            accepted.extend(generation.map_err(|error| wrong(&error))?.accepted);
        }
        Ok(decoded(&accepted))
    }
}
