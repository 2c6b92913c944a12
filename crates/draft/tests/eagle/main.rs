//! EAGLE-1 and EAGLE-2: the draft layer, its loss, and the trees it drafts.

mod damage;
mod definition;
mod export;
mod fixtures;
mod gradients;
mod random;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod state;
