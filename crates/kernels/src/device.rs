//! The way between burn tensors on a GPU and kernels in the language of cubecl, as [`crate::host`] is for slices.
//!
//! A handle refers to memory, and what a kernel writes is seen through every handle to it. Buffers that a step uses
//! again (caches, tables, results) are therefore made once and written by kernels alone, in place, so that a recorded
//! step finds them where they were.

#[cfg(not(feature = "gpu"))]
pub(crate) fn absent() -> ! {
    unreachable!("this binary has no kernels for devices other than the CPU, and so no tensors there")
}

#[cfg(feature = "gpu")]
pub(crate) use gpu::*;

#[cfg(feature = "gpu")]
mod gpu {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::tensor::{DType, Int, Shape, Tensor};
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
    use burn_cubecl::{CubeBackend, tensor::CubeTensor};
    use cubecl::ir::ElemType;
    use cubecl::prelude::{AddressType, TensorArg};

    /// A float tensor's handle; its values lie in row-major order.
    pub fn floats<const D: usize>(tensor: &Tensor<D>) -> CubeTensor {
        contiguous(tensor.clone().try_into_primitive::<CubeBackend>().expect("a tensor on a GPU"))
    }

    /// Handle of a tensor that a kernel writes in place. It was made flat: CUDA pads the rows of other tensors, and a
    /// copy without padding would take what is written.
    pub fn in_place<const D: usize>(tensor: &Tensor<D>) -> CubeTensor {
        let tensor = tensor.clone().try_into_primitive::<CubeBackend>().expect("a tensor on a GPU");
        assert!(tensor.is_contiguous(), "memory that is written in place has no padding");
        tensor
    }

    /// Handle of a tensor that is on a GPU and not tracked for gradients.
    pub fn untracked<const D: usize>(tensor: &Tensor<D>) -> Option<CubeTensor> {
        Some(contiguous(tensor.clone().try_into_primitive::<CubeBackend>().ok()?))
    }

    /// Handle of a float tensor that it takes over: whoever has another one keeps its memory from being written.
    pub fn taken<const D: usize>(tensor: Tensor<D>) -> CubeTensor {
        contiguous(tensor.try_into_primitive::<CubeBackend>().expect("a tensor on a GPU"))
    }

    /// An integer tensor's handle; its values lie in row-major order.
    pub fn ints<const D: usize>(tensor: &Tensor<D, Int>) -> CubeTensor {
        contiguous(tensor.clone().try_into_primitive::<CubeBackend>().expect("a tensor on a GPU"))
    }

    /// The handle of a float tensor whose rows are read one by one; there may be padding between them.
    pub fn rows(tensor: Tensor<2>) -> CubeTensor {
        let tensor = tensor.try_into_primitive::<CubeBackend>().expect("a tensor on a GPU");
        let [of_rows, within] = [0, 1].map(|dim| tensor.meta.strides()[dim]);
        if within == 1 && of_rows >= tensor.meta.shape()[1] { tensor } else { into_contiguous(tensor) }
    }

    /// Handle for a kernel that overwrites the rows: a copy, unless nobody else sees them.
    pub fn owned(tensor: Tensor<2>) -> CubeTensor {
        let tensor = rows(tensor);
        if tensor.can_mut() { tensor } else { tensor.copy() }
    }

    /// How many neighbours within a row are read at once.
    pub fn vector_width(tensor: &CubeTensor) -> usize {
        let sizes = tensor.client.io_optimized_vector_sizes(tensor.dtype.size());
        cubecl::tensor_vector_size_parallel(sizes, tensor.meta.shape(), tensor.meta.strides(), 1)
    }

    /// A flat result in `f32`, read from the device.
    pub fn values(tensor: CubeTensor) -> Vec<f32> {
        float_tensor::<1>(tensor).into_data().try_into_vec().expect("a table of f32")
    }

    fn contiguous(tensor: CubeTensor) -> CubeTensor {
        if tensor.is_contiguous() { tensor } else { into_contiguous(tensor) }
    }

    /// Memory for a result beside `like`, not yet written.
    pub fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D], dtype: DType) -> CubeTensor {
        empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::new(shape), dtype)
    }

    /// A burn tensor of a kernel's result.
    pub fn float_tensor<const D: usize>(tensor: CubeTensor) -> Tensor<D> {
        Tensor::from_primitive::<CubeBackend>(tensor)
    }

    /// A burn tensor of a kernel's integer result.
    pub fn int_tensor<const D: usize>(tensor: CubeTensor) -> Tensor<D, Int> {
        Tensor::from_primitive::<CubeBackend>(tensor)
    }

    /// A tensor as a kernel's argument.
    pub fn arg(tensor: &CubeTensor) -> TensorArg {
        tensor.clone().into_tensor_arg()
    }

    /// The number format as kernels name it.
    pub fn elem(tensor: &CubeTensor) -> ElemType {
        dtype_to_storage_type(tensor.dtype)
    }

    /// How wide indices must be to reach every element of these tensors.
    pub fn address<'a>(tensors: impl IntoIterator<Item = &'a CubeTensor>) -> AddressType {
        tensors.into_iter().map(CubeTensor::required_address_type).max().unwrap_or_default()
    }
}

#[cfg(all(test, feature = "gpu"))]
pub(crate) mod tests;
