//! Passes as plans: rows of embeddings, hidden states, positions, layer ranges, and plans that contradict themselves.
//!
//! `GORGON_TEST_DEVICE` (default `cpu`) names the device. On the CPU results are compared bit for bit.

mod context;
mod errors;
mod plans;
mod targets;
