//! EAGLE: the draft layer of every generation, its loss, and the trees it drafts.

mod damage;
mod definition;
mod export;
mod fixtures;
mod gradients;
mod random;
mod state;
mod three_damage;
mod three_export;
mod three_fixtures;
mod three_gradients;
mod three_norms;
