//! A backbone with its adapter merged in and the heads beside it: a model that needs no adapter, as the Medusa-2 models
//! are published.

use crate::error::{TrainError, io};
use gorgon_draft::medusa::MedusaConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::file;
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The largest config or tokenizer file that is copied.
const MAX_BYTES: u64 = 256 << 20;

/// Prefix of the names of heads inside a model.
const IN_MODEL: &str = "medusa_head.";

/// A named tensor: shape and values.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A model to write.
#[derive(Debug)]
pub struct Merged<'a> {
    /// The backbone.
    pub base: &'a Checkpoint,
    /// Matrices with what was fitted in them.
    pub changed: Vec<(String, Vec<f32>)>,
    /// Heads beside them.
    pub heads: Option<MergedHeads>,
}

/// Medusa heads inside a model.
#[derive(Debug)]
pub struct MergedHeads {
    /// Their tensors under the names of a folder of heads.
    pub tensors: Vec<(String, Vec<usize>, Vec<f32>)>,
    /// The backbone's LM head, `[V, d]`, for heads that share it.
    pub lm_head: Vec<f32>,
    /// Their shape.
    pub config: MedusaConfig,
}

/// Bytes of a model with so many values beside the backbone's.
pub(in crate::methods) fn bytes(base: &Checkpoint, values: usize) -> u64 {
    let companions = companions().filter_map(|name| Some(std::fs::metadata(base.dir().join(name)).ok()?.len()));
    companions.sum::<u64>() + (base.bytes() + values * narrow(base).bitsize() / 8) as u64
}

/// Files beside a model's weights.
fn companions() -> impl Iterator<Item = &'static str> {
    file::TEXT_FILES.into_iter().chain(file::OTHER_TEXT_FILES)
}

/// The number format of tensors beside a backbone's own.
fn narrow(base: &Checkpoint) -> Dtype {
    base.entries().values().map(|entry| entry.dtype).find(|dtype| *dtype != Dtype::F32).unwrap_or(Dtype::F32)
}

impl Merged<'_> {
    /// Writes weights in the backbone's number format, its config with the heads' keys, and its tokenizer into `out`.
    ///
    /// Heads are `medusa_head.{h}.{l}.linear.{weight,bias}` and `medusa_head.{h}.{layers}.weight`, of which the last is
    /// the shared LM head where a head has none of its own: loaders of such models expect one.
    ///
    /// # Errors
    /// When the backbone cannot be read, a weight does not fit its format, or a file cannot be written.
    pub fn write(&self, out: &Path) -> Result<(), TrainError> {
        std::fs::create_dir_all(out).map_err(io(out))?;
        let heads = self.heads.as_ref().map_or_else(Tensors::new, MergedHeads::named);
        let mut sources: Vec<Source<'_>> = vec![];
        for (name, entry) in self.base.entries().iter().filter(|(name, _)| !name.starts_with(IN_MODEL)) {
            let changed = self.changed.iter().find(|(other, _)| other == name).map(|(_, values)| values);
            if let Some(values) = changed {
                check(name, values, entry.dtype)?;
            }
            let fill = move |file: &mut dyn Write| match changed {
                Some(values) => write_as(file, values, entry.dtype),
                None => {
                    let values = self.base.read_all(name).map_err(std::io::Error::other)?;
                    write_as(file, &values, entry.dtype)
                }
            };
            let (name, shape) = (name.clone(), entry.shape.clone());
            sources.push(Source { name, dtype: entry.dtype, shape, fill: Box::new(fill) });
        }
        let dtype = narrow(self.base);
        for (name, (shape, values)) in &heads {
            check(name, values, dtype)?;
            let fill = Box::new(move |file: &mut dyn Write| write_as(file, values, dtype));
            sources.push(Source { name: name.clone(), dtype, shape: shape.clone(), fill });
        }
        let path = out.join("model.safetensors");
        tensors::write(&path, &sources).map_err(io(&path))?;
        self.write_companions(out)
    }

    fn write_companions(&self, out: &Path) -> Result<(), TrainError> {
        let dir = self.base.dir();
        let path = dir.join("config.json");
        let bytes = file::read(&path, MAX_BYTES).map_err(io(&path))?;
        let mut config: Value = gorgon_runs::json::read(&bytes)
            .map_err(|error| TrainError::Data(format!("{}: {error}", path.display())))?;
        if let Some(MergedHeads { config: heads, .. }) = &self.heads {
            config["medusa_num_heads"] = json!(heads.heads);
            config["medusa_num_layers"] = json!(heads.blocks);
        }
        let text = serde_json::to_string_pretty(&config).unwrap_or_default();
        put(&out.join("config.json"), text.as_bytes())?;
        for name in companions() {
            let path = dir.join(name);
            if path.is_file() {
                put(&out.join(name), &file::read(&path, MAX_BYTES).map_err(io(&path))?)?;
            }
        }
        Ok(())
    }
}

impl MergedHeads {
    /// Their tensors under the names inside a model.
    fn named(&self) -> Tensors {
        let mut all = Tensors::new();
        for (name, shape, values) in &self.tensors {
            all.insert(format!("{IN_MODEL}{name}"), (shape.clone(), values.clone()));
        }
        if !self.config.own_lm_heads {
            let d = self.tensors.first().and_then(|(_, shape, _)| shape.last().copied()).unwrap_or(1).max(1);
            for head in 0..self.config.heads {
                let name = format!("{IN_MODEL}{head}.{}.weight", self.config.blocks);
                all.insert(name, (vec![self.lm_head.len() / d, d], self.lm_head.clone()));
            }
        }
        all
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io(path))?;
    gorgon_runs::atomic::write(path, |file| file.write_all(bytes)).map_err(io(path))
}

fn check(name: &str, values: &[f32], dtype: Dtype) -> Result<(), TrainError> {
    let fits = |&value: &f32| match dtype {
        Dtype::F16 => half::f16::from_f32(value).is_finite(),
        _ => value.is_finite(),
    };
    match values.iter().all(fits) {
        true => Ok(()),
        false => Err(TrainError::Data(format!("{name}: a weight is beyond what {dtype:?} can hold"))),
    }
}

fn write_as(file: &mut dyn Write, values: &[f32], dtype: Dtype) -> std::io::Result<()> {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => return write_f32(file, values),
        Dtype::F16 => values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect(),
        Dtype::BF16 => values.iter().flat_map(|&v| half::bf16::from_f32(v).to_le_bytes()).collect(),
        other => return Err(std::io::Error::other(format!("{other:?} is no float type of a model"))),
    };
    file.write_all(&bytes)
}
