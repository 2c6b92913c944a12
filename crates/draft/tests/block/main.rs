//! Block drafters: the network against its definition, the cache, the loss, and files.

#[path = "../along/mod.rs"]
mod along;
mod definition;
mod export;
mod losses;
mod random;
mod second;
mod state;
