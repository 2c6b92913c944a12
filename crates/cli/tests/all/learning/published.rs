//! A draft model that was fitted to its corrections takes the place of the one that drafts.

use super::draft;
use crate::chain::{Job, backbone, finished};
use crate::gorgon::{json, stderr};
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

/// `publish` replaces the weights where they accept more, and nothing else. Either way the text stays.
#[test]
fn a_draft_model_is_published_in_its_place() {
    let job = Job::new();
    job.distill(&[]);
    let (fitted, log, model) = (draft(&job), job.text("log"), backbone().to_str().unwrap());
    // A run's own files stay as they are.
    let draft = copied(Path::new(&fitted), &job.path("draft"));
    let drafter = format!("model:{draft}");
    let chat = |more: &[&str]| {
        let base = ["chat", "--model", model, "-p", "What is 3 + 4?", "--max-new-tokens", "32", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))["turns"][0]["ids"].clone()
    };
    let plain = chat(&["--drafter", "none"]);
    (0..3).for_each(|_| assert_eq!(chat(&["--drafter", &drafter, "--learn", &log]), plain));
    let config = format!(
        "method = \"distill-spec\"\nmodel = {model:?}\ndata = {log:?}\nruns = {:?}\neval_data = {log:?}\nheld_out = 0.0\n\
         seed = 1\nkeep_start = true\npublish = true\neval_decoded_prompts = 0\n\
         [distill_spec]\ndraft = {draft:?}\nanswers = \"data\"\n\
         [training]\nsteps = 6\neval_every = 3\nlearning_rate = 1e-3\n",
        job.path("learnt")
    );
    job.write("learn.toml", &config);
    let before = files(&draft);
    let said = stderr(&finished(&["train", "-c", &job.text("learn.toml")], &[]));
    let after = files(&draft);
    let changed: Vec<&str> =
        before.iter().zip(&after).filter(|(was, is)| was != is).map(|(was, _)| was.0.as_str()).collect();
    assert_eq!(before.len(), after.len(), "{said}");
    match said.contains("published: ") {
        true => assert_eq!(changed, ["model.safetensors"], "{said}"),
        false => assert!(said.contains("stays as it is") && changed.is_empty(), "{said}"),
    }
    assert_eq!(chat(&["--drafter", &drafter]), plain);
}
