//! The encoder of an encoder-decoder model.

use crate::attention::Pass;
use crate::cache::LayerKv;
use crate::config::ModelConfig;
use crate::cross_attention::CrossAttention;
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::layer::Layer;
use crate::layout::{self, LayerNames};
use crate::linear::Loader;
use crate::norm::Norm;
use crate::position_bias;
use crate::residual::ResidualStream;
use crate::rope::Rope;
use crate::source::EncodedSource;
use gorgon_core::Token;
use gorgon_kernels::tree_attention::{AttentionMask, HostKv, PassRows};

/// An encoder: layers without a mask over the whole source.
#[derive(Debug)]
pub(crate) struct Encoder {
    layers: Vec<Layer>,
    final_norm: Norm,
}

impl Encoder {
    /// The encoder of a config, if it has one.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read, or the device is none that it runs on.
    pub fn load(loader: &Loader<'_>, config: &ModelConfig) -> Result<Option<Self>, ModelError> {
        let Some(encoder) = config.encoder else { return Ok(None) };
        if !loader.compute.is_host() {
            return Err(ModelError::EncoderDevice(loader.compute.choice().to_string()));
        }
        let bias = position_bias::load(loader, config, &LayerNames::of_encoder(config, 0))?;
        let layer = |i| Layer::load(loader, config, &LayerNames::of_encoder(config, i), i);
        let layers = (0..encoder.layers).map(|i| Ok::<_, ModelError>(layer(i)?.biased(bias.clone())));
        let final_norm = Norm::load(loader, layout::ENCODER_NORM, config.norm_plus_one)?;
        Ok(Some(Self { layers: layers.collect::<Result<_, _>>()?, final_norm }))
    }

    /// The source as the decoder's layers read it.
    ///
    /// # Shapes
    /// `x [tokens, d]`: the embeddings of `tokens`.
    pub fn encode<'a>(
        &self,
        config: &ModelConfig,
        rope: &Rope,
        tokens: &[Token],
        x: HiddenStates,
        decoder: impl Iterator<Item = &'a CrossAttention>,
    ) -> EncodedSource {
        let (rows, mask) = (tokens.len(), AttentionMask::Committed { rows: tokens.len() });
        let pass = [Pass::Host { rows: PassRows::new(rows, &mask), rope: rope.table(), source: None }];
        // No layer reads the keys of another.
        let mut kv = LayerKv::Host(HostKv::new(config.kv_heads, rows, config.head_dim));
        let mut stream = ResidualStream::from(x);
        for layer in &self.layers {
            stream = layer.forward(None, stream, config.norm_eps, &pass, &mut [&mut kv]);
        }
        let (_, states) = stream.normed(&self.final_norm, config.norm_eps);
        let layers = decoder.map(|cross| cross.keys_and_values(&states)).collect();
        EncodedSource::new(tokens, states, layers)
    }
}
