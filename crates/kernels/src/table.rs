//! A linear layer onto a vocabulary.

use crate::few_row_matmul::{self, PackError, Packed, RowSource, WeightDtype};
use crate::{Isa, host, tall_matmul};
use burn::tensor::{DType, Int, Tensor};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A row per token, `W [V, d]`: `logits = h · Wᵀ`. Where it stays as it is, it can be held in panels for both
/// directions too, which spares each product the packing.
#[derive(Clone, Debug)]
pub struct Table {
    rows: Tensor<2>,
    panels: Option<Arc<Panels>>,
}

/// Number format of matmuls with a frozen table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableFormat {
    /// 32-bit numbers.
    #[default]
    F32,
    /// Numbers rounded to `bf16`, states and gradients too; sums in 32 bits on the CPU, results rounded as well on a
    /// GPU. Up to twice as fast where the processor has such products.
    Bf16,
}

/// How a table that stays as it is is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Number format of the matmuls.
    pub format: TableFormat,
    /// Whether gradients go back through it: `g · W` is wanted too.
    pub backward: bool,
    /// Bytes of memory that panels may take.
    pub budget: u64,
}

impl Default for Frozen {
    fn default() -> Self {
        Self { format: TableFormat::F32, backward: true, budget: u64::MAX }
    }
}

/// Why products in `bf16` cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The device has none.
    #[error("{0} has no products of bf16 numbers")]
    NoBf16(String),
    /// Memory.
    #[error("the LM head's {bytes} bytes in bf16 do not fit the {budget} that there are")]
    Memory {
        /// Bytes that they take.
        bytes: u64,
        /// Bytes that there are.
        budget: u64,
    },
    /// Weights that cannot be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
}

/// Sixteen tiles of fifteen rows.
const ROWS_AT_ONCE: usize = 240;

/// Rows of a launch with a group of units each.
const ROWS_OF_A_LAUNCH: usize = 32_768;

/// Storage that matmuls with a table read.
#[derive(Debug)]
enum Panels {
    /// On the CPU: `h [.., d]` to `[.., V]`, and `g [.., V]` to `[.., d]`.
    Packed { forward: Packed, backward: Option<Packed> },
    /// On a GPU: the table in `bf16`.
    Rounded(Tensor<2>),
}

impl Table {
    /// A table that stays as it is. In 32 bits it is held in panels where they are of use (processors whose vectors
    /// [`few_row_matmul`] fills with many rows) and have room: as many bytes again for each direction; in `bf16` half
    /// as many.
    ///
    /// # Errors
    /// When products in `bf16` are asked for and cannot be had.
    pub fn frozen(rows: Tensor<2>, held: Frozen) -> Result<Self, TableError> {
        let panels = match held.format {
            TableFormat::F32 => Panels::wide(&rows, held),
            TableFormat::Bf16 => Some(Panels::narrow(&rows, held)?),
        };
        Ok(Self { rows, panels: panels.map(Arc::new) })
    }

    /// The rows of some tokens, in panels of the same format where this table has them.
    #[must_use]
    pub fn of_tokens(&self, tokens: Tensor<1, Int>) -> Self {
        let rows = self.rows.clone().select(0, tokens);
        let held = |format, backward| Frozen { format, backward, budget: u64::MAX };
        let panels = match self.panels.as_deref() {
            None => None,
            Some(Panels::Packed { forward, backward }) if forward.dtype() == WeightDtype::F32 => {
                Panels::wide(&rows, held(TableFormat::F32, backward.is_some()))
            }
            // What this table's device and memory had, fewer rows have too; where not, the products are those of 32
            // bits.
            Some(Panels::Packed { backward, .. }) => {
                Panels::narrow(&rows, held(TableFormat::Bf16, backward.is_some())).ok()
            }
            Some(Panels::Rounded(_)) => Panels::narrow(&rows, held(TableFormat::Bf16, true)).ok(),
        };
        Self { rows, panels: panels.map(Arc::new) }
    }

    /// Number format of the matmuls beside it on its device: `bf16` on a GPU where its own are rounded to it, else 32
    /// bits.
    pub fn product_dtype(&self) -> DType {
        match self.panels.as_deref() {
            Some(Panels::Rounded(_)) => DType::BF16,
            _ => DType::F32,
        }
    }

    /// Bytes that its panels take.
    pub fn panel_bytes(&self) -> usize {
        match self.panels.as_deref() {
            None => 0,
            Some(Panels::Packed { forward, backward }) => forward.bytes() + backward.as_ref().map_or(0, Packed::bytes),
            Some(Panels::Rounded(rows)) => 2 * rows.shape().num_elements(),
        }
    }

    /// Bytes that a thread keeps for its products of `rows` rows with panels: rows laid side by side, as many as are at
    /// once.
    pub fn scratch_bytes(&self, rows: usize) -> usize {
        let vocab = self.rows.dims()[0];
        match self.panels.as_deref() {
            None | Some(Panels::Rounded(_)) => 0,
            Some(_) => 4 * vocab * rows.min(few_row_matmul::rows_side_by_side(vocab)),
        }
    }

    /// Rows of logits that are worth having at once: with panels on the CPU, more rows only take more memory. On a GPU
    /// as many as one launch can have.
    pub fn rows_at_once(&self, most: usize) -> usize {
        let most = match self.panels.as_deref() {
            None | Some(Panels::Rounded(_)) => most.min(ROWS_OF_A_LAUNCH),
            Some(_) => most.min(ROWS_AT_ONCE),
        };
        most.max(1)
    }

    /// `h · Wᵀ`.
    ///
    /// # Shapes
    /// `hidden [rows, d]`, result `[rows, V]`.
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match self.panels.as_deref() {
            Some(Panels::Rounded(_)) => self.scores(hidden).cast(DType::F32),
            _ => self.scores(hidden),
        }
    }

    /// Logits in the matmul's own format: `bf16` where results are rounded to it.
    pub(crate) fn scores(&self, hidden: Tensor<2>) -> Tensor<2> {
        match self.panels.as_deref() {
            None => tall_matmul::matmul(hidden, self.rows.clone().transpose()),
            Some(Panels::Packed { forward, .. }) => on_host(&hidden, forward),
            Some(Panels::Rounded(rows)) => tall_matmul::matmul(hidden.cast(DType::BF16), rows.clone().transpose()),
        }
    }

    /// `g · W`.
    ///
    /// # Shapes
    /// `gradient [rows, V]`, result `[rows, d]`.
    pub fn back(&self, gradient: Tensor<2>) -> Tensor<2> {
        match self.panels.as_deref() {
            Some(Panels::Packed { backward: Some(backward), .. }) => on_host(&gradient, backward),
            Some(Panels::Rounded(rows)) => {
                tall_matmul::matmul(gradient.cast(DType::BF16), rows.clone()).cast(DType::F32)
            }
            _ => tall_matmul::matmul(gradient, self.rows.clone()),
        }
    }
}

impl From<Tensor<2>> for Table {
    /// A table that may be another one next time.
    fn from(rows: Tensor<2>) -> Self {
        Self { rows, panels: None }
    }
}

impl Deref for Table {
    type Target = Tensor<2>;

    fn deref(&self) -> &Tensor<2> {
        &self.rows
    }
}

impl Panels {
    /// Panels in 32 bits of a table on the CPU, where they are of use and memory has room for them.
    fn wide(rows: &Tensor<2>, held: Frozen) -> Option<Self> {
        let [vocab, d] = rows.dims();
        let bytes = 4 * (vocab * d) as u64 * (1 + u64::from(held.backward));
        if !Isa::detect().has_tall_tiles() || !host::is_host(&rows.device()) || bytes > held.budget {
            return None;
        }
        Self::packed(rows, WeightDtype::F32, held.backward).ok()
    }

    /// Panels of a table on the CPU.
    fn packed(rows: &Tensor<2>, dtype: WeightDtype, both: bool) -> Result<Self, PackError> {
        let [vocab, d] = rows.dims();
        let values = host::read(rows).ok_or_else(|| PackError::Source("the table is not on the CPU".into()))?;
        let of_rows = (values.as_slice(), d);
        let forward = Packed::pack(d, vocab, dtype, &of_rows)?;
        let backward = both.then(|| Packed::pack(vocab, d, dtype, &Transposed(of_rows))).transpose()?;
        Ok(Self::Packed { forward, backward })
    }

    fn narrow(rows: &Tensor<2>, held: Frozen) -> Result<Self, TableError> {
        let device = rows.device();
        if !host::is_host(&device) {
            return match device.supports_dtype(DType::BF16) {
                true => Ok(Self::Rounded(rows.clone().cast(DType::BF16))),
                false => Err(TableError::NoBf16(format!("{device:?}"))),
            };
        }
        if !WeightDtype::Bf16Pairs.is_supported() {
            return Err(TableError::NoBf16("this processor".into()));
        }
        let bytes = 2 * rows.shape().num_elements() as u64 * (1 + u64::from(held.backward));
        if bytes > held.budget {
            return Err(TableError::Memory { bytes, budget: held.budget });
        }
        Ok(Self::packed(rows, WeightDtype::Bf16Pairs, held.backward)?)
    }
}

/// The columns of a matrix with its row length, as rows.
struct Transposed<'a>((&'a [f32], usize));

impl RowSource for Transposed<'_> {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        let (values, width) = self.0;
        let height = values.len() / width;
        for (k, row) in values.chunks_exact(width).enumerate() {
            for (i, &value) in row[rows.clone()].iter().enumerate() {
                out[i * height + k] = value;
            }
        }
        Ok(())
    }
}

fn on_host(x: &Tensor<2>, panels: &Packed) -> Tensor<2> {
    let values = host::read(x).expect("panels multiply CPU tensors only");
    few_row_matmul::matrix(values.as_slice(), panels, x.dims()[0])
}

#[cfg(test)]
mod tests;
