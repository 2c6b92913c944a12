//! Acceptance rules: exact output distributions by enumeration, reference fixtures, planted bugs, untrusted drafters.

mod eagle_fixtures;
mod entries;
mod lossless;
mod medusa_fixtures;
mod mixing;
mod paths;
mod planted;
mod reference;
mod robustness;
mod sampling_fixtures;
mod settings;
mod shapes;
mod single;
mod traversal;
mod wrong;
mod wrong_paths;
