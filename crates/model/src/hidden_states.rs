//! Hidden states that a pass hands out.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use gorgon_core::PooledVec;
use gorgon_kernels::{Isa, host, norm};
use std::ops::Add;

/// The states of some rows, where they were computed. On the CPU they are plain numbers in memory that serves again: a
/// tensor would allocate.
#[derive(Clone, Debug)]
pub enum HiddenStates {
    /// On the CPU.
    Host {
        /// `[rows, d]`, row-major.
        values: PooledVec<f32>,
        /// `d`.
        width: usize,
    },
    /// Elsewhere, `[1, rows, d]`. Boxed, because a tensor is ten times as large as what is passed on for the CPU.
    Device(Box<Tensor<3>>),
}

impl HiddenStates {
    /// States `[1, rows, d]` on a device other than the CPU.
    pub fn on_device(states: Tensor<3>) -> Self {
        Self::Device(Box::new(states))
    }

    /// These states on another device; those on the CPU stay.
    #[must_use]
    pub fn to_device(self, device: &Device) -> Self {
        match self {
            Self::Device(states) if states.device() != *device => Self::on_device(states.to_device(device)),
            states => states,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Host { values, width } => values.len() / (*width).max(1),
            Self::Device(states) => states.dims()[1],
        }
    }

    /// The values `[rows, d]`, row-major, if they are on the CPU.
    pub fn on_host(&self) -> Option<&[f32]> {
        match self {
            Self::Host { values, .. } => Some(values),
            Self::Device(_) => None,
        }
    }

    /// Size of a state, `d`.
    pub fn width(&self) -> usize {
        match self {
            Self::Host { width, .. } => *width,
            Self::Device(states) => states.dims()[2],
        }
    }

    /// As a tensor, without a copy.
    ///
    /// # Shapes
    /// `[1, rows, d]`.
    pub fn into_tensor(self) -> Tensor<3> {
        let rows = self.rows();
        match self {
            Self::Host { values, width } => host::tensor(values.into_vec(), [1, rows, width]),
            Self::Device(states) => *states,
        }
    }

    /// As a tensor: on the CPU a copy.
    ///
    /// # Shapes
    /// `[1, rows, d]`.
    pub fn tensor(&self) -> Tensor<3> {
        match self {
            Self::Host { values, width } => host::tensor(values.to_vec(), [1, self.rows(), *width]),
            Self::Device(states) => Tensor::clone(states),
        }
    }

    /// `rows` rows from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn narrow(&self, first: usize, rows: usize) -> Self {
        match self {
            Self::Host { values, width } => {
                Self::Host { values: values[first * width..(first + rows) * width].into(), width: *width }
            }
            Self::Device(states) => Self::on_device(Tensor::clone(states).narrow(1, first, rows)),
        }
    }

    /// The values in `f32`, `[rows, d]`, row-major: elsewhere than on the CPU a read from the device.
    pub fn into_values(self) -> PooledVec<f32> {
        match self {
            Self::Host { values, .. } => values,
            Self::Device(states) => read(*states).into(),
        }
    }

    /// Every `count` rows side by side as one, `count` times as wide.
    ///
    /// # Panics
    /// If rows are left over.
    pub fn merge_rows(self, count: usize) -> Self {
        match self {
            Self::Host { values, width } => {
                assert_eq!(values.len() % (count * width).max(1), 0, "rows are left over");
                Self::Host { values, width: count * width }
            }
            Self::Device(states) => {
                let [_, rows, width] = states.dims();
                Self::on_device(states.reshape([1, rows / count, count * width]))
            }
        }
    }

    /// Some rows, in a given order.
    ///
    /// # Panics
    /// If a row is none of these.
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Host { values, width } => {
                let mut some = PooledVec::with_capacity(rows.len() * width);
                rows.iter().for_each(|&row| some.extend_from_slice(&values[row * width..(row + 1) * width]));
                Self::Host { values: some, width: *width }
            }
            Self::Device(states) => Self::on_device(select_rows(states, rows)),
        }
    }

    /// The rows of all of these, one after another; there is at least one, and they are in one place.
    pub fn concat(parts: &[Self]) -> Self {
        match parts {
            [alone] => alone.clone(),
            [Self::Host { width, .. }, ..] => {
                let mut values =
                    PooledVec::with_capacity(parts.iter().filter_map(Self::on_host).map(<[f32]>::len).sum());
                parts.iter().filter_map(Self::on_host).for_each(|part| values.extend_from_slice(part));
                Self::Host { values, width: *width }
            }
            parts => Self::on_device(Tensor::cat(parts.iter().map(Self::tensor).collect(), 1)),
        }
    }

    /// The columns of all of these side by side, as wide as all together; there is at least one, all have as many
    /// rows, and they are in one place.
    pub fn concat_columns(parts: &[Self]) -> Self {
        match parts {
            [alone] => alone.clone(),
            [Self::Host { .. }, ..] => {
                let width = parts.iter().map(Self::width).sum();
                let mut values =
                    PooledVec::with_capacity(parts[0].rows() * parts.iter().map(Self::width).sum::<usize>());
                values.reserve(parts[0].rows() * width);
                for row in 0..parts[0].rows() {
                    for part in parts {
                        let from = part.on_host().unwrap_or(&[]);
                        values.extend_from_slice(&from[row * part.width()..(row + 1) * part.width()]);
                    }
                }
                Self::Host { values, width }
            }
            parts => Self::on_device(Tensor::cat(parts.iter().map(Self::tensor).collect(), 2)),
        }
    }
}

impl Add for HiddenStates {
    type Output = Self;

    /// The sum, in the left side's memory on the CPU. Both sides have the same shape and are in one place.
    fn add(self, other: Self) -> Self {
        match (self, other) {
            (Self::Host { mut values, width }, Self::Host { values: other, .. }) => {
                norm::add_rows(Isa::detect(), &mut values, &other);
                Self::Host { values, width }
            }
            (x, y) => Self::on_device(x.into_tensor() + y.into_tensor()),
        }
    }
}

impl From<Tensor<3>> for HiddenStates {
    /// A tensor `[1, rows, d]`, copied if it is on the CPU.
    fn from(states: Tensor<3>) -> Self {
        let width = states.dims()[2];
        match host::read(&states) {
            Some(values) => Self::Host { values: values.as_slice().iter().copied().collect(), width },
            None => Self::on_device(states),
        }
    }
}

/// A tensor's values in `f32` on the host, row-major: a read from a device.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data = tensor.cast(DType::F32).into_data();
    data.try_into_vec().expect("the tensor was cast to f32")
}

/// Some rows of `states [1, rows, d]`, in a given order.
pub fn select_rows(states: &Tensor<3>, rows: &[usize]) -> Tensor<3> {
    let whole = rows.len() == states.dims()[1] && rows.iter().enumerate().all(|(i, &row)| i == row);
    if whole {
        return states.clone();
    }
    let index: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    let index = Tensor::<1, Int>::from_data(TensorData::new(index, [rows.len()]), &states.device());
    states.clone().select(1, index)
}

#[cfg(test)]
mod tests;
