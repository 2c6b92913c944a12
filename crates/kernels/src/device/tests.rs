//! Devices and tensors that tests on a GPU share.

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

/// How far sums of products in f32 may be from the definition: `exact`, but where a device has bf16 its tensor cores
/// also take f32, with factors rounded to the 10 bits of TF32.
pub fn product_bound(device: &Device, exact: f32) -> f32 {
    if device.supports_dtype(DType::BF16) { 2e-3 } else { exact }
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
