//! Training on windows of conversations through the command line: planned, fitted, divided among devices.

use crate::chain::{Job, finished};
use crate::gorgon::stderr;

const WINDOWS: [&str; 2] = ["cache_features=true", "training.window_tokens=16"];

/// Methods that read sequences, each in another way: planned and fitted, with the same bits on two devices.
#[test]
fn layers_are_fitted_to_windows() {
    let distilled = Job::new();
    distilled.distill(&[]);
    for keys in [
        &["method=\"eagle\""][..],
        &["method=\"eagle3\"", "eagle3.steps=2", "eagle3.aux_hidden_state_layers=[0, 1, 2]"],
        &["method=\"mtp\"", "mtp.depths=2"],
        &["method=\"kangaroo\"", "kangaroo.exit_layer=1"],
        &["method=\"hydra\"", "hydra.prefix_attention=true"],
        &["method=\"block\"", "block.layers=1", "block.block_size=4"],
    ] {
        let job = Job::like(&distilled);
        let all = [keys, &WINDOWS].concat();
        let config = job.text("train.toml");
        let planned = stderr(&finished(&[&["train", "-c", &config, "--dry-run"][..], &all].concat(), &[]));
        assert!(planned.contains(" windows, "), "{planned}");
        job.train(&all);
        let (first, whole) = (job.weights(), Job::like(&distilled));
        whole.train(keys);
        assert_ne!(first, whole.weights(), "{keys:?}");
        let divided = Job::like(&distilled);
        divided.train(&[&all[..], &["--device", "cpu,cpu"]].concat());
        assert_eq!(first, divided.weights(), "{keys:?}");
    }
}
