//! GPTQ: codes down the inputs, `w[n, k] = scales[g, n] · (q - z)` with `g = g_idx[k]`.
//!
//! `qweight` i32 `[in · bits / 32, out]`, `qzeros` i32 `[groups, out · bits / 32]` along the outputs, `scales` `[groups, out]`.
//! The first version of the format stores zero points minus one, so that a zero point of 0 is stored as the largest
//! number; later ones store them as they are.

use super::bits;
use super::codes::Zeros;
use super::format::Format;
use super::integers::{Integers, Scales, Source};
use super::settings::Quantisation;
use super::tensors::{Part, Rows, SCALES, Tensors};
use crate::config::fields::{Fields, brief, quoted};
use crate::weights::WeightsError;
use safetensors::Dtype;

/// Settings of GPTQ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gptq {
    bits: u32,
    /// Inputs of a scale; `None` for all.
    group: Option<usize>,
    /// Whether zero points are stored minus one.
    minus_one: bool,
    symmetric: bool,
    ordered: bool,
}

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    let bits = f.size("bits", 8)? as u32;
    if !matches!(bits, 2 | 3 | 4 | 8) {
        return Err(format!("bits is {bits}; 2, 3, 4 and 8 are supported"));
    }
    let minus_one = match f.text("checkpoint_format")? {
        None | Some("gptq") => true,
        Some("gptq_v2") => false,
        Some(other) => return Err(format!("checkpoint_format is {}; gptq and gptq_v2 are supported", quoted(other))),
    };
    if f.flag("is_marlin_format", false)? {
        return Err("is_marlin_format is true; the layouts of gptq and gptq_v2 are supported".into());
    }
    match f.text("pack_dtype")? {
        None | Some("int32" | "torch.int32") => {}
        Some(other) => return Err(format!("pack_dtype is {}; int32 is supported", quoted(other))),
    }
    // Keys that start with a minus leave modules out, which their tensors say too.
    if let Some(dynamic) = f.get("dynamic")
        && dynamic.as_object().is_none_or(|object| object.keys().any(|key| !key.starts_with('-')))
    {
        return Err(format!("dynamic is {}; settings by module are not supported", brief(dynamic)));
    }
    let symmetric = f.flag("sym", true)?;
    let gptq = Gptq { bits, group: group(f)?, minus_one, symmetric, ordered: f.flag("desc_act", false)? };
    Quantisation::uniform("gptq", gptq, f, &["modules_to_not_convert"])
}

/// `group_size`, where -1 means all inputs.
pub(super) fn group(f: &Fields) -> Result<Option<usize>, String> {
    match f.get("group_size") {
        Some(value) if value.as_i64() == Some(-1) => Ok(None),
        _ => f.size("group_size", 1 << 20).map(Some),
    }
}

impl Gptq {
    fn groups(&self, d_in: usize) -> usize {
        self.group.map_or(1, |group| d_in.div_ceil(group))
    }
}

impl Format for Gptq {
    fn markers(&self) -> &[&'static str] {
        &["qweight"]
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        let [words, d_out] = tensors.matrix_shape("qweight")?;
        tensors.sizes("qweight", d_out as u128, (words as u128 * 32) / u128::from(self.bits))
    }

    fn parts(&self, _: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let groups = self.groups(d_in);
        vec![
            Part::new("qweight", &[&[bits::words(d_in, self.bits), d_out]], &[Dtype::I32]),
            Part::new("qzeros", &[&[groups, bits::words(d_out, self.bits)]], &[Dtype::I32]),
            Part::new("scales", &[&[groups, d_out]], SCALES),
            Part::new("g_idx", &[&[d_in]], &[Dtype::I32]).optional(),
        ]
    }

    fn open<'a>(&self, tensors: Tensors<'a>, shape: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let [d_out, d_in] = shape;
        let (stored, line) = (tensors.words("qzeros")?, bits::words(d_out, self.bits));
        let add = u8::from(self.minus_one);
        let mask = bits::mask(self.bits) as u8;
        let zero = |line: &[u32], n: usize| bits::at(n, self.bits, |word| line[word]).wrapping_add(add) & mask;
        let lines = stored.chunks_exact(line);
        let zeros = Zeros::Each(lines.flat_map(|line| (0..d_out).map(move |n| zero(line, n))).collect());
        let scales = Scales { values: tensors.floats("scales")?, dtype: tensors.dtype("scales"), zeros };
        let source = Source::Columns { words: tensors.words("qweight")?, bits: self.bits };
        let group = self.group.unwrap_or(d_in);
        Ok(Box::new(Integers::new(tensors, shape, self.bits, group, scales).reading(source).grouped_by("g_idx")?))
    }

    fn description(&self) -> String {
        let group = self.group.map_or("a scale per output".into(), |group| format!("groups of {group}"));
        let zeros = if self.symmetric { "symmetric" } else { "with zero points" };
        let order = if self.ordered { ", activation order" } else { "" };
        let version = if self.minus_one { "gptq" } else { "gptq_v2" };
        format!("integers of {} bits, {group}, {zeros}{order}, layout {version}", self.bits)
    }
}
