//! Training on several devices of one process. The CPU named several times is as many replicas, which run the code that
//! GPUs do, but for the sums: those lie in memory, in the order of micro-batches, so that every number of replicas fits
//! the same bits.

mod chain;
mod gorgon;

use chain::stages::{pretrained, pretraining, read};
use chain::{Job, finished, start};
use gorgon::{json, refused, stderr};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output};

/// One distilled folder for all.
fn job() -> Job {
    static FIRST: std::sync::OnceLock<Job> = std::sync::OnceLock::new();
    Job::like(FIRST.get_or_init(|| {
        let job = Job::new();
        job.distill(&[]);
        job
    }))
}

fn train(job: &Job, devices: &str, more: &[&str]) -> Output {
    let config = job.text("train.toml");
    finished(&[&["train", "-c", &config, "--device", devices][..], more].concat(), &[])
}

fn trained(devices: &str, more: &[&str]) -> Vec<Vec<u8>> {
    let job = job();
    let said = stderr(&train(&job, devices, more));
    job.check_one_voice(&said);
    job.weights()
}

/// Fifty steps of five micro-batches each.
const LONG: &[&str] = &[
    "training.steps=50",
    "training.gradient_accumulation=5",
    "training.micro_batch_tokens=128",
    "training.eval_every=25",
];

#[test]
fn any_number_of_replicas_ends_with_the_same_bits() {
    for method in ["method=\"medusa\"", "method=\"eagle\""] {
        let more = [LONG, &[method]].concat();
        let one = trained("cpu", &more);
        assert_eq!(trained("cpu,cpu", &[&more[..], &["cache_features=true"]].concat()), one, "{method}");
        assert_eq!(trained("cpu,cpu,cpu,cpu", &more), one, "{method}");
    }
}

/// Every replica needs answers that the first one writes.
#[test]
fn a_draft_model_that_answers_itself_is_fitted_by_replicas() {
    let draft = format!("distill_spec.draft={:?}", chain::backbone());
    let more = ["method=\"distill-spec\"", &draft, "distill_spec.answers=\"draft\"", "distill_spec.every=5"];
    assert_eq!(trained("cpu,cpu", &more), trained("cpu", &more));
}

#[test]
fn a_backbone_is_pretrained_by_replicas() {
    let of = |devices: &str| {
        let job = pretraining();
        finished(&["pretrain", "-c", &job.text("pretrain.toml"), "--device", devices], &[]);
        pretrained(job.dir.path())
    };
    assert_eq!(of("cpu,cpu"), of("cpu"));
}

#[test]
fn a_killed_job_goes_on_with_another_number_of_replicas() {
    let one = trained("cpu", &[]);
    let job = job();
    let config = job.text("train.toml");
    let crash = [("GORGON_CRASH_AT", "before-folder-sync:12")];
    let output = start(&["train", "-c", &config, "--device", "cpu,cpu"], &crash).wait_with_output().unwrap();
    assert!(!output.status.success());
    let run = job.run().unwrap();
    train(&job, "cpu,cpu,cpu", &["--resume", run.to_str().unwrap()]);
    assert_eq!(job.weights(), one);
    let provenance = String::from_utf8(read(&run.join("provenance.json"))).unwrap();
    assert!(provenance.contains("\"cpu,cpu\"") && provenance.contains("\"cpu,cpu,cpu\""), "{provenance}");
}

/// Ctrl-C stops all replicas after the same step.
#[cfg(unix)]
#[test]
fn an_interrupted_job_goes_on() {
    let one = trained("cpu", LONG);
    let job = job();
    let config = job.text("train.toml");
    let mut child = start(&[&["train", "-c", &config, "--device", "cpu,cpu"][..], LONG].concat(), &[]);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.starts_with("step 2/")));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = said.collect();
    let saved = rest.iter().any(|line| line.starts_with("saved step"));
    assert_eq!(child.wait().unwrap().code(), Some(i32::from(saved)), "{rest:?}");
    let run = job.run().unwrap();
    train(&job, "cpu", &[LONG, &["--resume", run.to_str().unwrap()]].concat());
    assert_eq!(job.weights(), one);
}

/// The second replica has nowhere to put what it does not keep. The first one, which waits for it, ends too.
#[cfg(unix)]
#[test]
fn a_replica_that_fails_is_named_and_ends_all() {
    let job = job();
    let config = job.text("train.toml");
    // Decoding heads takes them through files, which would fail before.
    let no_decoding = "eval_decoded_prompts=0";
    let args = ["train", "-c", &config, no_decoding, "--device", "cpu,cpu"];
    let output = start(&args, &[("TMPDIR", "/no/such/folder")]).wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: device 2 of 2 (cpu): ") && said.contains("/no/such/folder"), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    train(&job, "cpu,cpu", &[no_decoding, "--resume", job.run().unwrap().to_str().unwrap()]);
    assert_eq!(job.weights(), trained("cpu", &[]));
}

#[test]
fn sums_over_devices_fall_back_to_memory() {
    let job = job();
    let config = job.text("train.toml");
    let args = ["train", "-c", &config, "--device", "cpu,cpu"];
    let said = stderr(&finished(&args, &[("GORGON_SUMS", "nccl")]));
    assert_eq!(said.matches("gradients are summed in memory").count(), 1, "{said}");
    assert_eq!(job.weights(), trained("cpu", &[]));
    let output = start(&args, &[("GORGON_SUMS", "gossip")]).wait_with_output().unwrap();
    assert!(output.status.code() == Some(2) && stderr(&output).contains("GORGON_SUMS=gossip"), "{}", stderr(&output));
    let document = json(&finished(&[&args[..], &["--json"]].concat(), &[]));
    assert!(document["evaluation"].is_object(), "{document}");
}

#[test]
fn lists_are_for_training() {
    let job = job();
    let config = job.text("train.toml");
    for verb in [&["generate", "--model", "m", "--prompt", "p"][..], &["features", "-c", &config], &["doctor"]] {
        for devices in ["cpu,cpu", "cuda:all", "cuda:0,1"] {
            refused(&[verb, &["--device", devices]].concat(), &["--device", "train and pretrain"]);
        }
    }
    refused(&["train", "-c", &config, "--device", "cpu,cuda:0"], &["cpu,cuda:0", "one kind"]);
    refused(&["train", "-c", &config, "--device", "cpu,,cpu"], &["cpu,,cpu"]);
    refused(&["train", "-c", &config, "--device", "cuda:0+1,cuda:2"], &["cuda:0+1,cuda:2", "split over devices"]);
    refused(&["train", "-c", &config, "--device", "cuda:1+1"], &["cuda:1+1", "named twice"]);
}
