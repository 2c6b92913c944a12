//! Why decoding fails.

use gorgon_draft::drafter::DraftError;
use gorgon_draft::eagle::GrowthError;
use gorgon_model::decoder::ModelError;

/// Why decoding failed.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The drafter.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// Logits that a rule had to read are no numbers.
    #[error(
        "the model's logits at position {position} are not finite: its weights are damaged or overflow this format"
    )]
    NonFinite {
        /// The slot of the sequence; 0 where there is one sequence.
        slot: usize,
        /// Tokens before.
        position: usize,
    },
    /// Steps cannot be recorded there.
    #[error("steps are recorded on one GPU only, not on {device}")]
    NotRecorded {
        /// The device by name.
        device: String,
    },
    /// Steps on a device sample by the noise of a random source that has none.
    #[error("a recorded step samples by the noise of its random source, and this source has none")]
    NoNoise,
    /// Trees cannot be grown on a device.
    #[error(transparent)]
    Growth(#[from] GrowthError),
    /// The prompt and the new tokens do not fit.
    #[error("a prompt of {prompt} tokens and {new} new tokens do not fit a context of {context} tokens")]
    Context {
        /// Prompt tokens.
        prompt: usize,
        /// New tokens asked for.
        new: usize,
        /// Tokens that fit.
        context: usize,
    },
    /// A step whose turns do not name increasing slots that there are.
    #[error("a step of slots {slots:?} of {count}: each has to be named once, in increasing order")]
    Turns {
        /// The slots that were named.
        slots: Vec<usize>,
        /// How many slots there are.
        count: usize,
    },
}
