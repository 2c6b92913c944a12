//! Frozen linear layers and where their weights come from.

use crate::device::{Compute, IntegerWeights};
use crate::fragments::{self, Tiles};
use crate::hidden_states::HiddenStates;
use crate::linear_output::LinearOutput;
use crate::rounding::{EIGHT_BITS, rounding};
use crate::weight_rows::{WeightRows, stored_as};
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::{Tensor, TensorData};
use gorgon_core::PooledVec;
use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::{self, PackError, Packed, RowSource, WeightDtype};
use gorgon_kernels::partial_sums::PartialSums;
use gorgon_kernels::quantised_matmul::{self, Activations, QuantisedMatrix};
use gorgon_kernels::skinny_matmul::Fragments;
use gorgon_kernels::skinny_matmul::codes::CodedFragments;
use gorgon_kernels::tall_matmul;
use std::sync::Arc;

/// A weight matrix in the layout its device reads fastest.
#[derive(Clone, Debug)]
pub enum Weight {
    /// CPU: panels of output columns.
    Packed(Arc<Packed>),
    /// CPU: panels of integer codes, and how inputs are multiplied with them.
    Quantised(Arc<QuantisedMatrix>, Activations),
    /// GPUs with tensor cores, 16-bit weights of a matmul: in the order of their fragments.
    Fragments(Fragments),
    /// GPUs with tensor cores, weights in integer codes.
    Coded(Box<CodedFragments>),
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
            Weight::Fragments(_) | Weight::Coded(_) | Weight::Dense(_) => self.biased(self.product(x).sum()),
        }
    }

    /// The layer without its bias. On a GPU the parts of the product are not added up.
    ///
    /// # Shapes
    /// `x [batch, rows, in]`, result `[batch, rows, out]`.
    pub(crate) fn product(&self, x: &Tensor<3>) -> PartialSums {
        PartialSums::whole(match &self.weight {
            Weight::Fragments(weight) => return weight.multiply(x),
            Weight::Coded(weight) => return weight.multiply(x),
            Weight::Packed(weight) => few_row_matmul::matmul(x, weight, None),
            Weight::Quantised(weight, activations) => quantised_matmul::matmul(x, weight, *activations, None),
            Weight::Dense(weight) => tall_matmul::matmul(x.clone(), weight.clone().transpose().unsqueeze()),
        })
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

    /// As [`Self::forward`]; on a GPU the parts of the product may not be added up.
    pub(crate) fn output(&self, x: &HiddenStates) -> LinearOutput {
        match x {
            HiddenStates::Device(x) if self.bias.is_none() => LinearOutput::Parts(Box::new(self.product(x))),
            x => LinearOutput::Whole(self.forward(x)),
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
            _ => unreachable!("rows on the CPU go with weights there"),
        }
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    pub(crate) fn bias(&self) -> Option<&Tensor<1>> {
        self.bias.as_ref().map(|bias| &bias.tensor)
    }

    /// Output columns.
    pub(crate) fn width(&self) -> usize {
        match &self.weight {
            Weight::Packed(weight) => weight.d_out(),
            Weight::Quantised(weight, _) => weight.d_out(),
            Weight::Fragments(weight) => weight.shape()[1],
            Weight::Coded(weight) => weight.shape()[1],
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
            Weight::Coded(weight) => weight.bytes(),
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
    match rounding(compute) {
        None => Ok(Weight::Packed(Arc::new(Packed::pack(d_in, d_out, dtype, source)?))),
        Some(rounding) => {
            let packed = Arc::new(rounding.pack(d_in, d_out, source)?);
            Ok(Weight::Quantised(packed, compute.integers().activations()))
        }
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
        let weight = match fragments {
            Some(Tiles::Plain(weight)) => Weight::Fragments(*weight),
            Some(Tiles::Coded(weight)) => Weight::Coded(weight),
            None => self.weight(&weights)?,
        };
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
