//! A draft model that was fitted to its corrections takes the place of the one that drafts.

use super::draft;
use crate::chain::{Job, backbone, finished};
use crate::gorgon::{json, stderr};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::Path;

fn copied(from: &Path, to: &Path) -> String {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to.to_str().unwrap().to_owned()
}

/// The files of a model, but for the weights that it had before.
fn files(folder: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read =
        |entry: DirEntry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap());
    entries.map(read).filter(|(name, _)| name != "previous.safetensors").collect()
}

/// A draft model in a folder of its own, and a log of what it drafted wrongly.
struct Logged {
    job: Job,
    draft: String,
    plain: Value,
}

impl Logged {
    fn new() -> Self {
        let job = Job::new();
        job.distill(&[]);
        let (fitted, log) = (draft(&job), job.text("log"));
        // A run's own files stay as they are.
        let draft = copied(Path::new(&fitted), &job.path("draft"));
        let logged = Self { job, draft, plain: Value::Null };
        let plain = logged.chat(&["--drafter", "none"]);
        (0..3).for_each(|_| assert_eq!(logged.chat(&["--drafter", &logged.drafter(), "--learn", &log]), plain));
        Self { plain, ..logged }
    }

    fn drafter(&self) -> String {
        format!("model:{}", self.draft)
    }

    fn chat(&self, more: &[&str]) -> Value {
        let model = backbone().to_str().unwrap();
        let base = ["chat", "--model", model, "-p", "What is 3 + 4?", "--max-new-tokens", "32", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))["turns"][0]["ids"].clone()
    }

    /// Fits the draft model to the log, in its place. Returns what was said.
    fn learn(&self, keys: &[&str]) -> String {
        let (log, model, draft) = (self.job.text("log"), backbone().to_str().unwrap(), &self.draft);
        let config = format!(
            "method = \"distill-spec\"\nmodel = {model:?}\ndata = {log:?}\nruns = {:?}\neval_data = {log:?}\nheld_out = 0.0\n\
             seed = 1\nkeep_start = true\npublish = true\neval_decoded_prompts = 0\n\
             [distill_spec]\ndraft = {draft:?}\nanswers = \"data\"\n\
             [training]\nsteps = 6\neval_every = 3\nlearning_rate = 1e-3\n",
            self.job.path("learnt")
        );
        self.job.write("learn.toml", &config);
        let path = self.job.text("learn.toml");
        stderr(&finished(&[&["train", "-c", &path][..], keys].concat(), &[]))
    }
}

/// `publish` replaces the weights where they accept more, and nothing else. Either way the text stays.
#[test]
fn a_draft_model_is_published_in_its_place() {
    let logged = Logged::new();
    let before = files(&logged.draft);
    let said = logged.learn(&[]);
    let after = files(&logged.draft);
    let changed: Vec<&str> =
        before.iter().zip(&after).filter(|(was, is)| was != is).map(|(was, _)| was.0.as_str()).collect();
    assert_eq!(before.len(), after.len(), "{said}");
    match said.contains("published: ") {
        true => assert_eq!(changed, ["model.safetensors"], "{said}"),
        false => assert!(said.contains("stays as it is") && changed.is_empty(), "{said}"),
    }
    assert_eq!(logged.chat(&["--drafter", &logged.drafter()]), logged.plain);
}

/// The weights that a draft model had before come back where they accept more. Here they are all 0: the target was drawn
/// at random, and an even distribution is nearer to its own than that of the draft model.
#[test]
fn a_published_draft_model_is_rolled_back() {
    let logged = Logged::new();
    let [weights, previous] =
        ["model", "previous"].map(|name| Path::new(&logged.draft).join(name).with_extension("safetensors"));
    let mut better = std::fs::read(&weights).unwrap();
    let values = 8 + u64::from_le_bytes(better[..8].try_into().unwrap()) as usize;
    better[values..].fill(0);
    std::fs::write(&previous, &better).unwrap();
    let said = logged.learn(&["training.learning_rate=1e-6", "training.steps=2", "training.eval_every=1"]);
    assert!(said.contains("rolled back: "), "{said}");
    assert!(std::fs::read(&weights).unwrap() == better && !previous.exists());
    assert_eq!(logged.chat(&["--drafter", &logged.drafter()]), logged.plain);
}
