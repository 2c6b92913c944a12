//! How far one network's distributions are from another's, with gradients, in chunks of rows.
//!
//! For a draft model's rows `h_i` under its LM head `W` and a target's rows `t_i` under its own, `U`:
//! `q_i = softmax(W h_i)`, `p_i = softmax(U t_i)` and `L = Σ_i s · D(p_i, q_i)` (DistillSpec, Zhou et al. 2024). With
//! `g = ∂D/∂q`, up to a constant that softmax does not see, `∂D/∂(W h) = q ∘ (g − Σ_v q(v) g(v))`:
//!
//! | divergence | `D(p, q)` | `g(v)` |
//! |---|---|---|
//! | forward KL | `Σ p ln(p/q)` | `−p/q` |
//! | reverse KL | `Σ q ln(q/p)` | `ln(q/p)` |
//! | Jensen-Shannon | `β Σ p ln(p/m) + (1−β) Σ q ln(q/m)`, `m = βp + (1−β)q` | `(1−β) ln(q/m)` |
//! | total variation | `½ Σ ∣p − q∣` | `½ sign(q − p)` |
//!
//! Total variation is the share of drafts that speculative sampling rejects: `1 − Σ min(p, q)`. Logits exist for one
//! chunk of rows at a time.

#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod launch;
pub mod reference;
mod row;

#[cfg(feature = "gpu")]
pub(crate) use cube::{Compared, Measure};
pub use launch::{LinearDivergence, linear_divergence};

/// How far the draft model's `q` is from the target's `p`, in nats (total variation: as a share).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divergence {
    /// `KL(p ‖ q)`.
    ForwardKl,
    /// `KL(q ‖ p)`.
    ReverseKl,
    /// The generalised Jensen-Shannon divergence with this β, between 0 and 1.
    JensenShannon(f32),
    /// `TV(p, q)`.
    TotalVariation,
}
