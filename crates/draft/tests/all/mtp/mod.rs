//! Multi-token-prediction modules: their losses, what decodes, the trees they draft, and their files.

mod definition;
mod export;
mod losses;
mod random;
mod state;
