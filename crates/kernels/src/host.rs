//! The way between burn tensors on the CPU and plain slices.

use burn::backend::{Flex, flex::FlexTensor};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use std::mem::MaybeUninit;

/// A CPU tensor's `f32` values, readable as a slice without a copy.
pub struct HostValues(FlexTensor);

impl HostValues {
    /// The values in row-major order.
    pub fn as_slice(&self) -> &[f32] {
        // `read` made the tensor contiguous, and `f32` is the only float type this project keeps in CPU tensors.
        self.0.as_slice().unwrap_or(&[])
    }
}

/// True if `device` is the CPU: plain slices can be had of its tensors.
pub fn is_host(device: &Device) -> bool {
    *device == Device::flex()
}

/// Reads a CPU tensor in place; `None` if it lives on another device or is tracked for gradients.
pub fn read<const D: usize>(tensor: &Tensor<D>) -> Option<HostValues> {
    let flex = tensor.clone().try_into_primitive::<Flex>().ok()?;
    Some(HostValues(if flex.is_contiguous() { flex } else { flex.to_contiguous() }))
}

/// A CPU tensor that takes over `values` (row-major) without a copy.
///
/// # Panics
/// If the number of values is not the product of `shape`.
pub fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_primitive::<Flex>(FlexTensor::from_data(TensorData::new(values, Shape::new(shape))))
}

/// A CPU tensor whose values `fill` writes: memory is not cleared first, which would write everything twice.
///
/// # Safety
/// `fill` writes every value.
pub(crate) unsafe fn filled<const D: usize>(
    shape: [usize; D],
    fill: impl FnOnce(&mut [MaybeUninit<f32>]),
) -> Tensor<D> {
    let size = shape.iter().product();
    let mut values: Vec<f32> = Vec::with_capacity(size);
    fill(&mut values.spare_capacity_mut()[..size]);
    // SAFETY: the caller's promise.
    unsafe { values.set_len(size) };
    tensor(values, shape)
}

/// Values that are there, as a function that writes all of them takes them.
///
/// # Safety
/// Nothing but numbers is written there.
pub(crate) unsafe fn as_unwritten(values: &mut [f32]) -> &mut [MaybeUninit<f32>] {
    // SAFETY: the same layout, and the caller's promise.
    unsafe { &mut *(std::ptr::from_mut(values) as *mut [MaybeUninit<f32>]) }
}
