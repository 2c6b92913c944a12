//! EAGLE: the draft layer of every generation, its loss, and the trees it drafts.

#[path = "../along/mod.rs"]
mod along;
mod damage;
mod definition;
mod export;
mod fixtures;
mod gradients;
mod random;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod state;
mod three_damage;
mod three_export;
mod three_fixtures;
mod three_gradients;
mod three_norms;
