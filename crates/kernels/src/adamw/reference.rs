//! The definition of a step of AdamW.

use super::AdamWStep;

/// `m ← β₁ m + (1-β₁) g`, `v ← β₂ v + (1-β₂) g²`, `w ← keep · w - rate · m̂ / (√v̂ + ε)` with the corrected moments `m̂`
/// and `v̂`, of one number in double precision: `[w, m, v]`.
pub fn update(step: &AdamWStep, [w, m, v]: [f64; 3], g: f64) -> [f64; 3] {
    let (b1, b2) = (f64::from(step.betas.0), f64::from(step.betas.1));
    let m = b1 * m + (1.0 - b1) * g;
    let v = b2 * v + (1.0 - b2) * g * g;
    let (m_hat, v_hat) = (m * f64::from(step.corrections.0), v * f64::from(step.corrections.1));
    let direction = m_hat / (v_hat.sqrt() + f64::from(step.epsilon));
    [w * f64::from(step.keep) - f64::from(step.rate) * direction, m, v]
}
