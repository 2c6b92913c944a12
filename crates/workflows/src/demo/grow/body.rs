//! A model in a larger body: the same logits from more weights.
//!
//! The residual stream gets channels that stay zero: no embedding, attention or feed-forward network writes to them. A
//! norm of width `D` over `d` channels and zeros divides by `sqrt(d/D)` of the root mean square, which its weights and
//! `eps` make up for. New heads and new columns of the feed-forward network compute, and the output projections
//! multiply the results by zero.

use super::matrix::{Fill, Growing, seed};
use super::sizes::{FACTOR, NORM_SCALE, grown};
use crate::failure::Failure;
use crate::files;
use crate::units::count;
use gorgon_model::config::ModelConfig;
use gorgon_model::layout::{self, TensorSpec};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{self, Source};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Writes the model of a folder into another folder, which is there, in a body of some `parameters` parameters.
/// Returns how many it has.
///
/// # Errors
/// When the model cannot be read, its family cannot be grown, or the folder cannot be written.
pub(super) fn write(model: &Path, parameters: u128, out: &Path) -> Result<u128, Failure> {
    let small = ModelConfig::read(model)?;
    let refused = |reason: String| Failure::input(format!("{}: {reason}", model.display()));
    let large = grown(&small, parameters).map_err(refused)?;
    let checkpoint = Checkpoint::open(model)?.finite();
    checkpoint.check(&small)?;
    let path = out.join("model.safetensors");
    let (before, after) = (layout::tensors(&small), layout::tensors(&large));
    let sources: Vec<Source<'_>> = before.iter().zip(after).map(|(from, to)| source(&checkpoint, from, to)).collect();
    tensors::write(&path, &sources).map_err(|error| Failure::io(&path, &error))?;
    files::copy_tokenizer(model, out)?;
    let parameters = large.parameters();
    files::write_json(&out.join("config.json"), &config(model, &large)?)?;
    let card = out.join("README.md");
    gorgon_runs::atomic::write(&card, |file| file.write_all(text(model, &small, parameters).as_bytes()))
        .map_err(|error| Failure::io(&card, &error))?;
    Ok(parameters)
}

/// The sentence that config, card and output share.
pub fn described(parameters: u128) -> String {
    let parameters = count(parameters);
    format!(
        "the same model in a body of {parameters} parameters, so that weights come from memory as those of a real one do"
    )
}

fn source<'a>(checkpoint: &'a Checkpoint, from: &TensorSpec, to: TensorSpec) -> Source<'a> {
    let name = to.name.clone();
    let growing = growing(from, &to);
    // It was checked that the tensor is there.
    let dtype = checkpoint.entries().get(&name).map_or(safetensors::Dtype::F32, |entry| entry.dtype);
    let fill = Box::new(move |file: &mut dyn Write| {
        let values = checkpoint.read_all(&name).map_err(std::io::Error::other)?;
        growing.write(&values, dtype, file)
    });
    Source { name: to.name, dtype, shape: to.shape, fill }
}

fn growing(from: &TensorSpec, to: &TensorSpec) -> Growing {
    let matrix = |shape: &[usize]| match *shape {
        [rows, columns] => [rows, columns],
        _ => [1, shape.iter().product()],
    };
    let name = from.name.as_str();
    let norm = from.shape.len() == 1 && name.ends_with("norm.weight");
    let scale = if norm { NORM_SCALE } else { 1.0 };
    let writes = name == layout::EMBEDDING || name.contains(".o_proj.") || name.contains(".down_proj.");
    let fill = if writes { Fill::Zeros } else { Fill::Random };
    Growing { from: matrix(&from.shape), to: matrix(&to.shape), scale, columns: fill, rows: fill, seed: seed(name) }
}

/// The model's config with the sizes of its body.
fn config(model: &Path, large: &ModelConfig) -> Result<Value, Failure> {
    let path = model.join("config.json");
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    const MOST: u64 = 16 << 20;
    let bytes = gorgon_runs::file::read(&path, MOST).map_err(|error| wrong(&error))?;
    let mut config: Value = gorgon_runs::json::read(&bytes).map_err(|error| wrong(&error))?;
    let Some(fields) = config.as_object_mut() else { return Err(wrong(&"not a JSON object")) };
    let sizes = [
        ("hidden_size", json!(large.hidden_size)),
        ("intermediate_size", json!(large.intermediate_size)),
        ("num_attention_heads", json!(large.heads)),
        ("num_key_value_heads", json!(large.kv_heads)),
        ("head_dim", json!(large.head_dim)),
        ("rms_norm_eps", json!(f64::from(large.norm_eps))),
        (NOTE, json!(described(large.parameters()))),
    ];
    fields.extend(sizes.map(|(key, value)| (key.to_owned(), value)));
    Ok(config)
}

/// Key of the config that says where the body comes from.
pub(super) const NOTE: &str = "grown";

fn text(model: &Path, small: &ModelConfig, parameters: u128) -> String {
    let (from, own, model) = (small.hidden_size, count(small.parameters()), model.display());
    let (width, sentence) = (from * FACTOR, described(parameters));
    let first = sentence.get(..1).unwrap_or_default().to_uppercase();
    let rest = sentence.get(1..).unwrap_or_default();
    format!(
        "# {model}, grown\n\n{first}{rest}.\n\nIt computes the logits of {model} ({own} parameters, width {from}) at a \
         width of {width}. The new channels of the residual stream stay zero; new heads and feed-forward columns are \
         computed and multiplied by zeros. It is for measuring decoding speed, and no better than the small model. \
         Every command takes it:\n\n    gorgon generate --model FOLDER/model --heads FOLDER/heads --prompt \"Hello!\"\n"
    )
}
