//! Hidden states that a pass hands out.

use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Recycled;
use gorgon_kernels::host;

/// The states of some rows, where they were computed. On the CPU they are plain numbers in memory that serves again: a
/// tensor would allocate.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per pass")]
pub enum States {
    /// On the CPU.
    Host {
        /// `[rows, d]`, row-major.
        values: Recycled<f32>,
        /// `d`.
        width: usize,
    },
    /// Elsewhere, `[1, rows, d]`.
    Device(Tensor<3>),
}

impl States {
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
            Self::Device(states) => states,
        }
    }

    /// As a tensor: on the CPU a copy.
    ///
    /// # Shapes
    /// `[1, rows, d]`.
    pub fn tensor(&self) -> Tensor<3> {
        match self {
            Self::Host { values, width } => host::tensor(values.to_vec(), [1, self.rows(), *width]),
            Self::Device(states) => states.clone(),
        }
    }

    /// `rows` rows from `first` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn part(&self, first: usize, rows: usize) -> Self {
        match self {
            Self::Host { values, width } => {
                let mut part = Recycled::new();
                part.extend_from_slice(&values[first * width..(first + rows) * width]);
                Self::Host { values: part, width: *width }
            }
            Self::Device(states) => Self::Device(states.clone().narrow(1, first, rows)),
        }
    }

    /// Some rows as a tensor, in a given order.
    ///
    /// # Shapes
    /// Result `[1, rows.len(), d]`.
    ///
    /// # Panics
    /// If a row is none of these.
    pub fn select(&self, rows: &[usize]) -> Tensor<3> {
        match self {
            Self::Host { values, width } => {
                let mut some = Vec::with_capacity(rows.len() * width);
                rows.iter().for_each(|&row| some.extend_from_slice(&values[row * width..(row + 1) * width]));
                host::tensor(some, [1, rows.len(), *width])
            }
            Self::Device(states) => select_rows(states, rows),
        }
    }

    /// All of these, one after another; there is at least one, and they are in one place.
    pub(crate) fn join(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let width = parts.iter().find_map(|part| if let Self::Host { width, .. } = part { Some(*width) } else { None });
        match width {
            Some(width) => {
                let mut values = Recycled::new();
                values.reserve(parts.iter().filter_map(Self::on_host).map(<[f32]>::len).sum());
                parts.iter().filter_map(Self::on_host).for_each(|part| values.extend_from_slice(part));
                Self::Host { values, width }
            }
            None => Self::Device(Tensor::cat(parts.iter().map(Self::tensor).collect(), 1)),
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_out_and_joined() {
        let states = States::Host { values: (0..6).map(|i| i as f32).collect(), width: 2 };
        assert_eq!((states.rows(), states.tensor().dims()), (3, [1, 3, 2]));
        assert_eq!(states.part(1, 2).on_host(), Some(&[2.0, 3.0, 4.0, 5.0][..]));
        assert_eq!(
            states.select(&[2, 0]).into_data(),
            states.tensor().flip([1]).select(1, Tensor::from_ints([0, 2], &states.tensor().device())).into_data()
        );
        let joined = States::join(vec![states.part(2, 1), states.part(0, 1)]);
        assert_eq!(joined.on_host(), Some(&[4.0, 5.0, 0.0, 1.0][..]));
        assert_eq!(States::join(vec![states.clone()]).on_host(), states.on_host());
    }
}
