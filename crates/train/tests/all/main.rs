//! Tests of gorgon-train that one process can run.

mod block;
mod boost_tuning;
mod cllm;
mod cllm_fitting;
mod distill_spec;
mod eagle;
mod eagle3;
mod feature_cache;
mod kangaroo;
mod layerskip;
mod llama;
mod medusa_two;
mod memory;
mod objectives;
#[path = "../on_backbone/mod.rs"]
mod on_backbone;
mod online;
mod online_heads;
mod paths;
mod probe_targets;
mod probes;
mod quantised;
mod replicas;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod shuffled;
mod slopes;
mod space_sft;
mod t5;
mod windows;
