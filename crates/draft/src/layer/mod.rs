//! The one decoder layer that drafters of several methods have: its sizes and tensors, and the layer with gradients.
//! The one that decodes is [`gorgon_model::layer::DraftDecoderLayer`].

mod network;
mod shape;

pub use network::LayerNetwork;
pub(crate) use network::linear;
pub use shape::LayerShape;
