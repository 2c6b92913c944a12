//! Tests of gorgon-core that one process can run.

mod accept;
mod analysis;
mod shapes;
#[path = "../shared/mod.rs"]
mod shared;
mod tree_builders;
mod tree_fixtures;
mod tree_optima;
