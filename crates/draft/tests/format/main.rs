//! Recognising draft heads: every format as its writers store it, every kind of damage, and garbage.

mod damage;
mod eagle;
mod fixtures;
mod garbage;
mod hydra;
mod medusa;
mod mtp;
mod synthetic;
mod vllm;
