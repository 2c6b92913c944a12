//! Where steps are recorded on a GPU in place of being launched one operation at a time, and how that went.

use super::{DrafterChoice, Drafting};
use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{DynamicTree, TreeShape};
use gorgon_draft::eagle::three::Eagle3Model;
use gorgon_draft::eagle::{DeviceLayer, EagleModel};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::format::HeadsMethod;
use gorgon_draft::medusa::MedusaModel;
use gorgon_infer::{DecodeError, Recorded, StepCounts};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use serde_json::{Value, json};
use std::sync::Arc;

/// How steps are taken on a GPU: `recorded` where they can be, or `launched`, which always works.
const STEPS: &str = "GORGON_STEPS";

/// Drafter of a recorded step.
enum Kind<'a> {
    Nothing,
    Medusa(&'a HeadsFolder, TreeShape),
    Eagle(&'a HeadsFolder, DynamicTree),
}

/// Recorded steps for a sequence of at most `tokens` tokens, where there are any: on a GPU, with the greedy rule or with
/// the coupled one at a temperature without top-k and top-p. They are without drafts, with Medusa heads and a tree of
/// fixed shape, or with an EAGLE layer and a dynamic tree or a chain, unless drafting stops where it does not pay.
///
/// # Errors
/// When heads do not fit the model or cannot be read, or the environment asks for a way of taking steps that there is
/// not.
pub fn steps(
    drafting: &Drafting,
    decoder: &Arc<Decoder>,
    tokens: usize,
    (rule, transform): (RuleChoice, Transform),
) -> Result<Option<Recorded>, Failure> {
    let asked = std::env::var(STEPS).unwrap_or_default();
    if !matches!(asked.as_str(), "" | "recorded" | "launched") {
        return Err(Failure::input(format!("{STEPS}={asked}: expected recorded or launched")));
    }
    let is_elsewhere = decoder.compute().is_host() || decoder.compute().is_split();
    let is_recorded = rule == RuleChoice::Greedy || is_sampled(rule, &transform);
    if is_elsewhere || !is_recorded || asked == "launched" {
        return Ok(None);
    }
    let device = decoder.compute().choice().to_string();
    let nodes = drafting.builder.max_nodes();
    let Some(kind) = kind(drafting).filter(|_| Recorded::takes(nodes) && !drafting.stops_on(&device)) else {
        return Ok(None);
    };
    let target = |hooks| DecoderTarget::new(decoder.clone(), tokens, hooks);
    let made = match kind {
        Kind::Nothing => {
            let root = TreeShape::new(vec![]).map_err(Failure::input)?;
            Recorded::new(target(Hooks::none()), None, &root)
        }
        Kind::Medusa(folder, shape) => {
            Recorded::new(target(Hooks::none()), Some(MedusaModel::load(folder, decoder.clone())?), &shape)
        }
        Kind::Eagle(folder, tree) => {
            let layer = eagle_layer(folder, decoder)?;
            Recorded::eagle(target(layer.needs().hooks), layer, &tree, false)
        }
    };
    match made {
        Ok(recorded) if is_sampled(rule, &transform) => Ok(Some(recorded.at_temperature(transform.temperature()))),
        Ok(recorded) => Ok(Some(recorded)),
        // Trees of other sizes are grown by the host.
        Err(DecodeError::Growth(_)) => Ok(None),
        Err(error) => Err(Failure::run(error)),
    }
}

/// True if recorded steps sample with this rule: coupled, above temperature 0, without top-k and top-p.
fn is_sampled(rule: RuleChoice, transform: &Transform) -> bool {
    let is_cut = transform.top_k().is_some() || transform.top_p().is_some();
    rule == RuleChoice::Coupled && !transform.is_greedy() && !is_cut
}

/// The draft layer of EAGLE heads, whatever their generation.
fn eagle_layer(folder: &HeadsFolder, decoder: &Arc<Decoder>) -> Result<Box<dyn DeviceLayer>, Failure> {
    Ok(match folder.detected.format {
        HeadsFormat::Eagle3 | HeadsFormat::Eagle3Speculators | HeadsFormat::Eagle3ModelOpt => {
            Box::new(Eagle3Model::load(folder, decoder.clone())?)
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
        | HeadsFormat::Probes(_) => Box::new(EagleModel::load(folder, decoder.clone())?),
    })
}

fn kind(drafting: &Drafting) -> Option<Kind<'_>> {
    if drafting.is_plain() {
        return Some(Kind::Nothing);
    }
    let (choice, folder) = drafting.heads()?;
    match choice {
        DrafterChoice::Heads(HeadsMethod::Medusa) => Some(Kind::Medusa(folder, drafting.builder.kind().shape()?)),
        DrafterChoice::Heads(HeadsMethod::Eagle) => Some(Kind::Eagle(folder, drafting.builder.kind().as_dynamic()?)),
        DrafterChoice::Heads(
            HeadsMethod::Hydra | HeadsMethod::Mtp | HeadsMethod::Block | HeadsMethod::Kangaroo | HeadsMethod::Probes(_),
        )
        | DrafterChoice::Auto
        | DrafterChoice::Measured
        | DrafterChoice::None
        | DrafterChoice::TrainingFree(_)
        | DrafterChoice::Model(_)
        | DrafterChoice::Composed(_)
        | DrafterChoice::Handover { .. }
        | DrafterChoice::Oracle(_) => None,
    }
}

/// Says so if a device refused to record a step, and gives what was counted.
pub fn report(counts: StepCounts, settings: &Settings) -> Value {
    let StepCounts { steps, reads, replays, recordings, fallbacks } = counts;
    if fallbacks > 0 {
        settings.console.say(format!(
            "note: the device refused {fallbacks} of {recordings} recordings: steps are launched one operation at a time"
        ));
    }
    json!({"steps": steps, "reads": reads, "replays": replays, "recordings": recordings, "fallbacks": fallbacks})
}
