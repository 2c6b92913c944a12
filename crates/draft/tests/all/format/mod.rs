//! Recognising draft heads: every format as its writers store it, every kind of damage, and garbage.

mod block;
mod damage;
mod eagle;
mod fixtures;
mod garbage;
mod hydra;
mod kangaroo;
mod medusa;
mod mtp;
mod probes;
mod synthetic;
mod vllm;
