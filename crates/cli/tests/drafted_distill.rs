//! Self-distillation with drafts through the command line.

mod chain;
mod gorgon;

use chain::{Job, finished};
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
    for (drafts, batch) in [
        (vec!["drafter=ngram:3"], "batch_size=1"),
        (vec!["drafter=ngram:4", "tree=chain:3"], "batch_size=auto"),
        (vec![heads.as_str()], "batch_size=3"),
        (vec![heads.as_str(), "tree=dynamic:9,3,3"], "batch_size=16"),
    ] {
        let job = Job::new();
        job.distill(&[&[GREEDY, batch], drafts.as_slice()].concat());
        assert_eq!(job.shards(), plain.shards(), "{drafts:?} {batch}");
        assert_eq!(identity(&job)["drafting"], Value::Null);
        // Finished with drafts, it is finished without.
        job.distill(&[GREEDY]);
    }
}

/// Sampled answers have the model's distribution with drafts too, but they are others: what drafted is part of the job.
#[test]
fn what_drafts_is_part_of_a_sampled_job() {
    let (_plain, heads) = heads();
    for drafts in [heads.as_str(), "drafter=ngram:3"] {
        let (one, many) = (Job::new(), Job::new());
        one.distill(&[drafts, "batch_size=1"]);
        many.distill(&[drafts, "batch_size=16"]);
        assert_eq!(one.shards(), many.shards(), "{drafts}");
        let drafting = &identity(&one)["drafting"];
        assert_eq!(drafting["drafter"], if drafts.starts_with("heads") { "medusa" } else { "ngram:3" });
        assert_eq!(drafting["model_sha256"].is_string(), drafts.starts_with("heads"));
        let shard = String::from_utf8_lossy(&one.shards()[0]).into_owned();
        assert!(shard.contains("gorgon.drafting"), "the shard does not say what drafted");
        let config = one.text("distill.toml");
        refused(&["distill", "-c", &config], &["drafting"]);
        refused(&["distill", "-c", &config, drafts, "tree=chain:2"], &["drafting.tree"]);
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
        (vec!["drafter=ngram:3", "answers=data"], vec!["drafter"]),
        (vec!["drafter=ngram:3", "servers=[\"http://127.0.0.1:1/v1\"]"], vec!["drafter", "servers"]),
    ] {
        refused(&[&["distill", "-c", &config], keys.as_slice()].concat(), &words);
    }
    assert!(!job.path("data").exists());
}
