//! Frozen linear layers and where their weights come from.

use crate::device::{Compute, Int8};
use crate::hidden_states::{HiddenStates, select_rows};
use crate::pass::Input;
use crate::weight_rows::WeightRows;
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use gorgon_core::PooledVec;
use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::{self, PackError, Packed, WeightDtype};
use std::sync::Arc;

/// A weight matrix in the layout its device reads fastest.
#[expect(clippy::large_enum_variant, reason = "a handful per layer, never moved while decoding")]
#[derive(Clone, Debug)]
pub enum Weight {
    /// CPU: panels of output columns.
    Packed(Arc<Packed>),
    /// Other devices: `[out, in]`, multiplied through its transposed view.
    Dense(Tensor<2>),
}

/// `y = x · Wᵀ + b`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Bias>,
}

#[derive(Clone, Debug)]
struct Bias {
    tensor: Tensor<1>,
    /// Values on the CPU; empty elsewhere.
    values: Arc<[f32]>,
}

impl Linear {
    /// The layer applied to every row of a tensor.
    ///
    /// # Shapes
    /// `x [batch, rows, in]`, result `[batch, rows, out]`.
    pub fn forward_tensor(&self, x: &Tensor<3>) -> Tensor<3> {
        match &self.weight {
            Weight::Packed(weight) => few_row_matmul::matmul(x, weight, self.bias.as_ref().map(|bias| &bias.tensor)),
            Weight::Dense(weight) => {
                let y = x.clone().matmul(weight.clone().transpose().unsqueeze());
                match &self.bias {
                    Some(bias) => y + bias.tensor.clone().unsqueeze(),
                    None => y,
                }
            }
        }
    }

    /// The layer applied to every row.
    ///
    /// # Shapes
    /// `x [rows, in]`, result `[rows, out]`.
    pub fn forward(&self, x: &HiddenStates) -> HiddenStates {
        match x {
            HiddenStates::Host { values: x, width } => {
                let mut values = PooledVec::unset(x.len() / width * self.width());
                self.rows(x, &mut values);
                HiddenStates::Host { values, width: self.width() }
            }
            HiddenStates::Device(x) => HiddenStates::on_device(self.forward_tensor(x)),
        }
    }

    /// The layer applied to rows on the CPU.
    ///
    /// # Shapes
    /// `x [rows, in]`, `y [rows, out]`.
    ///
    /// # Panics
    /// If its weights are elsewhere.
    pub fn rows(&self, x: &[f32], y: &mut [f32]) {
        let Weight::Packed(weight) = &self.weight else { unreachable!("rows on the CPU go with weights there") };
        let bias = self.bias.as_ref().map(|bias| bias.values.as_ref());
        few_row_matmul::few_row_matmul(Isa::detect(), x, weight, bias, y);
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    pub(crate) fn has_bias(&self) -> bool {
        self.bias.is_some()
    }

    /// Output columns.
    pub(crate) fn width(&self) -> usize {
        match &self.weight {
            Weight::Packed(weight) => weight.d_out(),
            Weight::Dense(weight) => weight.dims()[0],
        }
    }

    /// Copy with its weights in 8 bits; `None` where they are so already, or not on the CPU.
    ///
    /// # Errors
    /// When there is no memory for them, or a weight is not finite.
    pub fn in_eight_bits(&self) -> Result<Option<Self>, PackError> {
        let Weight::Packed(weight) = &self.weight else { return Ok(None) };
        if weight.dtype() == WeightDtype::Int8 {
            return Ok(None);
        }
        let packed = Packed::pack(weight.d_in(), weight.d_out(), WeightDtype::Int8, weight.as_ref())?;
        Ok(Some(Self { weight: Weight::Packed(Arc::new(packed)), bias: self.bias.clone() }))
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| bias.tensor.dims()[0] * 4);
        bias + match &self.weight {
            Weight::Packed(weight) => weight.bytes(),
            Weight::Dense(weight) => weight.dims().iter().product::<usize>() * weight.dtype().size(),
        }
    }

    /// A layer without bias on given weights.
    pub fn new(weight: Weight) -> Self {
        Self { weight, bias: None }
    }

    /// A layer without bias that shares a table's weights.
    pub(crate) fn shared(weight: &Weight) -> Self {
        Self { weight: weight.clone(), bias: None }
    }
}

/// A table of rows looked up by token.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: Weight,
    scale: f32,
}

impl Embedding {
    /// A table over `weight [vocab, d]` whose rows are multiplied by `scale`.
    pub fn new(weight: Weight, scale: f32) -> Self {
        Self { weight, scale }
    }

    /// The weights, for an LM head that shares them.
    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// The rows of `tokens`.
    ///
    /// # Panics
    /// If a token is outside the table; callers check ids where they enter.
    pub fn look_up(&self, tokens: &[u32], device: &Device) -> HiddenStates {
        match &self.weight {
            Weight::Packed(table) => {
                let width = table.d_in();
                let mut values = PooledVec::unset(tokens.len() * width);
                self.copy_rows(tokens, &mut values);
                HiddenStates::Host { values, width }
            }
            Weight::Dense(_) => {
                let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
                HiddenStates::on_device(self.select(Tensor::from_data(TensorData::new(ids, [tokens.len()]), device)))
            }
        }
    }

    /// Embeddings of tokens, and rows of `table`, which are not scaled.
    ///
    /// # Shapes
    /// `table [embeddings, d]`, result `[rows, d]`.
    ///
    /// # Panics
    /// If a token or an embedding is outside its table; callers check them.
    pub(crate) fn look_up_rows(&self, rows: &[Input], table: &HiddenStates, device: &Device) -> HiddenStates {
        let token = |input: &Input| if let Input::Token(token) = input { *token } else { 0 };
        match table {
            HiddenStates::Host { values: table, width } => {
                let mut values = PooledVec::unset(rows.len() * width);
                for (input, row) in rows.iter().zip(values.chunks_exact_mut(*width)) {
                    match *input {
                        Input::Token(token) => self.copy_rows(&[token], row),
                        Input::Embedding(embedding) => row.copy_from_slice(&table[embedding * width..][..*width]),
                    }
                }
                HiddenStates::Host { values, width: *width }
            }
            HiddenStates::Device(table) => {
                let tokens: Vec<u32> = rows.iter().map(token).collect();
                let tokens = self.look_up(&tokens, device).into_tensor();
                let both = Tensor::cat(vec![tokens.clone(), table.clone().cast(tokens.dtype())], 1);
                let place = |(row, input): (usize, &Input)| match *input {
                    Input::Token(_) => row,
                    Input::Embedding(embedding) => rows.len() + embedding,
                };
                let order: Vec<usize> = rows.iter().enumerate().map(place).collect();
                HiddenStates::on_device(select_rows(&both, &order))
            }
        }
    }

    /// The embeddings of tokens on the CPU.
    ///
    /// # Shapes
    /// `out [tokens, d]`.
    ///
    /// # Panics
    /// If a token is outside the table, or the table is elsewhere.
    pub(crate) fn copy_rows(&self, tokens: &[u32], out: &mut [f32]) {
        let Weight::Packed(table) = &self.weight else { unreachable!("rows on the CPU go with a table there") };
        for (&token, row) in tokens.iter().zip(out.chunks_exact_mut(table.d_in())) {
            table.copy_row(token as usize, row);
        }
        if self.scale != 1.0 {
            out.iter_mut().for_each(|value| *value *= self.scale);
        }
    }

    /// The rows of tokens that are on the device.
    ///
    /// # Shapes
    /// `ids [tokens]`, result `[1, tokens, d]`.
    ///
    /// # Panics
    /// If the table is on the CPU.
    pub fn select(&self, ids: Tensor<1, Int>) -> Tensor<3> {
        match &self.weight {
            Weight::Packed(_) => unreachable!("tokens on a device go with a table there"),
            Weight::Dense(table) => self.scaled(table.clone().select(0, ids).unsqueeze()),
        }
    }

    fn scaled(&self, rows: Tensor<3>) -> Tensor<3> {
        if self.scale == 1.0 { rows } else { rows * self.scale }
    }
}

/// Reads layers from a checkpoint onto a device.
pub struct Loader<'a> {
    /// Where the tensors are.
    pub checkpoint: &'a Checkpoint,
    /// Where they go, and in which format.
    pub compute: &'a Compute,
}

impl Loader<'_> {
    /// A linear layer whose rows are those of the named projections, one after the other.
    ///
    /// # Errors
    /// When a tensor is missing, of a wrong shape, or cannot be read.
    pub fn linear(&self, names: &[String], bias: bool) -> Result<Linear, WeightsError> {
        let weights: Vec<String> = names.iter().map(|name| format!("{name}.weight")).collect();
        let weight = self.weight(&weights)?;
        let bias = if bias {
            let mut values = vec![];
            for name in names {
                values.extend(self.read_or(&format!("{name}.bias"), 0.0)?);
            }
            let host: Arc<[f32]> = if self.compute.is_host() { values.as_slice().into() } else { [].into() };
            Some(Bias { tensor: self.vector(values), values: host })
        } else {
            None
        };
        Ok(Linear { weight, bias })
    }

    /// A matrix whose rows are those of the named tensors, one after the other.
    ///
    /// # Errors
    /// When a tensor is missing, of a wrong shape, or cannot be read.
    pub fn weight(&self, names: &[String]) -> Result<Weight, WeightsError> {
        let rows = WeightRows::new(self.checkpoint, names)?;
        let (d_in, d_out) = (rows.d_in, rows.height());
        if self.compute.is_host() {
            let storage = match self.compute.int8() {
                Int8::All => WeightDtype::Int8,
                Int8::Off | Int8::Drafts => self.compute.pairs().unwrap_or_else(|| rows.storage(self.compute.format())),
            };
            let packed = Packed::pack(d_in, d_out, storage, &rows);
            return packed.map(|packed| Weight::Packed(Arc::new(packed))).map_err(|error| rows.error(error));
        }
        let format = self.compute.format();
        if self.checkpoint.is_drawn() {
            // A variance of one over the width keeps activations as large as they are.
            let bound = (3.0 / d_in as f64).sqrt();
            let place = (self.compute.device(), format.tensor());
            return Ok(Weight::Dense(Tensor::random([d_out, d_in], Distribution::Uniform(-bound, bound), place)));
        }
        let bytes = rows.dense(format).map_err(|reason| rows.error(PackError::Source(reason)))?;
        let data = TensorData::from_bytes_vec(bytes, [d_out, d_in], format.tensor());
        // Without a format the data would be converted to the device's default one.
        Ok(Weight::Dense(Tensor::from_data(data, (self.compute.device(), format.tensor()))))
    }

    /// A norm's weights; `plus_one` for checkpoints that store them minus one.
    ///
    /// # Errors
    /// When the tensor is missing or cannot be read.
    pub fn norm(&self, name: &str, plus_one: bool) -> Result<Tensor<1>, WeightsError> {
        let mut values = self.read_or(name, if plus_one { 0.0 } else { 1.0 })?;
        if plus_one {
            values.iter_mut().for_each(|v| *v += 1.0);
        }
        // Norms are computed in f32 everywhere, so their few weights stay in f32.
        let size = values.len();
        Ok(Tensor::from_data(TensorData::new(values, [size]), self.compute.device()))
    }

    /// Why a tensor could not be packed.
    pub(crate) fn wrong(&self, tensor: &str, error: PackError) -> WeightsError {
        WeightsError::Tensor { path: self.checkpoint.dir().into(), tensor: tensor.into(), reason: error.to_string() }
    }

    /// A small tensor, or as many times `drawn` if there is no file.
    fn read_or(&self, name: &str, drawn: f32) -> Result<Vec<f32>, WeightsError> {
        match self.checkpoint.entries().get(name).filter(|_| self.checkpoint.is_drawn()) {
            Some(entry) => Ok(vec![drawn; entry.shape.iter().product()]),
            None => self.checkpoint.read_all(name),
        }
    }

    fn vector(&self, values: Vec<f32>) -> Tensor<1> {
        let size = values.len();
        Tensor::from_data(TensorData::new(values, [size]), (self.compute.device(), self.compute.activation()))
    }
}
