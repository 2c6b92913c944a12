//! Fine-grained FP8: `weight` e4m3 with `weight_scale_inv` of blocks, which multiplies despite its name, or with
//! `weight_scale` of the matrix or of its outputs.

use super::floats;
use super::settings::Quantisation;
use crate::config::fields::{Fields, quoted};

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    match f.text("fmt")? {
        None | Some("e4m3" | "float8_e4m3fn") => {}
        Some(other) => return Err(format!("fmt is {}; e4m3 is supported", quoted(other))),
    }
    let names: &[&str] = &["weight_scale_inv", "weight_scale"];
    let (scales, blocks) = match f.pair("weight_block_size")? {
        Some(size) => (names, floats::Blocks::Sized(size)),
        None => (names, floats::Blocks::TensorOrChannel),
    };
    let format = floats::Layout { scales, blocks };
    let activations = f.text("activation_scheme")?.map(|scheme| format!("activation_scheme {scheme}"));
    let keys = ["modules_to_not_convert", "ignored_layers", "ignore"];
    Ok(Quantisation::uniform("fp8", format, f, &keys)?.ignoring(activations.into_iter().collect()))
}
