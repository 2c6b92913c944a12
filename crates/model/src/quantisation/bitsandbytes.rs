//! bitsandbytes: a table of 16 numbers and a scale for each block of the flattened matrix, or 8-bit integers.
//!
//! Four bits: `weight` holds the matrix row after row, element `2i` in the high half of byte `i`;
//! `w[i] = quant_map[code] · scale[i / blocksize]`. Scales are `weight.absmax`, or, doubly quantised,
//! `nested_quant_map[absmax[b]] · nested_absmax[b / nested_blocksize] + nested_offset`, rounded twice.
//! Eight bits: `w[n, k] = weight[n, k] · (SCB[n] / 127)`.

use super::codes::{Codes, Zeros};
use super::format::Format;
use super::integers::{Integers, Scales};
use super::settings::Quantisation;
use super::tensors::{Part, Rows, Tensors};
use crate::config::fields::{Fields, quoted};
use crate::weights::WeightsError;
use safetensors::Dtype;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;

/// Four bits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FourBit {
    kind: &'static str,
    /// Suffix of the settings that each module has.
    state: &'static str,
}

/// Eight bits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EightBit;

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    let flag = |name: &str| Ok::<bool, String>(f.flag(name, false)? || f.flag(&format!("_{name}"), false)?);
    let keys = ["llm_int8_skip_modules"];
    match (flag("load_in_4bit")?, flag("load_in_8bit")?) {
        (true, false) => Quantisation::uniform("bitsandbytes", four_bits(f)?, f, &keys),
        (false, true) => Quantisation::uniform("bitsandbytes", EightBit, f, &keys),
        _ => Err("load_in_4bit, or else load_in_8bit, must be true".into()),
    }
}

fn four_bits(f: &Fields) -> Result<FourBit, String> {
    match f.text("bnb_4bit_quant_type")? {
        Some("nf4") => Ok(FourBit { kind: "nf4", state: "weight.quant_state.bitsandbytes__nf4" }),
        None | Some("fp4") => Ok(FourBit { kind: "fp4", state: "weight.quant_state.bitsandbytes__fp4" }),
        Some(other) => Err(format!("bnb_4bit_quant_type is {}; nf4 or fp4 is expected", quoted(other))),
    }
}

/// Settings of a module in four bits.
#[derive(Deserialize)]
struct State {
    quant_type: String,
    blocksize: u64,
    shape: Vec<u64>,
    nested_blocksize: Option<u64>,
    nested_offset: Option<f64>,
}

impl FourBit {
    fn state(&self, tensors: &Tensors<'_>) -> Result<State, WeightsError> {
        const LIMIT: usize = 1 << 16;
        let wrong = |reason: String| tensors.wrong(self.state, reason);
        let bytes = tensors.small_bytes(self.state, LIMIT)?;
        let state: State = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
        if state.quant_type != self.kind {
            return Err(wrong(format!("quant_type is {}, expected {}", quoted(&state.quant_type), self.kind)));
        }
        let sizes = [Some(state.blocksize), state.nested_blocksize];
        if sizes.into_iter().flatten().any(|size| size == 0 || size > 1 << 20) {
            return Err(wrong(format!("blocks of {sizes:?} are not supported")));
        }
        match state.nested_offset {
            Some(offset) if !(offset as f32).is_finite() => Err(wrong(format!("nested_offset is {offset}"))),
            _ => Ok(state),
        }
    }

    /// Scales of the blocks.
    fn scales(tensors: &Tensors<'_>, state: &State) -> Result<Vec<f32>, WeightsError> {
        let (Some(block), Some(offset)) = (state.nested_blocksize, state.nested_offset) else {
            return tensors.floats("weight.absmax");
        };
        let (codes, offset) = (tensors.bytes("weight.absmax")?, offset as f32);
        let (map, absmax) = (tensors.floats("weight.nested_quant_map")?, tensors.floats("weight.nested_absmax")?);
        let scale = |(b, &code): (usize, &u8)| {
            let product = map[usize::from(code)] * absmax[b / block as usize];
            product + offset
        };
        Ok(codes.iter().enumerate().map(scale).collect())
    }
}

impl Format for FourBit {
    fn markers(&self) -> &[&'static str] {
        &["weight.absmax"]
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        match self.state(tensors)?.shape.as_slice() {
            &[rows, columns] => tensors.sizes(self.state, u128::from(rows), u128::from(columns)),
            other => Err(tensors.wrong(self.state, format!("shape is {other:?}; two sizes are expected"))),
        }
    }

    fn parts(&self, tensors: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let elements = d_out * d_in;
        let mut parts = vec![
            Part::bytes("weight", elements.div_ceil(2)),
            Part::new("weight.quant_map", &[&[16]], &[Dtype::F32]),
            Part::needed(self.state),
        ];
        // Without settings that can be read their error counts, which comes with the shape.
        let Ok(state) = self.state(tensors) else { return parts };
        let blocks = elements.div_ceil(state.blocksize as usize);
        match state.nested_blocksize {
            Some(size) if state.nested_offset.is_some() => {
                let nested = blocks.div_ceil(size as usize);
                parts.push(Part::new("weight.absmax", &[&[blocks]], &[Dtype::U8]));
                parts.push(Part::new("weight.nested_absmax", &[&[nested]], &[Dtype::F32]));
                parts.push(Part::new("weight.nested_quant_map", &[&[256]], &[Dtype::F32]));
            }
            _ => parts.push(Part::new("weight.absmax", &[&[blocks]], &[Dtype::F32])),
        }
        parts
    }

    fn open<'a>(&self, tensors: Tensors<'a>, [d_out, d_in]: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let state = self.state(&tensors)?;
        let map = tensors.floats("weight.quant_map")?;
        let numbers: [f32; 256] = std::array::from_fn(|code| map.get(code).copied().unwrap_or(f32::NAN));
        let (scales, block) = (Self::scales(&tensors, &state)?, state.blocksize as usize);
        // Blocks are groups of inputs where none of them goes over the end of a row, or all of a row lies in one.
        let in_rows = d_in.is_multiple_of(block) || block.is_multiple_of(d_in);
        let group = block.min(d_in);
        let groups = d_in.div_ceil(group);
        let codes = in_rows.then(|| Codes {
            bits: 4,
            d_out,
            d_in,
            group,
            scales: (0..groups * d_out).map(|i| scales[(i % d_out * d_in + i / d_out * group) / block]).collect(),
            scale_dtype: Dtype::F32,
            zeros: Zeros::One(0),
            order: None,
            numbers: Some(Arc::new(numbers)),
        });
        Ok(Box::new(Blocks { tensors, numbers, scales, block, d_in, codes }))
    }

    fn description(&self) -> String {
        format!("{} numbers of 4 bits, blocks of the flattened matrix", self.kind)
    }
}

/// A matrix in four bits.
struct Blocks<'a> {
    tensors: Tensors<'a>,
    numbers: [f32; 256],
    scales: Vec<f32>,
    block: usize,
    d_in: usize,
    /// The matrix as codes, where blocks are groups of inputs.
    codes: Option<Codes>,
}

impl Rows for Blocks<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let mut codes = vec![0u8; out.len()];
        self.read_codes(rows.clone(), &mut codes)?;
        for ((element, code), out) in (rows.start * self.d_in..).zip(codes).zip(out) {
            *out = self.numbers[usize::from(code)] * self.scales[element / self.block];
        }
        Ok(())
    }

    fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        let (start, end) = (rows.start * self.d_in, rows.end * self.d_in);
        let mut bytes = vec![0u8; end.div_ceil(2) - start / 2];
        self.tensors.read_bytes("weight", start / 2..end.div_ceil(2), &mut bytes)?;
        for (element, out) in (start..end).zip(out) {
            let byte = bytes[element / 2 - start / 2];
            *out = if element % 2 == 0 { byte >> 4 } else { byte & 15 };
        }
        Ok(())
    }
}

impl Format for EightBit {
    fn markers(&self) -> &[&'static str] {
        &["SCB"]
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        if tensors.has("weight_format") {
            let format = tensors.small_bytes("weight_format", 1)?;
            if format.first() != Some(&0) {
                return Err(tensors.wrong("weight_format", format!("{format:?}; rows (0) are supported")));
            }
        }
        tensors.matrix_shape("weight")
    }

    fn parts(&self, _: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        vec![
            Part::new("weight", &[&[d_out, d_in]], &[Dtype::I8]),
            Part::new("SCB", &[&[d_out]], &[Dtype::F32]),
            Part::unread("weight_format"),
        ]
    }

    fn open<'a>(&self, tensors: Tensors<'a>, shape: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let values = tensors.floats("SCB")?.into_iter().map(|scale| scale / 127.0).collect();
        let scales = Scales { values, dtype: Dtype::F32, zeros: Zeros::One(128) };
        Ok(Box::new(Integers::new(tensors, shape, 8, shape[1], scales)))
    }

    fn description(&self) -> String {
        "integers of 8 bits, a scale per output, symmetric".into()
    }
}
