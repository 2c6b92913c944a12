//! Matrices of 8-bit floats (e4m3, without infinities) with scales of blocks: `w = number · scale`.

use super::format::Format;
use super::tensors::{Part, Rows, SCALES, Tensors};
use crate::weights::WeightsError;
use safetensors::Dtype;
use std::ops::Range;

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
        let numbers = std::array::from_fn(|bits| e4m3(bits as u8));
        Ok(Box::new(Floats { tensors, numbers, scales, block, d_in }))
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
    /// Values by their bits.
    numbers: [f32; 256],
    scales: Vec<f32>,
    block: [usize; 2],
    d_in: usize,
}

impl Rows for Floats<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let mut bytes = vec![0u8; out.len()];
        self.tensors.read_bytes("weight", rows.start * self.d_in..rows.end * self.d_in, &mut bytes)?;
        let [height, width] = self.block;
        let columns = self.d_in.div_ceil(width);
        let lines = bytes.chunks_exact(self.d_in).zip(out.chunks_exact_mut(self.d_in));
        for (n, (bytes, out)) in rows.zip(lines) {
            let scales = &self.scales[n / height * columns..][..columns];
            for ((bytes, out), &scale) in bytes.chunks(width).zip(out.chunks_mut(width)).zip(scales) {
                out.iter_mut().zip(bytes).for_each(|(out, &byte)| *out = self.numbers[usize::from(byte)] * scale);
            }
        }
        Ok(())
    }

    fn read_codes(&self, _: Range<usize>, _: &mut [u8]) -> Result<(), WeightsError> {
        Err(self.tensors.wrong("weight", "8-bit floats are no integers"))
    }
}
