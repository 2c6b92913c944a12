//! A draft layer that was loaded for decoding.

use super::device_layer::DeviceLayer;
use super::feature_layer::{Columns, FeatureLayer};
use super::layer::{check_backbone, embedded, embedded_on_device, embedding, layer_config};
use crate::drafter::DraftError;
use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, HeadsFormat};
use burn::tensor::{Distribution, Int, Tensor};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::embedding::Embedding;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::linear::{Linear, Loader, Weight};
use gorgon_model::pass::PassOutput;
use gorgon_model::weights::{Checkpoint, WeightsError};
use std::sync::Arc;

/// A draft layer on a device, beside its backbone.
#[derive(Debug)]
pub struct EagleModel {
    decoder: Arc<Decoder>,
    /// The file's own table; the backbone's serves where there is none.
    embedding: Option<Embedding>,
    fc: Linear,
    layer: DraftDecoderLayer,
}

impl EagleModel {
    /// Loads a recognised EAGLE-1/2 draft layer for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, come without a usable config, or cannot be
    /// read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let spec = match (&folder.detected.spec, folder.detected.format) {
            (HeadSpec::Eagle(spec), HeadsFormat::Eagle1) => spec,
            (_, format) => return Err(wrong(format!("{format} heads, not an EAGLE-1 draft layer"))),
        };
        check_backbone(folder, spec.hidden_size, spec.vocab_size, decoder.config())?;
        let config = layer_config(folder, spec, decoder.config())?;
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let embedding = embedding(&loader, spec)?;
        let fc = loader.linear(&["fc".to_owned()], spec.fc_bias)?;
        let layer = DraftDecoderLayer::load_without_input_norm(&folder.checkpoint, config, "layers.0.", &compute)?;
        Ok(Self { decoder, embedding, fc, layer })
    }

    /// A layer of the backbone's sizes with random weights beside a decoder on a GPU: for measuring, since what it
    /// costs does not depend on what it says.
    ///
    /// # Errors
    /// When the decoder is on the CPU.
    pub fn drawn(decoder: Arc<Decoder>) -> Result<Self, WeightsError> {
        let compute = decoder.compute().clone();
        // One layer, also where a cache is made for it.
        let mut config = decoder.config().clone();
        config.layers = 1;
        let checkpoint = Checkpoint::drawn(&config);
        let layer = DraftDecoderLayer::load_without_input_norm(&checkpoint, config, "model.layers.0.", &compute)?;
        let d = decoder.config().hidden_size;
        let bound = (1.5 / d as f64).sqrt();
        let place = (compute.device(), compute.activation());
        let fc = Tensor::random([d, 2 * d], Distribution::Uniform(-bound, bound), place);
        Ok(Self { decoder, embedding: None, fc: Linear::new(Weight::Dense(fc)), layer })
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// Bytes that one draft step reads: the layer, `fc` and the backbone's LM head apart.
    pub fn bytes(&self) -> usize {
        self.fc.bytes() + self.layer.bytes()
    }

    /// `W [E(x); f] + b`.
    fn input(&self, embedded: HiddenStates, features: HiddenStates) -> HiddenStates {
        self.fc.forward(&HiddenStates::concat_columns(&[embedded, features]))
    }
}

/// `f̂ = Layer(W [E(x); f] + b)`.
impl FeatureLayer for EagleModel {
    fn states(&self, output: &PassOutput, rows: &[usize]) -> Result<HiddenStates, DraftError> {
        Ok(output.hidden.select(rows))
    }

    fn new_cache(&self, capacity: usize) -> KvCache {
        self.layer.new_cache(capacity)
    }

    fn forward(
        &self,
        tokens: &[Token],
        states: &HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError> {
        let embedded = embedded(&self.decoder, self.embedding.as_ref(), tokens)?;
        cache.extend_reservation(tokens.len());
        Ok(self.layer.forward(None, self.input(embedded, states.clone()), visible, cache)?)
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.decoder.draft_logits(states)
    }

    fn columns(&self) -> Columns<'_> {
        Columns::All(self.vocab_size())
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.decoder.top_tokens(states, widths)
    }
}

impl DeviceLayer for EagleModel {
    fn states_on_device(&self, output: &PassOutput, rows: Tensor<1, Int>) -> Result<Tensor<3>, DraftError> {
        Ok(output.hidden.tensor().select(1, rows))
    }

    fn forward_on_device(
        &self,
        pass_table: &PassTable,
        states: Tensor<3>,
        cache: &mut KvCache,
    ) -> Result<Tensor<3>, ModelError> {
        let embedded = embedded_on_device(&self.decoder, self.embedding.as_ref(), pass_table.tokens());
        let x = self.input(embedded, HiddenStates::on_device(states)).into_tensor();
        Ok(self.layer.forward_table(None, x, pass_table, cache)?)
    }

    fn logits_on_device(&self, states: &Tensor<3>) -> Tensor<3> {
        self.decoder.draft_logits_tensor(states)
    }

    fn layer(&self) -> &DraftDecoderLayer {
        &self.layer
    }
}
