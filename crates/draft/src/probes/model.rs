//! Probes that were loaded for decoding.

use super::config::ProbeShape;
use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{HeadSpec, ProbeKind, ProbeSpec};
use gorgon_core::PooledVec;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Embeddings on a device, beside their backbone.
#[derive(Debug)]
pub struct ProbeModel {
    decoder: Arc<Decoder>,
    shape: ProbeShape,
    /// `[rows, d]`.
    table: Arc<HiddenStates>,
}

impl ProbeModel {
    /// Loads recognised probes for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, or cannot be read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let HeadSpec::Probes(spec) = &folder.detected.spec else {
            return Err(wrong(format!("{} heads, not probes", folder.detected.format.method())));
        };
        let ProbeSpec { kind, places, members, hidden_size, vocab_size, two_pass } = *spec;
        let backbone = decoder.config();
        if hidden_size != backbone.hidden_size {
            let ours = backbone.hidden_size;
            return Err(wrong(format!("probes for a hidden size of {hidden_size}; the model's is {ours}")));
        }
        if let Some(theirs) = vocab_size.filter(|vocab| *vocab != backbone.vocab_size) {
            return Err(wrong(format!("probes for a vocabulary of {theirs}; the model's is {}", backbone.vocab_size)));
        }
        let shape = ProbeShape { kind, places, members, hidden_size, vocab_size: backbone.vocab_size, two_pass };
        let values = folder.checkpoint.read_all(kind.tensor())?;
        Ok(Self { table: Arc::new(on_device(values, &decoder, hidden_size)), decoder, shape })
    }

    /// Probes with these values `[rows · d]`, row by row.
    pub fn of(shape: ProbeShape, values: Vec<f32>, decoder: Arc<Decoder>) -> Self {
        Self { table: Arc::new(on_device(values, &decoder, shape.hidden_size)), decoder, shape }
    }

    /// Their sizes.
    pub fn shape(&self) -> &ProbeShape {
        &self.shape
    }

    /// Their kind.
    pub fn kind(&self) -> ProbeKind {
        self.shape.kind
    }

    /// The embeddings, `[rows, d]`.
    pub fn table(&self) -> &Arc<HiddenStates> {
        &self.table
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.shape.vocab_size
    }

    /// Logits of states, row by row.
    pub fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.decoder.draft_logits(states)
    }

    /// The mean of each place over the members of an ensemble.
    ///
    /// # Shapes
    /// `states [members · places, d]`, member by member; result `[places, d]`.
    pub fn mean(&self, states: HiddenStates) -> HiddenStates {
        let members = self.shape.members;
        if members == 1 {
            return states;
        }
        let places = states.rows() / members;
        match states {
            HiddenStates::Host { values, width } => {
                let mut mean = PooledVec::of(0.0, places * width);
                for member in values.chunks_exact(places * width) {
                    mean.iter_mut().zip(member).for_each(|(mean, value)| *mean += value / members as f32);
                }
                HiddenStates::Host { values: mean, width }
            }
            HiddenStates::Device(states) => {
                let width = states.dims()[2];
                let by_member = states.reshape([1, members, places * width]);
                HiddenStates::on_device(by_member.mean_dim(1).reshape([1, places, width]))
            }
        }
    }
}

/// Values `[rows · width]` where the decoder is, in its number format.
fn on_device(values: Vec<f32>, decoder: &Decoder, width: usize) -> HiddenStates {
    let (rows, compute) = (values.len() / width.max(1), decoder.compute());
    if compute.is_host() {
        return HiddenStates::Host { values: values.into(), width };
    }
    let data = burn::tensor::TensorData::new(values, [1, rows, width]);
    HiddenStates::on_device(burn::tensor::Tensor::from_data(data, (compute.device(), compute.activation())))
}
