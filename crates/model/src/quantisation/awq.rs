//! AWQ in the layout `gemm`: `w[n, k] = scales[k / group, n] · (q - z)`.
//!
//! `qweight` i32 `[in, out / 8]` and `qzeros` i32 `[groups, out / 8]` hold eight outputs a word, in the order
//! 0, 2, 4, 6, 1, 3, 5, 7; `scales` are `[groups, out]`.

use super::bits;
use super::codes::Zeros;
use super::format::Format;
use super::gptq;
use super::integers::{Integers, Scales, Source};
use super::settings::Quantisation;
use super::tensors::{Part, Rows, SCALES, Tensors};
use crate::config::fields::{Fields, quoted};
use crate::weights::WeightsError;
use safetensors::Dtype;

/// Settings of AWQ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Awq {
    /// Inputs of a scale; `None` for all.
    group: Option<usize>,
}

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    let bits = f.size("bits", 64)?;
    if bits != 4 {
        return Err(format!("bits is {bits}; 4 is supported"));
    }
    match f.text("version")? {
        None => {}
        Some(version) if version.eq_ignore_ascii_case("gemm") => {}
        Some(other) => return Err(format!("version is {}; the layout gemm is supported", quoted(other))),
    }
    match f.text("backend")? {
        None | Some("autoawq") => {}
        Some(other) => return Err(format!("backend is {}; autoawq is supported", quoted(other))),
    }
    if !f.flag("zero_point", true)? {
        return Err("zero_point is false; AWQ without zero points is not supported".into());
    }
    Quantisation::uniform("awq", Awq { group: gptq::group(f)? }, f, &["modules_to_not_convert"])
}

impl Format for Awq {
    fn markers(&self) -> &[&'static str] {
        &["qweight"]
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        let [d_in, words] = tensors.matrix_shape("qweight")?;
        tensors.sizes("qweight", words as u128 * 8, d_in as u128)
    }

    fn parts(&self, _: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let (groups, words) = (self.group.map_or(1, |group| d_in.div_ceil(group)), d_out.div_ceil(8));
        vec![
            Part::new("qweight", &[&[d_in, words]], &[Dtype::I32]),
            Part::new("qzeros", &[&[groups, words]], &[Dtype::I32]),
            Part::new("scales", &[&[groups, d_out]], SCALES),
        ]
    }

    fn open<'a>(&self, tensors: Tensors<'a>, shape: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let [d_out, d_in] = shape;
        let stored = tensors.words("qzeros")?;
        let lines = stored.chunks_exact(d_out.div_ceil(8));
        let zeros = Zeros::Each(lines.flat_map(|line| (0..d_out).map(move |n| bits::interleaved(line, n))).collect());
        let scales = Scales { values: tensors.floats("scales")?, dtype: tensors.dtype("scales"), zeros };
        let source = Source::Interleaved { words: tensors.words("qweight")? };
        Ok(Box::new(Integers::new(tensors, shape, 4, self.group.unwrap_or(d_in), scales).reading(source)))
    }

    fn description(&self) -> String {
        let group = self.group.map_or("a scale per output".into(), |group| format!("groups of {group}"));
        format!("integers of 4 bits, {group}, with zero points, layout gemm")
    }
}
