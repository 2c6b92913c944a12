//! Folders with tensors of any type, and packing written without the reader's help.

use gorgon_core::accept::random::SeededRandom;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{Source, Stored, write};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::path::Path;

/// A folder with tensors and settings of a quantised checkpoint.
pub struct Folder {
    pub settings: Value,
    pub tensors: Vec<Stored>,
}

impl Folder {
    pub fn new(settings: Value) -> Self {
        Self { settings, tensors: vec![] }
    }

    /// The tensors of a file, and the settings beside it.
    pub fn read(dir: &Path) -> Self {
        let config: Value = serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
        let bytes = std::fs::read(dir.join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let stored = |(name, view): (String, safetensors::tensor::TensorView<'_>)| Stored {
            name,
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        };
        let tensors = tensors.tensors().into_iter().map(stored).collect();
        Self { settings: config["quantization_config"].clone(), tensors }
    }

    pub fn with(mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.tensors.push(Stored { name: name.into(), dtype, shape: shape.to_vec(), bytes });
        self
    }

    pub fn words(self, name: &str, shape: &[usize], words: &[u32]) -> Self {
        self.with(name, Dtype::I32, shape, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    pub fn floats(self, name: &str, shape: &[usize], values: &[f32]) -> Self {
        self.with(name, Dtype::F32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The tensor of this name.
    pub fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    /// Writes it; other keys of `config` are kept.
    pub fn write(&self, dir: &Path, config: &Value) {
        let mut config = config.clone();
        config["quantization_config"] = self.settings.clone();
        std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let sources: Vec<Source<'_>> = self.tensors.iter().map(Stored::source).collect();
        write(&dir.join("model.safetensors"), &sources).unwrap();
    }

    /// The checkpoint of these tensors, in a folder that outlives it.
    pub fn open(&self) -> (tempfile::TempDir, Checkpoint) {
        let dir = tempfile::tempdir().unwrap();
        self.write(dir.path(), &json!({}));
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        (dir, checkpoint)
    }

    /// The matrix of module `m`, or the error.
    pub fn matrix(&self) -> Result<Vec<f32>, String> {
        self.open().1.read_all("m.weight").map_err(|error| error.to_string())
    }
}

/// Numbers below `limit`.
pub fn numbers(count: usize, limit: usize, seed: u64) -> Vec<u8> {
    let mut random = SeededRandom::stream(seed, 0);
    (0..count).map(|_| ((random.uniform() * limit as f64) as usize).min(limit - 1) as u8).collect()
}

/// Scales that no short sum of powers of two represents.
pub fn scales(count: usize, seed: u64) -> Vec<f32> {
    numbers(count, 200, seed).into_iter().map(|n| (f32::from(n) + 1.0) / 977.0).collect()
}

/// A stream of numbers, one bit after another.
pub fn stream(values: &[u8], bits: usize) -> Vec<u32> {
    let mut words = vec![0u32; (values.len() * bits).div_ceil(32)];
    for (i, value) in values.iter().enumerate() {
        for bit in 0..bits {
            let at = i * bits + bit;
            words[at / 32] |= u32::from((value >> bit) & 1) << (at % 32);
        }
    }
    words
}

/// Streams of each row of `[rows, columns]`, one after the other.
pub fn streams(values: &[u8], columns: usize, bits: usize) -> Vec<u32> {
    values.chunks_exact(columns).flat_map(|row| stream(row, bits)).collect()
}

/// A matrix `[rows, columns]`, transposed.
pub fn transposed<T: Copy>(values: &[T], columns: usize) -> Vec<T> {
    let rows = values.len() / columns;
    (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| values[r * columns + c]).collect()
}
