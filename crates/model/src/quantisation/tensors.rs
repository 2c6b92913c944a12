//! The tensors of a quantised module.

use super::codes::Codes;
use crate::weights::{Entry, Problems, WeightsError};
use safetensors::Dtype;
use std::ops::Range;
use std::path::Path;

/// Types of scales.
pub(super) const SCALES: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::BF16];

/// Tensors by name, as they are stored.
pub(crate) trait Store: Sync {
    /// The folder.
    fn dir(&self) -> &Path;

    /// A tensor's type and shape.
    fn entry(&self, name: &str) -> Option<&Entry>;

    /// All numbers of a float tensor.
    fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError>;

    /// All bytes of a tensor.
    fn bytes(&self, name: &str) -> Result<Vec<u8>, WeightsError>;

    /// Bytes `range` of a tensor.
    fn read_bytes(&self, name: &str, range: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError>;

    /// An error about a tensor.
    fn error(&self, name: &str, reason: String) -> WeightsError;
}

/// A tensor that a module may consist of.
pub(crate) struct Part {
    suffix: &'static str,
    size: Size,
    dtypes: &'static [Dtype],
    needed: bool,
}

enum Size {
    /// One of these shapes.
    Shapes(Vec<Vec<usize>>),
    /// Any shape of so many bytes.
    Bytes(usize),
    Any,
}

impl Part {
    /// A tensor of one of some shapes and types.
    pub fn new(suffix: &'static str, shapes: &[&[usize]], dtypes: &'static [Dtype]) -> Self {
        let shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
        Self { suffix, size: Size::Shapes(shapes), dtypes, needed: true }
    }

    /// A tensor of so many bytes.
    pub fn bytes(suffix: &'static str, bytes: usize) -> Self {
        Self { suffix, size: Size::Bytes(bytes), dtypes: &[], needed: true }
    }

    /// A tensor of any size.
    pub fn needed(suffix: &'static str) -> Self {
        Self { suffix, size: Size::Any, dtypes: &[], needed: true }
    }

    /// A tensor that is not read.
    pub fn unread(suffix: &'static str) -> Self {
        Self { suffix, size: Size::Any, dtypes: &[], needed: false }
    }

    /// Copy that may be absent.
    pub fn optional(self) -> Self {
        Self { needed: false, ..self }
    }

    /// The end of its name.
    pub fn suffix(&self) -> &'static str {
        self.suffix
    }

    /// Reports what is wrong with it.
    pub fn check(&self, tensors: &Tensors<'_>, problems: &mut Problems) {
        let name = tensors.name(self.suffix);
        let Some(entry) = tensors.store.entry(&name) else {
            if self.needed {
                problems.missing.push(name);
            }
            return;
        };
        match &self.size {
            Size::Shapes(shapes) if !shapes.contains(&entry.shape) => {
                let expected: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
                let expected = expected.join(" or ");
                problems.wrong.push(format!("{name} is {:?}, expected {expected}", entry.shape));
            }
            Size::Bytes(bytes) if *bytes != entry.bytes() => {
                problems.wrong.push(format!("{name} has {} bytes, expected {bytes}", entry.bytes()));
            }
            _ if !self.dtypes.is_empty() && !self.dtypes.contains(&entry.dtype) => {
                let expected: Vec<String> = self.dtypes.iter().map(|dtype| format!("{dtype:?}")).collect();
                problems.wrong.push(format!("{name} is {:?}, expected {}", entry.dtype, expected.join(" or ")));
            }
            _ => {}
        }
    }
}

/// The tensors of one module.
#[derive(Clone, Copy)]
pub(crate) struct Tensors<'a> {
    pub store: &'a dyn Store,
    pub module: &'a str,
}

impl<'a> Tensors<'a> {
    /// The full name of a tensor.
    pub fn name(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.module)
    }

    pub fn has(&self, suffix: &str) -> bool {
        self.store.entry(&self.name(suffix)).is_some()
    }

    pub fn dtype(&self, suffix: &str) -> Dtype {
        self.store.entry(&self.name(suffix)).map_or(Dtype::F32, |entry| entry.dtype)
    }

    fn entry(&self, suffix: &str) -> Result<&'a Entry, WeightsError> {
        self.store.entry(&self.name(suffix)).ok_or_else(|| self.wrong(suffix, "it is missing"))
    }

    /// An error about a tensor.
    pub fn wrong(&self, suffix: &str, reason: impl Into<String>) -> WeightsError {
        self.store.error(&self.name(suffix), reason.into())
    }

    /// The two sizes of a matrix, neither zero nor absurd.
    pub fn matrix_shape(&self, suffix: &str) -> Result<[usize; 2], WeightsError> {
        match self.entry(suffix)?.shape.as_slice() {
            &[rows, columns] => self.sizes(suffix, rows as u128, columns as u128),
            other => Err(self.wrong(suffix, format!("its shape is {other:?}, expected a matrix"))),
        }
    }

    /// Sizes of a matrix, if they are not zero and their products do not overflow.
    pub fn sizes(&self, suffix: &str, rows: u128, columns: u128) -> Result<[usize; 2], WeightsError> {
        const MOST: u128 = 1 << 28;
        match (1..=MOST).contains(&rows) && (1..=MOST).contains(&columns) {
            true => Ok([rows as usize, columns as usize]),
            false => Err(self.wrong(suffix, format!("a matrix of {rows} x {columns} is not supported"))),
        }
    }

    /// All numbers of a float tensor, which must be finite.
    pub fn floats(&self, suffix: &str) -> Result<Vec<f32>, WeightsError> {
        let values = self.store.floats(&self.name(suffix))?;
        match values.iter().position(|value| !value.is_finite()) {
            Some(at) => Err(self.wrong(suffix, format!("element {at} is {}", values[at]))),
            None => Ok(values),
        }
    }

    /// All bytes of a tensor.
    pub fn bytes(&self, suffix: &str) -> Result<Vec<u8>, WeightsError> {
        self.store.bytes(&self.name(suffix))
    }

    /// All bytes of a tensor that must not have more than `limit`.
    pub fn small_bytes(&self, suffix: &str, limit: usize) -> Result<Vec<u8>, WeightsError> {
        match self.entry(suffix)?.bytes() {
            bytes if bytes <= limit => self.bytes(suffix),
            bytes => Err(self.wrong(suffix, format!("it has {bytes} bytes, at most {limit} are expected"))),
        }
    }

    /// Bytes `range` of a tensor.
    pub fn read_bytes(&self, suffix: &str, range: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        self.store.read_bytes(&self.name(suffix), range, out)
    }

    /// All 32-bit numbers of a tensor.
    pub fn words(&self, suffix: &str) -> Result<Vec<u32>, WeightsError> {
        let bytes = self.bytes(suffix)?;
        Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }
}

/// Rows of a dequantised matrix.
pub(crate) trait Rows: Send + Sync {
    /// Writes rows `[rows, in]` in `f32`.
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError>;

    /// The matrix as codes, if it is one of integers or of numbers of a table.
    fn codes(&self) -> Option<&Codes> {
        None
    }

    /// Writes rows of codes, inputs in the order of [`Codes`].
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError>;
}
