//! Acceptance rules: exact output laws by enumeration, reference fixtures, planted bugs, untrusted drafters.

mod eagle_fixtures;
mod laws;
mod lossless;
mod medusa_fixtures;
mod mixing;
mod paths;
mod planted;
mod robustness;
mod sampling_fixtures;
#[path = "../shared/mod.rs"]
mod shared;
mod wrong;
