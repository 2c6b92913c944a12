//! Multi-token-prediction modules: their losses, what decodes, the trees they draft, and their files.

#[path = "../along/mod.rs"]
mod along;
mod definition;
mod export;
mod losses;
mod random;
#[path = "../reference/mod.rs"]
mod reference;
mod state;
