//! Data parallel training over two processes on the loopback interface, against one process.
//! `make test-mpi`; needs Open MPI (`mpirun`, headers) and libclang.
#![cfg(all(unix, feature = "mpi"))]

mod chain;

use chain::Job;
use std::process::{Command, Output, Stdio};

/// Trains with so many processes.
fn train(job: &Job, processes: usize, more: &[&str], environment: &[(&str, &str)]) -> Output {
    let n = processes.to_string();
    let mpi =
        ["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"];
    let config = job.text("train.toml");
    Command::new("mpirun")
        .args(mpi)
        .args(["-n", &n, env!("CARGO_BIN_EXE_gorgon"), "train", "-c", &config, "--threads", "1"])
        .args(more)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn trained(processes: usize, more: &[&str]) -> Job {
    let job = Job::new();
    job.distill(&[]);
    let output = train(&job, processes, more, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{processes} processes: {said}");
    job.check_one_voice(&said);
    job
}

fn values(bytes: &[u8]) -> Vec<f32> {
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// A sum of two has one order: with two micro-batches in a step, two processes end with the bits of one.
#[test]
fn two_processes_end_with_the_bits_of_one() {
    let one = trained(1, &[]);
    for processes in [2, 3] {
        // The third one never has a micro-batch.
        let more = trained(processes, &["cache_features=true"]);
        assert_eq!(more.weights(), one.weights(), "{processes} processes");
    }
}

/// A sum of five is taken in another order, which changes last bits and nothing else; also by processes of two replicas
/// each.
#[test]
fn other_orders_of_the_sums_stay_close() {
    let five = "training.gradient_accumulation=5";
    let one = trained(1, &[five]);
    for more in [&[five][..], &[five, "--device", "cpu,cpu"]] {
        let two = trained(2, more);
        let (a, b) = (values(&one.weights()[0]), values(&two.weights()[0]));
        let largest = a.iter().fold(0f32, |most, x| most.max(x.abs()));
        let furthest = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0f32, f32::max);
        assert!(furthest <= 1e-3 * largest, "{more:?}: {furthest} of {largest}");
    }
}

/// The death of one process is the end of all, and the run resumes from its last checkpoint, with any number of them.
#[test]
fn a_job_that_dies_goes_on() {
    let one = trained(1, &[]);
    let job = Job::new();
    job.distill(&[]);
    let output = train(&job, 2, &[], &[("GORGON_CRASH_AT", "before-folder-sync:12")]);
    assert!(!output.status.success());
    let run = job.run().unwrap();
    let output = train(&job, 2, &["--resume", run.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(job.weights(), one.weights());
}

/// The first process cannot write; the others, who could go on, do not wait for it for ever.
#[test]
fn an_error_in_one_process_ends_all() {
    let job = Job::new();
    job.distill(&[]);
    job.write("file", "in the way");
    let output = train(&job, 2, &[&format!("runs={:?}", job.path("file/runs"))], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("error: "), "{said}");
}
