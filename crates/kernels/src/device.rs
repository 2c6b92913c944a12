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

    /// The same of a tensor that a kernel writes in place. It was made flat: CUDA pads the rows of other tensors, and a
    /// copy without padding would take what is written.
    pub fn in_place<const D: usize>(tensor: &Tensor<D>) -> CubeTensor {
        let tensor = tensor.clone().try_into_primitive::<CubeBackend>().expect("a tensor on a GPU");
        assert!(tensor.is_contiguous(), "memory that is written in place has no padding");
        tensor
    }

    /// The same, if the tensor is on a GPU and not tracked for gradients.
    pub fn untracked<const D: usize>(tensor: &Tensor<D>) -> Option<CubeTensor> {
        Some(contiguous(tensor.clone().try_into_primitive::<CubeBackend>().ok()?))
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

    /// The same for a kernel that overwrites the rows: a copy, unless nobody else sees them.
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

/// What tests on a GPU share.
#[cfg(all(test, feature = "gpu"))]
pub(crate) mod tests {
    use burn::tensor::{DType, Device, Int, Tensor, TensorData};

    /// The device that kernels are tested on: the first wgpu adapter, or with `GORGON_TEST_DEVICE=cuda` the first CUDA
    /// device. Without an adapter tests say so and pass.
    pub fn device() -> Option<Device> {
        #[cfg(feature = "cuda")]
        if std::env::var("GORGON_TEST_DEVICE").is_ok_and(|name| name == "cuda") {
            return Some(Device::cuda(0));
        }
        adapter()
    }

    #[cfg(feature = "wgpu")]
    fn adapter() -> Option<Device> {
        use burn::tensor::{DeviceKind, DeviceType};
        if Device::enumerate(DeviceType::Wgpu).is_empty() {
            eprintln!("SKIPPED: no Vulkan, Metal or DX12 adapter was found");
            return None;
        }
        Some(Device::wgpu(DeviceKind::DefaultDevice))
    }

    #[cfg(not(feature = "wgpu"))]
    fn adapter() -> Option<Device> {
        eprintln!("SKIPPED: this build has no wgpu, and GORGON_TEST_DEVICE is not cuda");
        None
    }

    /// The nearest number in `bf16`.
    pub fn rounded(values: &[f32]) -> Vec<f32> {
        values.iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect()
    }

    /// Whether a device computes in `bf16`: wgpu's do not.
    pub fn has_bf16(device: &Device) -> bool {
        let there = device.supports_dtype(DType::BF16);
        if !there {
            eprintln!("SKIPPED: the device has no bf16");
        }
        there
    }

    pub fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// Without padding between rows, as memory is made that kernels write in place.
    pub fn flat<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
        let size = values.len();
        Tensor::<1>::from_data(TensorData::new(values, [size]), device).reshape(shape)
    }

    pub fn values_of<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.cast(DType::F32).into_data().try_into_vec().unwrap()
    }

    pub fn ints_of<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i32> {
        tensor.into_data().try_into_vec().unwrap()
    }

    /// Numbers between -1 and 1 without a pattern.
    pub fn value(i: usize) -> f32 {
        ((i.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0
    }
}
