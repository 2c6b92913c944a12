//! Products with packed weights as burn tensors.

use super::reference::{pack, packed_size};
#[cfg(feature = "gpu")]
use super::{MOST_ROWS, cube};
use super::{OUTPUTS, fits};
use crate::partial_sums::PartialSums;
use crate::{device, tall_matmul};
use burn::tensor::{DType, Device, Distribution, Tensor, TensorData};
use rayon::prelude::*;

/// A matrix `[out, in]` of 16-bit numbers on a GPU, in the order of [`super::reference::place`].
#[derive(Clone, Debug)]
pub struct Fragments {
    /// `[numbers]`.
    packed: Tensor<1>,
    d_in: usize,
    d_out: usize,
}

/// Whether a device multiplies matrices of this shape and number format from fragments: `mma.sync` of m16n8k16, and
/// rows in whole blocks of 32 inputs.
pub fn is_supported(d_in: usize, d_out: usize, dtype: DType, device: &Device) -> bool {
    #[cfg(feature = "gpu")]
    {
        let sixteen_bits = matches!(dtype, DType::BF16 | DType::F16);
        let probe = || device::untracked(&Tensor::<1>::empty([1], (device, dtype)));
        let multiplies = || probe().is_some_and(|like| cube::is_supported(&like));
        sixteen_bits && fits(d_in, d_out) && device.supports_dtype(dtype) && multiplies()
    }
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (fits(d_in, d_out), dtype, device);
        false
    }
}

impl Fragments {
    /// Packs `weights [out, in]`, the bits of 16-bit numbers.
    ///
    /// # Panics
    /// If the numbers are not as many as the shape says, or the shape has no fragments ([`is_supported`]).
    pub fn new(d_in: usize, weights: &[u16], dtype: DType, device: &Device) -> Self {
        let d_out = weights.len() / d_in.max(1);
        assert!(fits(d_in, d_out) && d_in * d_out == weights.len(), "rows of whole blocks");
        let mut packed = vec![0u16; packed_size(d_in, d_out)];
        let groups = packed.par_chunks_exact_mut(OUTPUTS * d_in).enumerate();
        groups.for_each(|(group, packed)| pack(d_in, weights, group, packed));
        let bytes = packed.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let data = TensorData::from_bytes_vec(bytes, [packed.len()], dtype);
        // Without a format the data would be converted to the device's default one.
        Self { packed: Tensor::from_data(data, (device, dtype)), d_in, d_out }
    }

    /// A matrix of random numbers.
    pub fn drawn(d_in: usize, d_out: usize, from: Distribution, dtype: DType, device: &Device) -> Self {
        let packed = Tensor::random([packed_size(d_in, d_out)], from, (device, dtype));
        Self { packed, d_in, d_out }
    }

    /// Inputs and outputs.
    pub fn shape(&self) -> [usize; 2] {
        [self.d_in, self.d_out]
    }

    /// Bytes on the device: those of the matrix, its outputs rounded up to a multiple of 32.
    pub fn bytes(&self) -> usize {
        packed_size(self.d_in, self.d_out) * 2
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

    /// `x · Wᵀ`, whose parts of K are not added up. More than [`MOST_ROWS`] rows, and rows with gradients, are multiplied
    /// with the plain matrix, which is unpacked for them; that product is whole.
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

    /// The product from fragments; `None` where the plain matrix is needed.
    #[cfg(feature = "gpu")]
    fn few_rows(&self, x: &Tensor<3>) -> Option<PartialSums> {
        let [batch, rows, d_in] = x.dims();
        let fits = (1..=MOST_ROWS).contains(&(batch * rows)) && x.dtype() == self.packed.dtype();
        let x = if fits { device::untracked(x)? } else { return None };
        let sums = cube::multiply(&x, &device::in_place(&self.packed), batch * rows, d_in, self.d_out);
        Some(PartialSums::of_parts(device::float_tensor(sums), [batch, rows, self.d_out], self.packed.dtype()))
    }

    /// The plain matrix `[out, in]`, a copy.
    ///
    /// # Panics
    /// If the weights are not on a GPU.
    pub fn plain(&self) -> Tensor<2> {
        #[cfg(feature = "gpu")]
        {
            device::float_tensor(cube::unpack(&device::in_place(&self.packed), self.d_in, self.d_out))
        }
        #[cfg(not(feature = "gpu"))]
        {
            let _ = &self.packed;
            device::absent()
        }
    }
}
