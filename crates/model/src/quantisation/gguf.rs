//! Matrices of blocks of codes in the types of ggml ([`gorgon_gguf::blocks`]).

use super::codes::{Codes, Zeros};
use super::format::Format;
use super::settings::Quantisation;
use super::tensors::{Part, Rows, Tensors};
use crate::config::fields::{Fields, quoted};
use crate::weights::WeightsError;
use gorgon_gguf::blocks::{self, Coding};
use gorgon_gguf::kind::Kind;
use safetensors::Dtype;
use std::ops::Range;
use std::sync::OnceLock;

/// The types that a file has.
#[derive(Debug)]
struct Types {
    kinds: Vec<Kind>,
    suffixes: Vec<&'static str>,
}

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    let mut kinds = vec![];
    for name in f.texts("types")?.unwrap_or_default() {
        let kind = Kind::of_name(&name).filter(|kind| kind.block() > 1);
        kinds.push(kind.ok_or_else(|| format!("types has {}, which is not supported", quoted(&name)))?);
    }
    if kinds.is_empty() {
        return Err("types is missing or empty".into());
    }
    let suffixes = kinds.iter().map(|kind| kind.suffix()).collect();
    Ok(Quantisation::by_tensors(Types { kinds, suffixes }))
}

impl Types {
    /// The type of a module; the first one where no tensor is there.
    fn of(&self, tensors: &Tensors<'_>) -> Kind {
        let found = self.kinds.iter().copied().find(|kind| tensors.has(kind.suffix()));
        found.or_else(|| self.kinds.first().copied()).unwrap_or(Kind::Q8_0)
    }
}

impl Format for Types {
    fn markers(&self) -> &[&'static str] {
        &self.suffixes
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        let kind = self.of(tensors);
        let [rows, bytes] = tensors.matrix_shape(kind.suffix())?;
        match bytes.is_multiple_of(kind.block_bytes()) {
            true => Ok([rows, bytes / kind.block_bytes() * kind.block()]),
            false => Err(tensors.wrong(kind.suffix(), format!("rows of {bytes} bytes are no whole blocks"))),
        }
    }

    fn parts(&self, tensors: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let kind = self.of(tensors);
        // Rows of no whole number of blocks fit no tensor, so that the check names this one.
        let row = d_in.div_ceil(kind.block()) * kind.block_bytes();
        vec![Part::new(kind.suffix(), &[&[d_out, row]], &[Dtype::U8])]
    }

    fn open<'a>(&self, tensors: Tensors<'a>, [d_out, d_in]: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let kind = self.of(&tensors);
        let Some(coding) = blocks::coding(kind) else {
            return Err(tensors.wrong(kind.suffix(), "its numbers are in no blocks"));
        };
        Ok(Box::new(Blocks { tensors, kind, coding, d_out, d_in, codes: OnceLock::new() }))
    }

    fn description(&self) -> String {
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        names.join(", ")
    }
}

/// Rows of blocks.
struct Blocks<'a> {
    tensors: Tensors<'a>,
    kind: Kind,
    coding: Coding,
    d_out: usize,
    d_in: usize,
    /// The matrix as integers, made when it is first asked for: scales lie between the codes.
    codes: OnceLock<Option<Codes>>,
}

/// Rows whose scales are read together.
const PIECE: usize = 64;

impl Blocks<'_> {
    fn stored(&self, rows: Range<usize>) -> Result<Vec<u8>, WeightsError> {
        let row = self.d_in / self.kind.block() * self.kind.block_bytes();
        let mut bytes = vec![0u8; rows.len() * row];
        self.tensors.read_bytes(self.kind.suffix(), rows.start * row..rows.end * row, &mut bytes)?;
        Ok(bytes)
    }

    /// The scales `[groups, d_out]`; `None` where one is not finite or cannot be read, which reading the rows reports.
    fn scales(&self) -> Option<Vec<f32>> {
        let groups = self.d_in / self.coding.group;
        let mut all = vec![0f32; groups * self.d_out];
        for first in (0..self.d_out).step_by(PIECE) {
            let rows = first..(first + PIECE).min(self.d_out);
            let mut scales = vec![0f32; rows.len() * groups];
            blocks::scales(self.kind, &self.stored(rows.clone()).ok()?, &mut scales, None);
            for (n, scales) in rows.zip(scales.chunks_exact(groups)) {
                scales.iter().enumerate().for_each(|(g, scale)| all[g * self.d_out + n] = *scale);
            }
        }
        Some(all).filter(|all| all.iter().all(|scale| scale.is_finite()))
    }

    /// The matrix as integers. Numbers with minima are none: their zero points are no whole numbers.
    fn integers(&self) -> Option<Codes> {
        let Coding { bits, zero, group, has_minima, half_scales } = self.coding;
        if has_minima {
            return None;
        }
        let scale_dtype = if half_scales { Dtype::F16 } else { Dtype::F32 };
        let bits = if bits <= 4 { 4 } else { 8 };
        let (d_out, d_in, zeros) = (self.d_out, self.d_in, Zeros::One(zero));
        Some(Codes { bits, d_out, d_in, group, scales: self.scales()?, scale_dtype, zeros, order: None, numbers: None })
    }
}

impl Rows for Blocks<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        blocks::dequantise(self.kind, &self.stored(rows)?, out);
        Ok(())
    }

    fn codes(&self) -> Option<&Codes> {
        self.codes.get_or_init(|| self.integers()).as_ref()
    }

    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        blocks::codes(self.kind, &self.stored(rows)?, out);
        Ok(())
    }
}
