//! Frozen linear layers and where their weights come from.

use crate::device::{Compute, IntegerWeights, Weights};
use crate::fragments;
use crate::hidden_states::{HiddenStates, select_rows};
use crate::pass::Input;
use crate::weight_rows::{WeightRows, stored_as};
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::PooledVec;
use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::{self, PackError, Packed, RowSource, WeightDtype};
use gorgon_kernels::quantised_matmul::{
    self, Activations, CodeBits, QuantisedMatrix, Rounding, ScaleFormat, ScaleSearch,
};
use gorgon_kernels::skinny_matmul::Fragments;
use std::sync::Arc;

/// A scale for each output: sums of all inputs are exact, and nothing slows a product down.
const EIGHT_BITS: Rounding =
    Rounding { bits: CodeBits::Eight, group: None, scale_format: ScaleFormat::F32, search: ScaleSearch::Fitted };
/// With more exact inputs the rounding of weights is most of the error, and smaller groups make it less.
const EIGHT_BITS_IN_GROUPS: Rounding = Rounding { group: Some(32), scale_format: ScaleFormat::F16, ..EIGHT_BITS };
/// Scales for as many inputs as the usual blocks of 4 bits have.
const FOUR_BITS: Rounding =
    Rounding { bits: CodeBits::Four, group: Some(32), scale_format: ScaleFormat::F16, search: ScaleSearch::Clipped };

/// A weight matrix in the layout its device reads fastest.
#[derive(Clone, Debug)]
pub enum Weight {
    /// CPU: panels of output columns.
    Packed(Arc<Packed>),
    /// CPU: panels of integer codes, and how inputs are multiplied with them.
    Quantised(Arc<QuantisedMatrix>, Activations),
    /// GPUs with tensor cores, 16-bit weights of a matmul: in the order of their fragments.
    Fragments(Fragments),
    /// Other devices, and tables: `[out, in]`, multiplied through its transposed view.
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
            Weight::Quantised(weight, activations) => {
                quantised_matmul::matmul(x, weight, *activations, self.bias.as_ref().map(|bias| &bias.tensor))
            }
            Weight::Fragments(weight) => self.biased(weight.matmul(x)),
            Weight::Dense(weight) => self.biased(x.clone().matmul(weight.clone().transpose().unsqueeze())),
        }
    }

    fn biased(&self, y: Tensor<3>) -> Tensor<3> {
        match &self.bias {
            Some(bias) => y + bias.tensor.clone().unsqueeze(),
            None => y,
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
        let bias = self.bias.as_ref().map(|bias| bias.values.as_ref());
        match &self.weight {
            Weight::Packed(weight) => few_row_matmul::few_row_matmul(Isa::detect(), x, weight, bias, y),
            Weight::Quantised(weight, activations) => {
                quantised_matmul::quantised_matmul(Isa::detect(), x, weight, *activations, bias, y);
            }
            Weight::Fragments(_) | Weight::Dense(_) => unreachable!("rows on the CPU go with weights there"),
        }
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
            Weight::Quantised(weight, _) => weight.d_out(),
            Weight::Fragments(weight) => weight.shape()[1],
            Weight::Dense(weight) => weight.dims()[0],
        }
    }

    /// Copy with its weights in 8 bits; `None` where they are in integers already, or not on the CPU.
    ///
    /// # Errors
    /// When there is no memory for them, or a weight is not finite.
    pub fn in_eight_bits(&self, integers: IntegerWeights) -> Result<Option<Self>, PackError> {
        let Weight::Packed(weight) = &self.weight else { return Ok(None) };
        let rounded = EIGHT_BITS.pack(weight.d_in(), weight.d_out(), weight.as_ref())?;
        let weight = Weight::Quantised(Arc::new(rounded), integers.activations());
        Ok(Some(Self { weight, bias: self.bias.clone() }))
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        let bias = self.bias.as_ref().map_or(0, |bias| bias.tensor.dims()[0] * 4);
        bias + match &self.weight {
            Weight::Packed(weight) => weight.bytes(),
            Weight::Quantised(weight, _) => weight.bytes(),
            Weight::Fragments(weight) => weight.bytes(),
            Weight::Dense(weight) => weight.dims().iter().product::<usize>() * weight.dtype().size(),
        }
    }

    /// A layer without bias on the CPU, in the format in which `compute` holds a checkpoint's 32-bit weights.
    ///
    /// # Shapes
    /// `weights [out, in]`.
    ///
    /// # Errors
    /// When there is no memory for them, or they do not fit the format.
    pub fn packed(d_in: usize, weights: &[f32], compute: &Compute) -> Result<Self, PackError> {
        let dtype = compute.pairs().unwrap_or_else(|| stored_as(compute.format()));
        Ok(Self::new(on_host(d_in, weights.len() / d_in.max(1), dtype, &(weights, d_in), compute)?))
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

/// Packs a matrix on the CPU: as `dtype`, or in integers where `compute` says so.
fn on_host(
    d_in: usize,
    d_out: usize,
    dtype: WeightDtype,
    source: &dyn RowSource,
    compute: &Compute,
) -> Result<Weight, PackError> {
    let integers = compute.integers();
    let rounding = match integers.weights {
        Weights::Stored => return Ok(Weight::Packed(Arc::new(Packed::pack(d_in, d_out, dtype, source)?))),
        Weights::Int8 if integers.activations() == Activations::Eight => EIGHT_BITS,
        Weights::Int8 => EIGHT_BITS_IN_GROUPS,
        Weights::Int4 => FOUR_BITS,
    };
    Ok(Weight::Quantised(Arc::new(rounding.pack(d_in, d_out, source)?), integers.activations()))
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
            Weight::Packed(table) => self.on_host(tokens, table.d_in()),
            Weight::Quantised(table, _) => self.on_host(tokens, table.d_in()),
            Weight::Fragments(_) | Weight::Dense(_) => {
                let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
                HiddenStates::on_device(self.select(Tensor::from_data(TensorData::new(ids, [tokens.len()]), device)))
            }
        }
    }

    /// Rows of `width` numbers on the CPU.
    fn on_host(&self, tokens: &[u32], width: usize) -> HiddenStates {
        let mut values = PooledVec::unset(tokens.len() * width);
        self.copy_rows(tokens, &mut values);
        HiddenStates::Host { values, width }
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
        if tokens.is_empty() {
            return;
        }
        let width = out.len() / tokens.len();
        for (&token, row) in tokens.iter().zip(out.chunks_exact_mut(width)) {
            match &self.weight {
                Weight::Packed(table) => table.copy_row(token as usize, row),
                Weight::Quantised(table, _) => table.copy_row(token as usize, row),
                Weight::Fragments(_) | Weight::Dense(_) => unreachable!("rows on the CPU go with a table there"),
            }
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
            Weight::Dense(table) => self.scaled(table.clone().select(0, ids).unsqueeze()),
            _ => unreachable!("tokens on a device go with a table there"),
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
        let fragments = fragments::load(self.checkpoint, self.compute, &weights)?;
        let weight = fragments.map_or_else(|| self.weight(&weights), |found| Ok(Weight::Fragments(found)))?;
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
            if let Some(codes) = rows.codes().and_then(|codes| codes.layout(self.compute.integers().weights)) {
                // Rounded weights are not rounded again.
                let activations = self.compute.integers().activations_of_codes();
                let packed = QuantisedMatrix::pack(codes, &rows).map_err(|error| rows.error(error))?;
                return Ok(Weight::Quantised(Arc::new(packed), activations));
            }
            let dtype = self.compute.pairs().unwrap_or_else(|| rows.storage(self.compute.format()));
            return on_host(d_in, d_out, dtype, &rows, self.compute).map_err(|error| rows.error(error));
        }
        let format = self.compute.format();
        if self.checkpoint.is_drawn() {
            let place = (self.compute.device(), format.tensor());
            return Ok(Weight::Dense(Tensor::random([d_out, d_in], fragments::drawn(d_in), place)));
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
