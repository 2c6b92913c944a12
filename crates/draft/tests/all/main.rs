//! Tests of gorgon-draft that one process can run.

mod along;
mod block;
mod eagle;
mod format;
mod hydra;
mod kangaroo;
mod medusa_losses;
mod mtp;
mod pytorch;
mod reference;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
