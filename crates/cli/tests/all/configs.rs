//! Configs of distilling and training that are refused.

use crate::chain;
use crate::gorgon;

use chain::Job;
use gorgon::refused;

#[test]
fn wrong_configs_are_refused_in_a_line() {
    let job = Job::new();
    let (distill, train) = (job.text("distill.toml"), job.text("train.toml"));
    refused(&["train", "-c", &train], &["data"]);
    refused(&["train", "-c", "/no/such.toml"], &["/no/such.toml"]);
    refused(&["distill", "-c", &distill, "sampling.temperatur=1"], &["temperatur"]);
    refused(&["distill", "-c", &distill, "sampling.temperature=-1"], &["temperature"]);
    refused(&["distill", "-c", &distill, "batch_size=0"], &["batch_size"]);
    refused(&["distill", "-c", &distill, "nonsense"], &["nonsense"]);
    refused(&["distill", "-c", &distill, "prompts=[\"/no/such.jsonl\"]"], &["/no/such.jsonl"]);
    refused(&["distill", "-c", &distill, "model=\"/no/such/model\""], &["/no/such/model"]);
    job.distill(&[]);
    refused(&["distill", "-c", &distill, "sampling.seed=77"], &["sampling.seed", "4", "77"]);
    for (given, word) in [
        ("medusa.heads=0", "medusa.heads"),
        ("medusa.heads=99", "medusa.heads"),
        ("training.learning_rate=-1", "learning_rate"),
        ("training.learning_rate=nan", "learning_rate"),
        ("training.optimizer=sgd", "sgd"),
        ("training.warmup=2", "warmup"),
        ("training.max_seq_len=2", "label"),
        ("held_out=1.5", "held_out"),
        ("method=\"no-such\"", "no-such"),
        ("medusa.typo=1", "typo"),
    ] {
        refused(&["train", "-c", &train, given], &[word]);
    }
    refused(&["train", "-c", &train, "--resume", "/no/such/run"], &["/no/such/run"]);
    job.write("broken.toml", "method = ");
    refused(&["train", "-c", &job.text("broken.toml")], &["broken.toml"]);
}

#[test]
fn all_wrong_settings_are_named_at_once() {
    let job = Job::new();
    let train = job.text("train.toml");
    let wrong = ["training.warmup=2", "training.max_seq_len=1", "medusa.heads=0", "medusa.blocks=99", "held_out=1.5"];
    let words =
        ["training.warmup = 2", "training.max_seq_len = 1", "medusa.heads = 0", "medusa.blocks = 99", "held_out = 1.5"];
    refused(&[&["train", "-c", &train][..], &wrong].concat(), &words);
}

#[test]
fn old_spellings_of_keys_are_named_with_the_new_ones() {
    let job = Job::new();
    let train = job.text("train.toml");
    for (old, new) in [
        ("training.batches_per_step=2", "training.batches_per_step was renamed to training.gradient_accumulation"),
        ("training.keep=2", "training.keep was renamed to training.save_total_limit"),
        ("start=\"heads\"", "start was renamed to init_from"),
        ("hydra.teacher=true", "hydra.teacher was renamed to hydra.soft_targets"),
        ("eagle3.taps=[1]", "eagle3.taps was renamed to eagle3.aux_hidden_state_layers"),
    ] {
        refused(&["train", "-c", &train, old], &[new]);
    }
}
