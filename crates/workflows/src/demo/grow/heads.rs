//! Medusa heads for a grown body: the same drafts from wider states.

use super::matrix::{Fill, Growing, seed};
use super::sizes::FACTOR;
use crate::failure::Failure;
use crate::files;
use gorgon_draft::folder::{self, HeadsFolder};
use gorgon_draft::format::{HeadSpec, LmHeads, MedusaSpec};
use gorgon_draft::ngram_table;
use gorgon_runs::tensors::{self, Source};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Writes the Medusa heads of a folder into another folder, which is there, for the body whose folder is `base`.
///
/// # Errors
/// When the heads cannot be read or are of another kind, or the folder cannot be written.
pub(super) fn write(heads: &HeadsFolder, base: &str, out: &Path) -> Result<(), Failure> {
    let wrong = |reason: String| Failure::input(format!("{}: {reason}", heads.path.display()));
    let HeadSpec::Medusa(spec) = &heads.detected.spec else {
        return Err(wrong(format!("{} heads are not grown, only Medusa heads", heads.detected.format.method())));
    };
    let path = out.join("model.safetensors");
    let sources = parts(spec).into_iter().map(|part| source(heads, part)).collect::<Result<Vec<_>, _>>();
    tensors::write(&path, &sources.map_err(wrong)?).map_err(|error| Failure::io(&path, &error))?;
    let mut config = folder::config(&heads.path)?.unwrap_or_else(|| json!({}));
    let Some(fields) = config.as_object_mut() else { return Err(wrong("config.json: not a JSON object".into())) };
    fields.insert("hidden_size".into(), Value::from(spec.hidden_size.saturating_mul(FACTOR)));
    fields.insert("base_model_name_or_path".into(), base.into());
    files::write_json(&out.join("config.json"), &config)?;
    // The n-grams of the answers are tokens, which no width changes.
    let ngrams = heads.path.join(ngram_table::FILE);
    if ngrams.is_file() { files::copy(&ngrams, &out.join(ngram_table::FILE)) } else { Ok(()) }
}

/// A tensor of the heads, and whether it is a linear layer between hidden states.
struct Part {
    name: String,
    square: bool,
}

fn parts(spec: &MedusaSpec) -> Vec<Part> {
    let mut parts = vec![];
    for head in 0..spec.heads {
        for block in 0..spec.blocks {
            let name = spec.naming.linear(head, block);
            parts.push(Part { name: format!("{name}.weight"), square: true });
            if spec.bias {
                parts.push(Part { name: format!("{name}.bias"), square: true });
            }
        }
        if spec.lm_heads == LmHeads::PerHead {
            parts.push(Part { name: spec.naming.lm_head(head, spec.blocks), square: false });
        }
    }
    if let LmHeads::Shared { tensor } = &spec.lm_heads {
        parts.push(Part { name: tensor.clone(), square: false });
    }
    parts
}

/// A grown tensor. Its new channels stay zero from block to block, as those of the body do.
fn source(heads: &HeadsFolder, Part { name, square }: Part) -> Result<Source<'_>, String> {
    let entry = heads.checkpoint.entries().get(&name).ok_or_else(|| format!("{name} is missing"))?;
    let wider = |n: usize| n.checked_mul(FACTOR).ok_or_else(|| format!("{name} is too wide"));
    let (from, to, shape) = match (entry.shape.as_slice(), square) {
        (&[rows, columns], true) => {
            let to = [wider(rows)?, wider(columns)?];
            ([rows, columns], to, to.to_vec())
        }
        (&[rows, columns], false) => {
            let to = [rows, wider(columns)?];
            ([rows, columns], to, to.to_vec())
        }
        (&[values], true) => ([1, values], [1, wider(values)?], vec![wider(values)?]),
        _ => return Err(format!("{name} is {:?}, which is not grown", entry.shape)),
    };
    let bias = shape.len() == 1;
    let columns = if bias { Fill::Zeros } else { Fill::Random };
    let growing = Growing { from, to, scale: 1.0, columns, rows: Fill::Zeros, seed: seed(&name) };
    let (dtype, checkpoint, read) = (entry.dtype, &heads.checkpoint, name.clone());
    let fill = Box::new(move |file: &mut dyn Write| {
        let values = checkpoint.read_all(&read).map_err(std::io::Error::other)?;
        growing.write(&values, dtype, file)
    });
    Ok(Source { name, dtype, shape, fill })
}
