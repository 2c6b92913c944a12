//! A tensor with more rows and columns.

use half::{bf16, f16};
use safetensors::Dtype;
use std::io::{self, Write};

/// Numbers in the rows and columns that are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Zeros: rows that write to new channels, columns that read values which have to be ignored.
    Zeros,
    /// Small random numbers. In an old row they are at most half of its greatest number, so its scale in 8 bits stays.
    /// New rows have a quarter of the old ones' mean square.
    Random,
}

/// How a tensor grows. Vectors are matrices of one row.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    /// Rows and columns before.
    pub from: [usize; 2],
    /// Rows and columns after, at least as many.
    pub to: [usize; 2],
    /// Factor on the old numbers.
    pub scale: f32,
    /// New columns of old rows.
    pub columns: Fill,
    /// New rows.
    pub rows: Fill,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Growing {
    /// Writes the grown tensor in a number format, row by row.
    ///
    /// # Shapes
    /// `values [from[0], from[1]]`.
    ///
    /// # Errors
    /// When there are not as many values as the shape says, the format is no float, or the writer fails.
    pub(super) fn write(&self, values: &[f32], dtype: Dtype, file: &mut dyn Write) -> io::Result<()> {
        let [rows, columns] = self.from;
        let shrinks = self.to[0] < rows || self.to[1] < columns;
        if columns == 0 || shrinks || rows.checked_mul(columns) != Some(values.len()) {
            let (from, to, held) = (self.from, self.to, values.len());
            return Err(io::Error::other(format!("{held} values of {from:?} do not grow to {to:?}")));
        }
        let mean_square = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len().max(1) as f64;
        // A uniform number in [-a, a] has a mean square of a² / 3.
        let in_new_rows = 0.5 * (3.0 * mean_square).sqrt() as f32;
        let mut random = SplitMix(self.seed);
        let (mut row, mut bytes) = (vec![0.0; self.to[1]], vec![]);
        for y in 0..self.to[0] {
            match values.get(y * columns..(y + 1) * columns) {
                Some(old) => {
                    row[..columns].iter_mut().zip(old).for_each(|(new, &old)| *new = self.scale * old);
                    let greatest = row[..columns].iter().fold(0f32, |greatest, v| greatest.max(v.abs()));
                    random.fill(self.columns, 0.5 * greatest, &mut row[columns..]);
                }
                None => random.fill(self.rows, self.scale * in_new_rows, &mut row),
            }
            bytes.clear();
            encode(&row, dtype, &mut bytes)?;
            file.write_all(&bytes)?;
        }
        Ok(())
    }
}

fn encode(row: &[f32], dtype: Dtype, bytes: &mut Vec<u8>) -> io::Result<()> {
    match dtype {
        Dtype::F32 => bytes.extend(row.iter().flat_map(|v| v.to_le_bytes())),
        Dtype::F16 => bytes.extend(row.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes())),
        Dtype::BF16 => bytes.extend(row.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes())),
        other => return Err(io::Error::other(format!("{other:?} is no supported float type"))),
    }
    Ok(())
}

/// Steele, Lea and Flood's generator: quick, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn fill(&mut self, fill: Fill, most: f32, out: &mut [f32]) {
        match fill {
            Fill::Zeros => out.fill(0.0),
            Fill::Random => out.iter_mut().for_each(|v| *v = most * self.next()),
        }
    }

    /// A number in `[-1, 1)`.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Seed of a tensor's random numbers: FNV-1a of its name.
pub(super) fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
