//! Files of drafters that are of the weights of one model.

use super::Drafting;
use crate::console::Console;
use crate::failure::Failure;
use crate::fitting::MERGED;
use crate::not_a_model::base_model;
use crate::{files, load, store};
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_draft::draft_model::{DraftModel, DraftSampling};
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_model::config::ModelConfig;
use std::path::Path;

impl Drafting {
    /// Adapts to text of the model in a folder that is accepted by a rule: a draft model must have its tokens, and
    /// drafts must be as the rule expects.
    ///
    /// # Errors
    /// When the draft model has other tokens, or heads are to draft for a model with an encoder.
    pub fn for_text_of(
        mut self,
        target: &Path,
        (rule, transform): (RuleChoice, Transform),
        console: &Console,
    ) -> Result<Self, Failure> {
        if let Some(folder) = &self.heads {
            console.say_all(fitted_with_another(folder, target));
            load::refuse_encoder(target, &ModelConfig::read(target)?, "--heads")?;
        }
        self.check_vocabularies(target)?;
        self.stores().try_for_each(|store| store::check(store, target))?;
        self.bind(target)?;
        Ok(Self { sampling: DraftSampling::of(rule, transform), target: Some(target.into()), ..self })
    }

    /// Fails unless every draft model has the tokens of the target.
    pub(super) fn check_vocabularies(&self, target: &Path) -> Result<(), Failure> {
        let mut models = self.models().into_iter();
        Ok(models.try_for_each(|draft| DraftModel::check_vocabulary(draft, target))?)
    }

    /// Binds the files that drafters write to the weights of the models that they draft for. Weights are hashed only
    /// where there is such a file.
    ///
    /// # Errors
    /// When a file is of other weights, or weights cannot be read.
    pub(super) fn bind(&mut self, target: &Path) -> Result<(), Failure> {
        self.choice.each_method(&mut |method, model| match method.is_of_weights() {
            true => method.bind(&files::weights_hash(model.unwrap_or(target))?).map_err(Failure::input),
            false => Ok(()),
        })
    }
}

/// A warning where heads were fitted together with a model that is here, and draft for another one.
fn fitted_with_another(heads: &HeadsFolder, target: &Path) -> Option<String> {
    let base = base_model(&folder::config(&heads.path).ok()??)?;
    let base = Path::new(&base);
    if !base.ends_with(MERGED) || base.canonicalize().ok()? == target.canonicalize().ok()? {
        return None;
    }
    Some(format!("warning: these heads were fitted with the model in {}, and draft worse for another", base.display()))
}
