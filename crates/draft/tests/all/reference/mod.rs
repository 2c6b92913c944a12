//! Losses and gradients that PyTorch computed, written by `data/heads.py`.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::HeadLabels;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use safetensors::SafeTensors;

/// Weights of the heads' losses.
pub const SCALES: [f32; 3] = [0.5, 0.3, 0.2];

/// The sizes in `data/heads.py`.
pub fn layer() -> LayerShape {
    LayerShape {
        hidden_size: 8,
        intermediate_size: 12,
        heads: 2,
        kv_heads: 1,
        head_dim: 6,
        vocab_size: 20,
        max_positions: 32,
        norm_eps: 1e-5,
        rope: RopeConfig { theta: 100.0, rotary_dim: 6, scaling: RopeScaling::None },
    }
}

pub fn tensor(values: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

/// A file of `../data`.
pub struct File(Vec<u8>);

impl File {
    pub fn open(name: &str) -> Self {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        Self(std::fs::read(path).unwrap())
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let bytes = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data().to_vec();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn numbers(&self, name: &str) -> Vec<u32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let bytes = file.tensor(name).unwrap().data().to_vec();
        bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
    }

    pub fn batch(&self) -> HeadBatch {
        let rows = |name: &str| tensor(self.floats(name), [12, 8]);
        let labels = |k: usize| HeadLabels {
            rows: self.numbers(&format!("rows.{k}")),
            tokens: self.numbers(&format!("tokens.{k}")),
        };
        HeadBatch {
            states: rows("states"),
            following: (0..3).map(|k| rows(&format!("following.{k}"))).collect(),
            segments: vec![0..7, 7..12],
            labels: (0..3).map(labels).collect(),
        }
    }
}

pub fn flat(values: Vec<f32>) -> Tensor<1> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), &Device::flex())
}

pub fn close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    got.iter().zip(want).for_each(|(a, b)| assert!((a - b).abs() < 2e-5 + 1e-4 * b.abs(), "{what}: {a} {b}"));
}
