//! Matrices of 8-bit floats (e4m3, without infinities) with scales of blocks: `w = number · scale`.

use super::codes::{Codes, Zeros};
use super::format::Format;
use super::tensors::{Part, Rows, SCALES, Tensors};
use crate::weights::WeightsError;
use safetensors::Dtype;
use std::ops::Range;
use std::sync::Arc;

/// Names of the scales, and which weights share one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// Suffixes under which scales may be stored; the first is the one that is missing where none is there.
    pub scales: &'static [&'static str],
    pub blocks: Blocks,
}

/// Weights that share a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Blocks {
    /// All of the matrix.
    Tensor,
    /// A row.
    Channel,
    /// All of the matrix or a row, as the shape of the scales says.
    TensorOrChannel,
    /// Outputs and inputs of a block; blocks at the edges may be smaller.
    Sized([usize; 2]),
}

impl Layout {
    fn scale_name(&self, tensors: &Tensors<'_>) -> &'static str {
        let first = self.scales.first().copied().unwrap_or("weight_scale");
        self.scales.iter().copied().find(|suffix| tensors.has(suffix)).unwrap_or(first)
    }
}

impl Format for Layout {
    fn markers(&self) -> &[&'static str] {
        self.scales
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        tensors.matrix_shape("weight")
    }

    fn parts(&self, tensors: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let one: [&[usize]; 3] = [&[1], &[], &[1, 1]];
        let each: [&[usize]; 2] = [&[d_out, 1], &[d_out]];
        let both = [one[0], one[1], one[2], each[0], each[1]];
        let grid = match self.blocks {
            Blocks::Sized([rows, columns]) => [d_out.div_ceil(rows), d_in.div_ceil(columns)],
            _ => [1, 1],
        };
        let sized: [&[usize]; 1] = [&grid];
        let shapes: &[&[usize]] = match self.blocks {
            Blocks::Tensor => &one,
            Blocks::Channel => &each,
            Blocks::TensorOrChannel => &both,
            Blocks::Sized(_) => &sized,
        };
        let mut parts = vec![
            Part::new("weight", &[&[d_out, d_in]], &[Dtype::F8_E4M3]),
            Part::new(self.scale_name(tensors), shapes, SCALES),
        ];
        parts.extend(["input_scale", "activation_scale", "output_scale"].map(Part::unread));
        parts
    }

    fn open<'a>(&self, tensors: Tensors<'a>, [d_out, d_in]: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let name = self.scale_name(&tensors);
        let scales = tensors.floats(name)?;
        let block = match self.blocks {
            Blocks::Sized(size) => size,
            Blocks::Tensor => [d_out, d_in],
            Blocks::Channel => [1, d_in],
            Blocks::TensorOrChannel if scales.len() == 1 => [d_out, d_in],
            Blocks::TensorOrChannel => [1, d_in],
        };
        let [height, group] = block;
        let groups = d_in.div_ceil(group);
        let scale = |i: usize| scales[i % d_out / height * groups + i / d_out];
        let codes = Codes {
            bits: 8,
            d_out,
            d_in,
            group,
            scales: (0..groups * d_out).map(scale).collect(),
            scale_dtype: Dtype::F32,
            zeros: Zeros::One(0),
            order: None,
            numbers: Some(Arc::new(std::array::from_fn(|bits| e4m3(bits as u8)))),
        };
        Ok(Box::new(Floats { tensors, codes }))
    }

    fn description(&self) -> String {
        let scales = match self.blocks {
            Blocks::Tensor => "one scale".into(),
            Blocks::Channel => "a scale per output".into(),
            Blocks::TensorOrChannel => "a scale per matrix or output".into(),
            Blocks::Sized([rows, columns]) => format!("blocks of {rows} x {columns}"),
        };
        format!("floats of 8 bits (e4m3), {scales}")
    }
}

/// The value of 8 bits: sign, 4 bits of exponent with bias 7, 3 of mantissa. Only all ones are no number.
fn e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from((bits >> 3) & 15), f32::from(bits & 7));
    let size = match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 512.0,
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if bits & 0x80 == 0 { size } else { -size }
}

struct Floats<'a> {
    tensors: Tensors<'a>,
    /// Each byte is a code.
    codes: Codes,
}

impl Rows for Floats<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let mut bytes = vec![0u8; out.len()];
        self.read_codes(rows.clone(), &mut bytes)?;
        self.codes.dequantise(rows, &bytes, out);
        Ok(())
    }

    fn codes(&self) -> Option<&Codes> {
        Some(&self.codes)
    }

    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        let d_in = self.codes.d_in;
        self.tensors.read_bytes("weight", rows.start * d_in..rows.end * d_in, out)
    }
}
