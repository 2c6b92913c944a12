//! Every kind of drafter, heads with random weights.
#![allow(dead_code)] // tests of gorgon-draft use the rest

#[path = "../../../../draft/tests/all/block/random.rs"]
pub mod block;
#[path = "../../../../draft/tests/all/eagle/random.rs"]
pub mod eagle;
#[path = "../../../../draft/tests/all/hydra/random.rs"]
pub mod hydra;
#[path = "../../../../draft/tests/all/mtp/random.rs"]
pub mod mtp;
pub(crate) use crate::random_medusa;

use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{DynamicTree, FixedTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::block::{BlockConfig, BlockDrafter, SelectorConfig};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::{EagleDrafter, EagleShape};
use gorgon_draft::format::ProbeKind;
use gorgon_draft::hydra::HydraDrafter;
use gorgon_draft::medusa::MedusaDrafter;
use gorgon_draft::mtp::MtpDrafter;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_draft::probes::{ProbeDrafter, ProbeModel, ProbeShape};
use gorgon_model::decoder::Decoder;
use std::sync::Arc;

/// Makes a drafter for a sequence.
pub type Make = Box<dyn Fn() -> Box<dyn Drafter>>;

/// The drafters by name.
pub fn drafters(decoder: &Arc<Decoder>, temperature: f64) -> Vec<(&'static str, Make)> {
    let mut all: Vec<(&'static str, Make)> = vec![("ngram", Box::new(|| Box::new(NgramDrafter::new(3))))];
    for damage in [None, Some(f32::NAN)] {
        let model = Arc::new(random_medusa::model(decoder, false, damage));
        all.push(("medusa", Box::new(move || Box::new(MedusaDrafter::sharing(model.clone())))));
    }
    // Where one value of the layer is no number, all that it guesses is none.
    let broken = tempfile::tempdir().unwrap();
    let shape = EagleShape::of(decoder.config(), true);
    eagle::write(broken.path(), &shape, |tensors, _| tensors[0].2[5] = f32::NAN);
    let broken = Arc::new(eagle::load(broken.path(), decoder).unwrap());
    all.push(("eagle", Box::new(move || Box::new(EagleDrafter::sharing(broken.clone())))));
    let one = Arc::new(eagle::model(decoder, true));
    all.push(("eagle", Box::new(move || Box::new(EagleDrafter::sharing(one.clone())))));
    let three = Arc::new(eagle::model_three(decoder));
    all.push(("eagle3", Box::new(move || Box::new(EagleDrafter::sharing(three.clone())))));
    for config in hydra::kinds() {
        let model = Arc::new(hydra::model(decoder, config));
        all.push(("hydra", Box::new(move || Box::new(HydraDrafter::sharing(model.clone())))));
    }
    let modules = Arc::new(mtp::model(decoder, 3));
    all.push(("mtp", Box::new(move || Box::new(MtpDrafter::sharing(modules.clone())))));
    for causal in [false, true] {
        let selector = (!causal).then_some(SelectorConfig { k: 4, rank: 3 });
        let config = BlockConfig { causal, window: causal.then_some(6), conv: causal, selector, ..block::config() };
        let model = Arc::new(block::model(decoder, &config));
        all.push(("block", Box::new(move || Box::new(BlockDrafter::sharing(model.clone())))));
    }
    all.extend(probes(decoder));
    // The target drafts for itself, so that much is accepted.
    let sampling = DraftSampling::of(RuleChoice::Auto, Transform::new(temperature, None, None).unwrap());
    let model = DraftModel::new("model:itself".into(), decoder.clone(), decoder.config());
    all.push(("model", Box::new(move || Box::new(DraftModelDrafter::new(model.clone(), sampling)))));
    all
}

/// Drafters with embeddings of their own, by name.
pub fn probes(decoder: &Arc<Decoder>) -> Vec<(&'static str, Make)> {
    let mut all: Vec<(&'static str, Make)> = vec![];
    let pass = |two_pass| (ProbeKind::Pass, 4, 1, two_pass);
    let kinds = [(ProbeKind::Ppd, 3, 2, false), pass(false), pass(true), (ProbeKind::Space, 3, 1, false)];
    for (kind, places, members, two_pass) in kinds {
        let (hidden_size, vocab_size) = (decoder.config().hidden_size, decoder.config().vocab_size);
        let shape = ProbeShape { kind, places, members, hidden_size, vocab_size, two_pass };
        let values = (0..shape.rows() * hidden_size).map(|i| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 0.2);
        let model = Arc::new(ProbeModel::of(shape, values.collect(), decoder.clone()));
        all.push((kind.name(), Box::new(move || Box::new(ProbeDrafter::sharing(model.clone())))));
    }
    all
}

pub fn builders() -> Vec<Box<dyn TreeBuilder>> {
    vec![
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
        Box::new(TrellisTree::new(10, 4).unwrap()),
    ]
}
