//! EAGLE-1 and EAGLE-2 (Li et al., 2024): drafting in feature space with one decoder layer. EAGLE-3 is in [`three`].
//!
//! A *feature* `f_i` is the backbone's state after its final norm at token `x_i`. The drafter guesses the next one from
//! it and from the token that came after it, `f̂_{i+1} = Layer(W [E(x_{i+1}); f_i] + b)`, and the backbone's LM head
//! makes the distribution of `x_{i+2}` of it. Deeper guesses read guessed features in place of the backbone's. The
//! layer is a Llama decoder layer without a norm in front of its attention; embedding and LM head are the backbone's.
//! EAGLE-2 is the same network with a dynamic tree ([`gorgon_core::tree::DynamicTree`]).
//!
//! The embedding comes first in the concatenation, as in every published checkpoint. Positions count pairs: pair `i`
//! is `(f_i, x_{i+1})`, from 0.

mod config;
mod device_layer;
mod export;
mod feature_layer;
mod layer;
mod loss;
mod model;
mod network;
mod on_device;
mod propose;
pub mod three;

pub use config::{EagleConfig, EagleShape};
pub use device_layer::DeviceLayer;
pub use export::export;
pub use feature_layer::{Columns, FeatureLayer};
pub(crate) use layer::embedded;
pub use loss::{Criterion, EagleBatch, EagleOutput, losses};
pub use model::EagleModel;
pub use network::EagleNetwork;
pub use on_device::{EagleOnDevice, GrowthError};
pub use propose::EagleDrafter;
