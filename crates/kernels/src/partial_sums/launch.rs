//! Sums of parts as burn tensors.

#[cfg(feature = "gpu")]
use super::cube;
#[cfg(feature = "gpu")]
use crate::device;
use burn::tensor::{DType, Tensor};

/// A product whose parts of K are not added up, or one that is whole.
#[derive(Clone, Debug)]
pub struct PartialSums {
    /// A part after another, each as large as the product: in `f32`, or in the product's format if there is one part.
    sums: Tensor<3>,
    parts: usize,
    /// `[batch, rows, out]`.
    shape: [usize; 3],
    /// Number format of the product.
    dtype: DType,
}

impl PartialSums {
    /// A product that is whole, on any device.
    ///
    /// # Shapes
    /// `product [batch, rows, out]`.
    pub fn whole(product: Tensor<3>) -> Self {
        let (shape, dtype) = (product.dims(), product.dtype());
        Self { sums: product, parts: 1, shape, dtype }
    }

    /// Parts on a GPU, to be rounded to `dtype` when they are added up.
    ///
    /// # Shapes
    /// `sums [parts, batch · rows, out]` in `f32`; `shape` is `[batch, rows, out]`.
    #[cfg(feature = "gpu")]
    pub(crate) fn of_parts(sums: Tensor<3>, shape: [usize; 3], dtype: DType) -> Self {
        let parts = sums.dims()[0];
        assert_eq!(sums.dims().iter().product::<usize>(), parts * shape.iter().product::<usize>(), "whole parts");
        Self { sums, parts, shape, dtype }
    }

    /// `[batch, rows, out]`.
    pub fn dims(&self) -> [usize; 3] {
        self.shape
    }

    /// The sums on a GPU, unless they are tracked for gradients.
    #[cfg(feature = "gpu")]
    pub(crate) fn on_device(&self) -> Option<Unadded> {
        Some(Unadded { sums: device::untracked(&self.sums)?, parts: self.parts, dtype: self.dtype })
    }

    /// The whole product.
    ///
    /// # Shapes
    /// Result `[batch, rows, out]`.
    pub fn sum(self) -> Tensor<3> {
        #[cfg(feature = "gpu")]
        if self.parts > 1 {
            let sums = device::in_place(&self.sums);
            return device::float_tensor(cube::add(&sums, self.parts, None, self.dtype, self.shape));
        }
        let _ = (self.parts, self.dtype);
        self.sums.reshape(self.shape)
    }

    /// `x` and the product added up, on a GPU in one launch.
    ///
    /// # Shapes
    /// `x [batch, rows, out]`, result the same.
    pub fn added_to(self, x: Tensor<3>) -> Tensor<3> {
        #[cfg(feature = "gpu")]
        if let (Some(x), Some(Unadded { sums, parts, dtype })) = (device::untracked(&x), self.on_device()) {
            return device::float_tensor(cube::add(&sums, parts, Some(&x), dtype, self.shape));
        }
        x + self.sum()
    }
}

/// Sums as a kernel takes them.
#[cfg(feature = "gpu")]
pub(crate) struct Unadded {
    pub sums: burn_cubecl::tensor::CubeTensor,
    pub parts: usize,
    /// Number format of the product.
    pub dtype: DType,
}
