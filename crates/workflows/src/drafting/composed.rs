//! Drafters that are made of other drafters, with their weights.

use super::tree::builder;
use crate::failure::Failure;
use crate::load;
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::choice::{DrafterChoice, Drafters};
use gorgon_draft::composed::{CascadeName, Composed, OuroborosName, SpecInferName, Then, TriForceName};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::specinfer::SpecInferDrafter;
use gorgon_draft::training_free::TrainingFreeMethod;
use gorgon_infer::cascade::{CascadeDrafter, Inner, inner_sampling};
use gorgon_infer::ouroboros::OuroborosDrafter;
use gorgon_infer::triforce::TriForceDrafter;
use gorgon_model::decoder::Decoder;
use std::path::Path;
use std::sync::Arc;

/// Drafters of a name, all with the same weights.
///
/// # Errors
/// When a model cannot be loaded, or a method cannot draft for it.
pub(super) fn drafters(
    composed: &Composed,
    decoder: &Arc<Decoder>,
    sampling: DraftSampling,
) -> Result<Drafters, Failure> {
    match composed {
        Composed::SpecInfer(name) => specinfer(name, decoder, sampling),
        Composed::Cascade(name) => cascade(name, decoder, sampling),
        Composed::Ouroboros(name) => ouroboros(name, decoder, sampling),
        Composed::TriForce(name) => triforce(name, decoder, sampling),
    }
}

fn model(dir: &Path, decoder: &Arc<Decoder>) -> Result<DraftModel, Failure> {
    let name = format!("model:{}", dir.display());
    Ok(DraftModel::new(name, load::draft_model(dir, decoder)?, decoder.config()))
}

fn specinfer(name: &SpecInferName, decoder: &Arc<Decoder>, sampling: DraftSampling) -> Result<Drafters, Failure> {
    let shape = name.shape().map_err(Failure::input)?;
    let models = name.models.iter().map(|dir| model(dir, decoder)).collect::<Result<Vec<_>, _>>()?;
    let name = name.to_string();
    Ok(Drafters::Composed(Box::new(move || {
        let sources = models.iter().map(|model| DraftModelDrafter::new(model.clone(), sampling)).collect();
        Box::new(SpecInferDrafter::new(name.clone(), sources, shape.clone()))
    })))
}

fn cascade(name: &CascadeName, decoder: &Arc<Decoder>, sampling: DraftSampling) -> Result<Drafters, Failure> {
    let first = model(&name.model, decoder)?;
    let config = first.decoder().config();
    let then = match &name.then {
        Then::None => Drafters::None,
        Then::Model(dir) => {
            let then = model(dir, decoder)?.within(config.vocab_size);
            Drafters::DraftModel(then, inner_sampling(&sampling))
        }
        Then::TrainingFree(method) => {
            method.check(config).map_err(|reason| Failure::input(format!("then={method}: {reason}")))?;
            Drafters::TrainingFree(method.clone(), inner_sampling(&sampling))
        }
    };
    let (_, tree) = builder(Some(&name.inner_tree()), &DrafterChoice::Auto, None, None)?;
    let inner = Inner { tree: Arc::<dyn TreeBuilder>::from(tree), tail: name.tail };
    let name = name.to_string();
    Ok(Drafters::Composed(Box::new(move || {
        Box::new(CascadeDrafter::new(name.clone(), &first, (then.drafter(), inner.clone()), sampling))
    })))
}

fn ouroboros(name: &OuroborosName, decoder: &Arc<Decoder>, sampling: DraftSampling) -> Result<Drafters, Failure> {
    let (name, settings, model) = (name.to_string(), name.settings, model(&name.model, decoder)?);
    Ok(Drafters::Composed(Box::new(move || Box::new(OuroborosDrafter::new(name.clone(), &model, settings, sampling)))))
}

fn triforce(name: &TriForceName, decoder: &Arc<Decoder>, sampling: DraftSampling) -> Result<Drafters, Failure> {
    name.partial.check(decoder.config()).map_err(Failure::input)?;
    let small = model(&name.model, decoder)?;
    let (positions, rows) = (small.decoder().config().max_positions, name.window.rows() + name.ahead);
    if rows > positions {
        let message =
            format!("{name}: sinks, window and ahead are {rows} rows, and the small model has {positions} positions");
        return Err(Failure::input(message).hint("name a smaller window="));
    }
    let ahead = ChainTree::new(name.ahead).map_err(Failure::input)?;
    let (retrieval, window, name) = (name.partial.0, name.window, name.to_string());
    Ok(Drafters::Composed(Box::new(move || {
        let small = DraftModelDrafter::streaming(small.clone(), inner_sampling(&sampling), window);
        Box::new(TriForceDrafter::new(name.clone(), retrieval, (small, ahead), sampling))
    })))
}
