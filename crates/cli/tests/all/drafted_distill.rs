//! Self-distillation with drafts through the command line.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{refused, stderr};
use serde_json::Value;

const GREEDY: &str = "sampling.temperature=0";

fn identity(job: &Job) -> Value {
    serde_json::from_slice(&std::fs::read(job.path("data/identity.json")).unwrap()).unwrap()
}

/// Heads that were trained on the answers of a job.
fn heads() -> (Job, String) {
    let job = Job::new();
    job.distill(&[GREEDY]);
    job.train(&[]);
    let heads = format!("heads={:?}", job.run().unwrap());
    (job, heads)
}

#[test]
fn greedy_shards_are_the_same_with_any_drafter_and_any_batch() {
    let (plain, heads) = heads();
    same_with_any_drafter(&plain, &heads, &[GREEDY]);
}

/// Noise is that of a record's position, not of what was drafted or decoded beside it.
#[test]
fn sampled_shards_are_the_same_with_any_drafter_and_any_batch() {
    let (greedy, heads) = heads();
    for temperature in ["sampling.temperature=0.5", "sampling.temperature=1.2"] {
        let plain = Job::new();
        plain.distill(&[temperature]);
        assert_ne!(plain.shards(), greedy.shards());
        same_with_any_drafter(&plain, &heads, &[temperature]);
    }
}

fn same_with_any_drafter(plain: &Job, heads: &str, sampling: &[&str]) {
    let ouroboros = format!("drafter=\"ouroboros:{}\"", backbone().display());
    for (drafts, batch) in [
        (vec!["drafter=ngram:3"], "batch_size=1"),
        (vec!["drafter=ngram:4", "tree=chain:3"], "batch_size=auto"),
        // Their tables, phrases and means outlive conversations.
        (vec!["drafter=recycle"], "batch_size=2"),
        (vec!["drafter=suffix,else=recycle"], "batch_size=3"),
        (vec![&ouroboros], "batch_size=2"),
        (vec![heads], "batch_size=3"),
        (vec![heads, "tree=dynamic:9,3,3"], "batch_size=16"),
        (vec![heads, "tree=trellis:9"], "batch_size=2"),
    ] {
        let job = Job::new();
        job.distill(&[sampling, &[batch], drafts.as_slice()].concat());
        assert_eq!(job.shards(), plain.shards(), "{drafts:?} {batch}");
        assert_eq!(identity(&job), identity(plain));
        // Finished with drafts, it is finished without.
        job.distill(sampling);
    }
}

#[cfg(unix)]
#[test]
fn a_killed_job_goes_on_with_and_without_drafts() {
    let (plain, heads) = heads();
    let job = Job::new();
    let config = job.text("distill.toml");
    for i in 0..8u64 {
        let drafts = ["drafter=none", "drafter=ngram:3", heads.as_str()][i as usize % 3];
        let batch = format!("batch_size={}", 1 + i % 5);
        let mut child = chain::start(&["distill", "-c", &config, GREEDY, &batch, drafts], &[]);
        std::thread::sleep(std::time::Duration::from_millis(20 + 37 * i % 160));
        let _ = child.kill();
        child.wait_with_output().unwrap();
    }
    job.distill(&[GREEDY, &heads]);
    assert_eq!(job.shards(), plain.shards());
}

#[test]
fn memory_bounds_the_batch() {
    let job = Job::new();
    let config = job.text("distill.toml");
    let plan = |keys: &[&str]| stderr(&finished(&[&["distill", "-c", &config, "--dry-run"], keys].concat(), &[]));
    assert!(plan(&["batch_size=7"]).contains("(7 conversations"), "{}", plan(&["batch_size=7"]));
    assert!(plan(&["batch_size=auto", "memory_mib=100000"]).contains("(32 conversations"));
    assert!(
        plan(&["batch_size=auto", "memory_mib=100000", "drafter=ngram:3"]).contains("drafter ngram:3, tree chain:8")
    );
    let few = plan(&["batch_size=auto", "memory_mib=1"]);
    let few: usize = few.split_once(" conversations of ").unwrap().0.rsplit('(').next().unwrap().parse().unwrap();
    assert!((1..32).contains(&few), "{few}");
    assert!(plan(&[&format!("batch_size={few}"), "memory_mib=1"]).contains(&format!("({few} conversations")));
    let more = format!("batch_size={}", few + 1);
    refused(&["distill", "-c", &config, "--dry-run", &more, "memory_mib=1"], &["memory_mib", &format!("{few} fit")]);
    refused(&["distill", "-c", &config, "batch_size=auto", "memory_mib=0"], &["memory_mib = 0", "from 1"]);
    refused(&["distill", "-c", &config, "batch_size=many"], &["batch_size", "auto"]);
    refused(&["distill", "-c", &config, "batch_size=-1"], &["batch_size"]);
    assert!(!job.path("data").exists());
}

#[test]
fn wrong_drafters_are_refused_in_a_line() {
    let job = Job::new();
    let config = job.text("distill.toml");
    for (keys, words) in [
        (vec!["drafter=alchemy"], vec!["drafter", "alchemy"]),
        (vec!["drafter=medusa"], vec!["heads"]),
        (vec!["drafter=oracle:0.5"], vec!["oracle"]),
        (vec!["drafter=ngram:3", "tree=bush"], vec!["tree", "bush"]),
        (vec!["heads=/no/such"], vec!["/no/such"]),
        (vec!["drafter=model:/no/such"], vec!["/no/such"]),
        (vec!["drafter=ngram:3", "answers=data", "sampling={}", "batch_size=16"], vec!["drafter"]),
        (vec!["answers=data"], vec!["sampling.temperature = 0.8", "sampling.seed = 4", "batch_size = 4"]),
        (vec!["drafter=ngram:3", "servers=[\"http://127.0.0.1:1/v1\"]"], vec!["drafter", "servers"]),
    ] {
        refused(&[&["distill", "-c", &config], keys.as_slice()].concat(), &words);
    }
    assert!(!job.path("data").exists());
}
