//! Checkpoints whose linear layers are stored in fewer bits than their numbers have.
//!
//! `config.json` names the method and the modules it was applied to ([`Quantisation`]); a module `X` then has no tensor
//! `X.weight` of floats but several tensors of codes, scales and zero points. Each format says which tensors those are
//! and how they make the matrix `W [out, in]`: in `f32`, scales widened first, with nothing rounded to 16 bits. Formats
//! of integers also hand out the integers ([`Codes`]).
//!
//! Activations are not quantised: settings for them and stored scales of them are ignored. Logits therefore differ
//! slightly from those of programs that quantise activations too.
//!
//! A model is written in one of these formats, `pack-quantized` of compressed-tensors ([`Plan`]).
//!
//! Everything read here is untrusted. Sizes are checked against the tensors that are there before anything is allocated.

mod awq;
mod bits;
mod bitsandbytes;
mod codes;
mod compressed;
mod floats;
mod format;
mod fp8;
mod gguf;
mod gptq;
mod integers;
mod matrix;
mod patterns;
mod plan;
mod settings;
mod tensors;
mod write;

pub use self::codes::{Codes, Zeros};
pub use self::plan::{Plan, PlannedMatrix, Scheme};
pub use self::settings::Quantisation;
pub use self::write::{KindErrors, WriteError, Written};

pub(crate) use self::format::Format;
pub(crate) use self::matrix::{Matrix, check};
pub(crate) use self::tensors::{Store, Tensors};

use crate::config::fields::{Fields, quoted, read_object};
use std::path::Path;

/// The settings in the `config.json` of a folder; `None` where there are none that can be used, which
/// [`crate::config::ModelConfig::read`] reports.
pub(crate) fn of_folder(dir: &Path) -> Option<Quantisation> {
    let fields = Fields(read_object(dir, "config.json").ok()?);
    parse(&fields).ok()?
}

/// The value of `quantization_config`, if there is one.
///
/// # Errors
/// A description of the first setting that is not supported, of the wrong type or out of range.
pub(crate) fn parse(config: &Fields) -> Result<Option<Quantisation>, String> {
    const KEY: &str = "quantization_config";
    let Some(settings) = config.get(KEY) else { return Ok(None) };
    let object = settings.as_object().ok_or_else(|| format!("{KEY} is no JSON object"))?;
    let fields = Fields(object.clone());
    of_method(&fields).map(Some).map_err(|reason| format!("{KEY}.{reason}"))
}

fn of_method(f: &Fields) -> Result<Quantisation, String> {
    const SUPPORTED: &str = "compressed-tensors, fp8, gptq, awq, bitsandbytes and gguf";
    match f.text("quant_method")? {
        Some("compressed-tensors") => compressed::parse(f),
        Some("fp8") => fp8::parse(f),
        Some("gptq") => gptq::parse(f),
        Some("awq") => awq::parse(f),
        Some("bitsandbytes") => bitsandbytes::parse(f),
        Some(settings::GGUF) => gguf::parse(f),
        Some(other) => Err(format!("quant_method is {}; {SUPPORTED} are supported", quoted(other))),
        None => Err(format!("quant_method is missing; {SUPPORTED} are supported")),
    }
}
