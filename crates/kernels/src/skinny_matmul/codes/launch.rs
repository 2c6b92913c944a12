//! Products with packed codes as burn tensors.

#[cfg(feature = "gpu")]
use super::super::MOST_ROWS;
use super::super::OUTPUTS;
#[cfg(feature = "gpu")]
use super::cube;
use super::holds;
use super::reference::{code_bytes, pack, pack_scales};
use crate::partial_sums::PartialSums;
use crate::quantised_matmul::{CodeBits, Codes, ScaleFormat};
use crate::{device, tall_matmul};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rayon::prelude::*;

/// A matrix `[out, in]` in codes on a GPU, in the order of [`super::reference::code_place`].
#[derive(Clone, Debug)]
pub struct CodedFragments {
    /// Codes, in words of 32 bits.
    words: Tensor<1, Int>,
    /// In the order of [`super::reference::scale_place`].
    scales: Tensor<1>,
    bits: CodeBits,
    /// Inputs that share a scale.
    group: usize,
    d_in: usize,
    d_out: usize,
    /// Number format of inputs and results.
    dtype: DType,
}

impl CodedFragments {
    /// Packs codes, `values [out, in]` one a byte, to be multiplied with inputs in `dtype`.
    ///
    /// # Panics
    /// If there are no fragments of such codes ([`holds`]), or the values are not as many as the shape says.
    pub fn new(codes: &Codes, values: &[u8], dtype: DType, device: &Device) -> Self {
        let Codes { d_in, d_out, bits, group, .. } = *codes;
        assert!(holds(codes) && values.len() == d_in * d_out, "codes that fragments hold");
        let mut packed = vec![0u8; code_bytes(bits, d_in, d_out)];
        let groups = packed.par_chunks_exact_mut(code_bytes(bits, d_in, OUTPUTS)).enumerate();
        groups.for_each(|(group, packed)| pack(bits, d_in, values, group, packed));
        let words = packed.len() / 4;
        let words = TensorData::from_bytes_vec(packed, [words], DType::I32);
        let scales = pack_scales(codes);
        let size = scales.len();
        let scale_dtype = match codes.scale_format {
            ScaleFormat::F32 => DType::F32,
            ScaleFormat::F16 => DType::F16,
            ScaleFormat::Bf16 => DType::BF16,
        };
        Self {
            words: Tensor::from_data(words, (device, DType::I32)),
            scales: Tensor::from_data(TensorData::new(scales, [size]), (device, scale_dtype)),
            bits,
            group: group.min(d_in),
            d_in,
            d_out,
            dtype,
        }
    }

    /// Inputs and outputs.
    pub fn shape(&self) -> [usize; 2] {
        [self.d_in, self.d_out]
    }

    /// Bytes on the device: codes and scales, outputs rounded up to a multiple of 32.
    pub fn bytes(&self) -> usize {
        code_bytes(self.bits, self.d_in, self.d_out) + self.scales.dims()[0] * self.scales.dtype().size()
    }

    /// `x · Wᵀ`.
    ///
    /// # Shapes
    /// As of [`Self::multiply`].
    ///
    /// # Panics
    /// If the weights are not on a GPU.
    pub fn matmul(&self, x: &Tensor<3>) -> Tensor<3> {
        self.multiply(x).sum()
    }

    /// `x · Wᵀ`, whose parts of K are not added up. More than [`super::super::MOST_ROWS`] rows, and rows with
    /// gradients, are multiplied with the plain matrix in 16 bits, which is unpacked for them; that product is whole.
    ///
    /// # Shapes
    /// `x [batch, rows, in]`, result `[batch, rows, out]`.
    ///
    /// # Panics
    /// If the weights are not on a GPU.
    pub fn multiply(&self, x: &Tensor<3>) -> PartialSums {
        assert_eq!(x.dims()[2], self.d_in, "rows of another width");
        #[cfg(feature = "gpu")]
        if let Some(y) = self.few_rows(x) {
            return y;
        }
        PartialSums::whole(tall_matmul::matmul(x.clone(), self.plain().transpose().unsqueeze()))
    }

    /// The product from codes; `None` where the plain matrix is needed.
    #[cfg(feature = "gpu")]
    fn few_rows(&self, x: &Tensor<3>) -> Option<PartialSums> {
        let [batch, rows, _] = x.dims();
        let fits = (1..=MOST_ROWS).contains(&(batch * rows)) && x.dtype() == self.dtype;
        let x = if fits { device::untracked(x)? } else { return None };
        let sums = self.on_device(|coded| cube::multiply(&x, coded, batch * rows));
        Some(PartialSums::of_parts(device::float_tensor(sums), [batch, rows, self.d_out], self.dtype))
    }

    /// The plain matrix `[out, in]` in 16 bits, a copy.
    ///
    /// # Panics
    /// If the weights are not on a GPU.
    pub fn plain(&self) -> Tensor<2> {
        #[cfg(feature = "gpu")]
        {
            device::float_tensor(self.on_device(|coded| cube::unpack(coded, self.dtype)))
        }
        #[cfg(not(feature = "gpu"))]
        {
            let _ = (&self.words, self.dtype, self.group);
            device::absent()
        }
    }

    #[cfg(feature = "gpu")]
    fn on_device<T>(&self, run: impl FnOnce(&cube::Coded<'_>) -> T) -> T {
        let (words, scales) = (device::ints(&self.words), device::in_place(&self.scales));
        let Self { bits, group, d_in, d_out, .. } = *self;
        run(&cube::Coded { words: &words, scales: &scales, bits, d_in, d_out, group })
    }
}
