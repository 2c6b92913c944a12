//! Writing heads for other engines.

use crate::folder::HeadsError;
use gorgon_model::device::FloatFormat;
use gorgon_runs::tensors::{self, Source, Stored, write_f32};
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// A tensor to write: name, shape, values.
pub(crate) type Named = (String, Vec<usize>, Vec<f32>);

/// The model that heads are for.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// Its name in the config.
    pub name: &'a str,
    /// Its class.
    pub class: &'a str,
    /// Its layers.
    pub layers: usize,
    /// Its vocabulary, V.
    pub vocab_size: usize,
    /// Its embedding as its first layer reads it, `[V, d]`; speculators stores it with the heads.
    pub embedding: Option<&'a [f32]>,
    /// Its LM head, `[V, d]`; speculators stores it with block drafters.
    pub lm_head: Option<&'a [f32]>,
}

/// The folder of an export, and the number format of its weights.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// Where the heads come from, for errors about their weights.
    pub from: &'a Path,
    /// The folder, which exists.
    pub out: &'a Path,
    /// The number format.
    pub dtype: FloatFormat,
}

impl Destination<'_> {
    /// Writes tensors as `file`, and a `config.json` that names their number format.
    ///
    /// # Errors
    /// When a weight does not fit the number format, or a file cannot be written.
    pub(crate) fn write(&self, tensors: Vec<Named>, config: Value, file: &str) -> Result<(), HeadsError> {
        self.write_beside(&[], tensors, config, file)
    }

    /// As [`Self::write`], with tensors that are no weights, as they are, in front.
    ///
    /// # Errors
    /// As of [`Self::write`].
    pub(crate) fn write_beside(
        &self,
        stored: &[Stored],
        tensors: Vec<Named>,
        mut config: Value,
        file: &str,
    ) -> Result<(), HeadsError> {
        let wrong = |path: &Path, reason: String| HeadsError::Format { path: path.into(), reason };
        let mut sources: Vec<Source<'_>> = stored.iter().map(Stored::source).collect();
        for (name, shape, values) in tensors {
            self.check(&name, &values).map_err(|reason| wrong(self.from, reason))?;
            sources.push(source(name, shape, values, self.dtype));
        }
        config["torch_dtype"] = torch_name(self.dtype).into();
        let failed = |source: std::io::Error| HeadsError::Write { path: self.out.into(), source };
        tensors::write(&self.out.join(file), &sources).map_err(failed)?;
        let text = serde_json::to_string_pretty(&config).unwrap_or_default();
        gorgon_runs::atomic::write(&self.out.join("config.json"), |file| file.write_all(text.as_bytes()))
            .map_err(failed)
    }

    /// Fails at the first value that the number format cannot hold.
    fn check(&self, name: &str, values: &[f32]) -> Result<(), String> {
        let fits = |value: f32| match self.dtype {
            FloatFormat::F32 => value.is_finite(),
            FloatFormat::F16 => f16::from_f32(value).is_finite(),
            FloatFormat::Bf16 => bf16::from_f32(value).is_finite(),
        };
        match values.iter().find(|&&value| !fits(value)) {
            None => Ok(()),
            Some(value) if !value.is_finite() => Err(format!("{name}: the weight {value} is not finite")),
            Some(value) => {
                let dtype = self.dtype.name();
                Err(format!(
                    "{name}: the weight {value:e} is beyond what {dtype} can hold; --dtype bf16 or f32 holds it"
                ))
            }
        }
    }
}

fn source(name: String, shape: Vec<usize>, values: Vec<f32>, dtype: FloatFormat) -> Source<'static> {
    let (dtype, fill): (_, Box<tensors::Fill<'static>>) = match dtype {
        FloatFormat::F32 => (Dtype::F32, Box::new(move |file: &mut dyn Write| write_f32(file, &values))),
        FloatFormat::F16 => (Dtype::F16, narrow(&values, |value| f16::from_f32(value).to_le_bytes())),
        FloatFormat::Bf16 => (Dtype::BF16, narrow(&values, |value| bf16::from_f32(value).to_le_bytes())),
    };
    Source { name, dtype, shape, fill }
}

fn narrow(values: &[f32], round: impl Fn(f32) -> [u8; 2]) -> Box<tensors::Fill<'static>> {
    let bytes: Vec<u8> = values.iter().flat_map(|&value| round(value)).collect();
    Box::new(move |file: &mut dyn Write| file.write_all(&bytes))
}

/// The number format as PyTorch's configs name it.
pub fn torch_name(dtype: FloatFormat) -> &'static str {
    match dtype {
        FloatFormat::F32 => "float32",
        FloatFormat::F16 => "float16",
        FloatFormat::Bf16 => "bfloat16",
    }
}
