//! Memory that drafting takes.

use super::{DrafterChoice, Drafting};
use crate::failure::Failure;
use gorgon_draft::composed::Composed;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::measured;
use gorgon_draft::store::{LiveStore, StoreFile};
use gorgon_draft::training_free::TrainingFree;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use gorgon_model::lm_head;
use gorgon_model::weights::Checkpoint;
use std::sync::Arc;

impl Drafting {
    /// The stores that it reads.
    pub(super) fn stores(&self) -> impl Iterator<Item = &StoreFile> {
        let inner = if let DrafterChoice::Composed(composed) = self.choice.last() { composed.store() } else { None };
        self.choice.methods().filter_map(TrainingFree::store).chain(inner)
    }

    /// The store of finished answers that grows while it drafts, if there is one.
    pub fn live_store(&self) -> Option<Arc<LiveStore>> {
        self.stores().find_map(StoreFile::live).cloned()
    }

    /// Bytes of the weights that draft for a model, and of what is kept of a sequence of so many tokens: for heads at
    /// most a layer of the model's own for each layer of theirs, without heads a table or a part of the model's cache.
    ///
    /// # Errors
    /// When a draft model cannot be read.
    pub fn memory(&self, model: &ModelConfig, compute: &Compute, tokens: usize) -> Result<(u128, u128), Failure> {
        let mut models = (self.stores().map(StoreFile::bytes).sum(), 0);
        let composed = if let DrafterChoice::Composed(composed) = self.choice.last() { Some(composed) } else { None };
        let (cached, beside) = composed.map_or((tokens, 0), |composed| composed.kept(model, compute, tokens));
        models.1 += beside;
        let mut then = composed.and_then(Composed::then);
        for dir in self.models() {
            let config = ModelConfig::read(dir)?;
            models.0 += Checkpoint::open(dir)?.loaded_bytes(compute) as u128;
            models.1 += KvCache::bytes(&config, compute, cached);
            models.1 += then.take().map_or(0, |method| method.bytes(&config, compute, tokens));
        }
        models.1 += self.choice.methods().map(|method| method.bytes(model, compute, tokens)).sum::<u128>();
        if self.choice == DrafterChoice::Measured {
            models.1 += measured::bytes(model, compute, tokens);
        }
        let Some(folder) = self.heads.as_ref().filter(|_| self.models().is_empty()) else { return Ok(models) };
        let layers = folder.checkpoint.entries().keys().filter(|name| name.ends_with("k_proj.weight")).count();
        let layer = KvCache::bytes(model, compute, tokens) / model.layers.max(1) as u128;
        Ok((models.0 + folder.checkpoint.loaded_bytes(compute) as u128, models.1 + layer * layers as u128))
    }

    /// Bytes of copies in 8 bits that find top tokens: of the model's LM head, where the text is greedy or heads
    /// ask it too, and of one that the heads have of their own.
    pub fn copies(drafting: Option<&Self>, model: &ModelConfig, greedy: bool, compute: &Compute) -> [u64; 2] {
        // Drafts are ranked where a tree looks at nothing but ranks.
        let ranked = drafting.filter(|drafting| drafting.builder.ranks_at(0).is_some());
        let heads = ranked.and_then(|drafting| drafting.heads.as_ref());
        let own = heads.and_then(HeadsFolder::shared_lm_head);
        let models = greedy || (heads.is_some() && own.is_none());
        [
            if models { lm_head::prefilter_bytes_of(model, compute) } else { 0 },
            own.map_or(0, |(inputs, outputs)| lm_head::prefilter_bytes(inputs, outputs, compute)),
        ]
    }
}
