//! Writing heads for other engines.

use crate::folder::HeadsError;
use gorgon_runs::tensors::{self, Source, Stored};
use half::f16;
use safetensors::Dtype;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// A tensor to write: name, shape, values.
pub(crate) type Named = (String, Vec<usize>, Vec<f32>);

/// Writes tensors in f16 as `file` and a `config.json` into `out`, which exists; `from` is where they come from.
///
/// # Errors
/// When a weight does not fit f16, or a file cannot be written.
pub(crate) fn write(
    from: &Path,
    tensors: Vec<Named>,
    config: &Value,
    file: &str,
    out: &Path,
) -> Result<(), HeadsError> {
    write_beside(from, &[], tensors, config, file, out)
}

/// The same with tensors that are no weights, as they are, in front.
///
/// # Errors
/// As of [`write`].
pub(crate) fn write_beside(
    from: &Path,
    stored: &[Stored],
    tensors: Vec<Named>,
    config: &Value,
    file: &str,
    out: &Path,
) -> Result<(), HeadsError> {
    let mut sources: Vec<Source<'_>> = stored.iter().map(Stored::source).collect();
    for (name, shape, values) in tensors {
        let narrow: Vec<u8> = values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect();
        if values.iter().any(|&v| !f16::from_f32(v).is_finite()) {
            let reason = format!("{name}: a weight is beyond what f16 can hold");
            return Err(HeadsError::Format { path: from.into(), reason });
        }
        let fill = Box::new(move |file: &mut dyn Write| file.write_all(&narrow));
        sources.push(Source { name, dtype: Dtype::F16, shape, fill });
    }
    let failed = |error: std::io::Error| HeadsError::Format { path: out.into(), reason: error.to_string() };
    tensors::write(&out.join(file), &sources).map_err(failed)?;
    let text = serde_json::to_string_pretty(config).unwrap_or_default();
    gorgon_runs::atomic::write(&out.join("config.json"), |file| file.write_all(text.as_bytes())).map_err(failed)
}
