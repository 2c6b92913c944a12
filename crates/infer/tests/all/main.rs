//! Tests of gorgon-infer that one process can run.

mod batch;
mod composed;
mod draft_model;
mod eagle;
mod every_drafter;
mod lossless;
mod medusa_runs;
mod paths;
mod planted;
mod prefiltered;
mod probes;
#[path = "../random_medusa/mod.rs"]
mod random_medusa;
#[path = "../recorder/mod.rs"]
mod recorder;
mod session;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod t5;
mod training_free;
