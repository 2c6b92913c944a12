//! The definition of products with coded weights.

use super::activations::Activations;
use super::{Codes, QuantisedMatrix};

/// `y[r, c] = Σ_k x[r, k] · w[c, k]` with dequantised weights, one chain of fused multiply-adds over the inputs in the
/// order of the codes.
///
/// # Shapes
/// `x [rows, d_in]`, `codes [d_out, d_in]`, result `[rows, d_out]`.
pub fn exact(x: &[f32], layout: &Codes, codes: &[u8]) -> Vec<f32> {
    let (d_in, groups) = (layout.d_in, layout.groups());
    let mut y = vec![];
    for x in x.chunks_exact(d_in) {
        for (column, codes) in codes.chunks_exact(d_in).enumerate() {
            y.push((0..d_in).fold(0f32, |sum, place| {
                let group = column * groups + place / layout.group.min(d_in);
                let difference = (i32::from(codes[place]) - zero(layout, group)) as f32;
                let number = layout.numbers.as_ref().map_or(difference, |numbers| numbers[usize::from(codes[place])]);
                let weight = layout.scales[group] * number;
                input(x, layout, place).mul_add(weight, sum)
            }));
        }
    }
    y
}

/// The product with inputs in 8 or 16 bits, as the module defines it.
///
/// # Shapes
/// As of [`exact`].
pub fn rounded(x: &[f32], layout: &Codes, codes: &[u8], activations: Activations) -> Vec<f32> {
    let (d_in, groups) = (layout.d_in, layout.groups());
    let mut y = vec![];
    for x in x.chunks_exact(d_in) {
        let inputs: Vec<f32> = (0..d_in).map(|place| input(x, layout, place)).collect();
        let rounded: Vec<(Vec<i64>, f32)> =
            inputs.chunks(layout.group.min(d_in)).map(|x| round(x, activations)).collect();
        for (column, codes) in codes.chunks_exact(d_in).enumerate() {
            let mut sum = 0f32;
            for (index, (codes, (x, scale))) in codes.chunks(layout.group.min(d_in)).zip(&rounded).enumerate() {
                let group = column * groups + index;
                let dot = |part: &dyn Fn(i64) -> i64| -> i64 {
                    let term = |(&code, &x): (&u8, &i64)| (i64::from(code) - i64::from(zero(layout, group))) * part(x);
                    codes.iter().zip(x).map(term).sum()
                };
                let whole = match activations {
                    Activations::Sixteen => {
                        let high = |x: i64| (x + 127).div_euclid(255);
                        (dot(&high) as f32).mul_add(255.0, dot(&|x| x - 255 * high(x)) as f32)
                    }
                    _ => dot(&|x| x) as f32,
                };
                sum = whole.mul_add(layout.scales[group] * scale, sum);
            }
            y.push(sum);
        }
    }
    y
}

/// Rounded inputs of a group and their scale.
fn round(x: &[f32], activations: Activations) -> (Vec<i64>, f32) {
    let greatest = x.iter().fold(0f32, |a, b| a.max(b.abs()));
    if x.iter().any(|value| !value.is_finite()) {
        return (vec![0; x.len()], f32::NAN);
    }
    let factor = activations.greatest() / greatest;
    if !factor.is_finite() {
        return (vec![0; x.len()], 0.0);
    }
    (x.iter().map(|value| (value * factor).round_ties_even() as i64).collect(), greatest / activations.greatest())
}

fn zero(layout: &Codes, group: usize) -> i32 {
    i32::from(layout.zeros.as_ref().map_or(layout.bits.middle(), |zeros| zeros[group]))
}

fn input(x: &[f32], layout: &Codes, place: usize) -> f32 {
    x[layout.order.as_ref().map_or(place, |order| order[place] as usize)]
}

/// The dequantised matrix `[d_out, d_in]`.
pub fn dequantised(w: &QuantisedMatrix) -> Vec<f32> {
    let mut out = vec![0f32; w.d_out() * w.d_in()];
    for (row, out) in out.chunks_exact_mut(w.d_in()).enumerate() {
        w.copy_row(row, out);
    }
    out
}
