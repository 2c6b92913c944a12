//! Block drafters: the network against its definition, the cache, the loss, and files.

mod definition;
mod export;
mod losses;
mod random;
mod second;
mod speculators;
mod state;
