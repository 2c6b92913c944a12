//! Stores: built of texts, conversations and shards, described, drafted from, and refused where they are damaged.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{Model, gorgon, json, refused, stderr, stdout};
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use serde_json::Value;
use std::path::Path;

const CONVERSATION: &str = "{\"conversations\": [{\"from\": \"human\", \"value\": \"Count from 1 to 9.\"}, \
                            {\"from\": \"gpt\", \"value\": \"1 2 3 4 5 6 7 8 9\"}]}\n";

fn built(args: &[&str]) -> Value {
    json(&finished(&[&["store", "build", "--json"], args].concat(), &[]))
}

#[test]
fn stores_are_built_and_described() {
    let job = Job::new();
    job.distill(&[]);
    let model = backbone().to_str().unwrap();
    job.write("page.txt", "One page of text.\nOn two lines.\n");
    job.write("answers.jsonl", &format!("{CONVERSATION}{{\"prompt\": \"No answer is here.\"}}\n"));
    let (page, answers, data) = (job.text("page.txt"), job.text("answers.jsonl"), job.text("data"));
    let out = job.text("all.store");
    let count = |files: &[&str]| {
        let document = built(&[files, &["--model", model, &out]].concat());
        (document["documents"].as_u64().unwrap(), document["tokens"].as_u64().unwrap())
    };
    let each = [count(&[&page]), count(&[&answers]), count(&[&data])];
    assert_eq!((each[0].0, each[1].0, each[2].0), (1, 2, 60));
    let all = count(&[&page, &answers, &data]);
    let sum = each.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(all, sum);
    let document = json(&finished(&["store", "inspect", &out, "--json"], &[]));
    assert_eq!((document["tokens"].as_u64(), document["path"].as_str()), (Some(all.1), Some(out.as_str())));
    let bytes = std::fs::metadata(&out).unwrap().len();
    assert_eq!(document["bytes"], bytes);
    assert_eq!(bytes, 160 + 11 * (all.0 + all.1 + 1));
    assert!(stdout(&finished(&["store", "inspect", &out], &[])).contains(&format!("{} tokens of 63 documents", all.1)));
    // The store has the answer, so steps emit more than their bonus.
    let generate = |drafter: &str| {
        let args = ["generate", "--model", model, "--prompt", "Count from 1 to 9.", "--max-new-tokens", "12", "--json"];
        json(&finished(&[&args[..], &["--ignore-eos", "--drafter", drafter]].concat(), &[]))
    };
    let plain = generate("none");
    for drafter in [format!("suffix:{out}"), format!("rest:{out}"), format!("rest:{out},else=suffix")] {
        let drafted = generate(&drafter);
        assert_eq!((&drafted["ids"], &drafted["lossless"]), (&plain["ids"], &true.into()), "{drafter}");
        assert_eq!(drafted["drafter"], drafter.as_str());
    }
}

/// An answer that the store holds is drafted, and accepted.
#[test]
fn an_answer_of_the_store_takes_few_steps() {
    let job = Job::new();
    let model = backbone().to_str().unwrap();
    let args = ["generate", "--model", model, "--prompt", "Tell me a story.", "--max-new-tokens", "48", "--ignore-eos"];
    let answer = json(&finished(&[&args[..], &["--json"]].concat(), &[]));
    let text = answer["text"].as_str().unwrap();
    let record = serde_json::json!({"prompt": "Tell me a story.", "response": text});
    job.write("answers.jsonl", &format!("{record}\n"));
    let (answers, out) = (job.text("answers.jsonl"), job.text("answers.store"));
    built(&[&answers, "--model", model, &out]);
    let drafted = |drafter: &str| json(&finished(&[&args[..], &["--json", "--drafter", drafter]].concat(), &[]));
    let (with, without) = (drafted(&format!("suffix:{out}")), drafted("suffix"));
    assert_eq!((&with["ids"], &without["ids"]), (&answer["ids"], &answer["ids"]));
    assert!(with["steps"].as_u64() <= without["steps"].as_u64(), "{with} {without}");
}

#[test]
fn files_that_cannot_be_stored_are_refused() {
    let (model, folder) = (Model::new(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let out = path("out.store");
    let refuse = |file: &str, words: &[&str]| {
        refused(&["store", "build", file, "--model", model.name(), &out], words);
        assert!(!Path::new(&out).exists(), "{file}");
    };
    refuse(&path("none.txt"), &["none.txt", "no such file"]);
    std::fs::write(path("latin.txt"), b"caf\xe9").unwrap();
    refuse(&path("latin.txt"), &["latin.txt", "no UTF-8 text", "3"]);
    std::fs::write(path("empty.txt"), "").unwrap();
    refuse(&path("empty.txt"), &["no document with a token"]);
    std::fs::write(path("broken.jsonl"), "{\"prompt\": \n").unwrap();
    refuse(&path("broken.jsonl"), &["broken.jsonl"]);
    std::fs::create_dir(path("folder")).unwrap();
    refuse(&path("folder"), &["folder", "shard-*.parquet"]);
    std::fs::write(path("page.txt"), "text").unwrap();
    let nowhere = path("no/such/folder/store");
    refused(&["store", "build", &path("page.txt"), "--model", model.name(), &nowhere], &["no/such/folder"]);
    refused(&["store", "build", &path("page.txt"), "--model", "no/such/model", &out], &["no/such/model"]);
    refused(&["store", "build", &out, "--model", model.name()], &["only one file is named"]);
}

/// A model, and the path of a store of a page for it.
struct Page {
    model: Model,
    folder: tempfile::TempDir,
}

impl Page {
    fn new() -> Self {
        let page = Self { model: Model::new(), folder: tempfile::tempdir().unwrap() };
        std::fs::write(page.path("page.txt"), "a page, a page, a page").unwrap();
        built(&[&page.path("page.txt"), "--model", page.model.name(), &page.path("page.store")]);
        page
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Drafts a few tokens, or is refused with some words.
fn generate(model: &Model, drafter: &str, words: &[&str]) {
    let args = ["generate", "--model", model.name(), "--ids", "1,2,3", "--max-new-tokens", "4", "--drafter", drafter];
    match words.is_empty() {
        true => assert!(gorgon(&args).status.success(), "{}", stderr(&gorgon(&args))),
        false => refused(&args, words),
    }
}

fn drafters(store: &str) -> [String; 3] {
    [format!("suffix:{store}"), format!("rest:{store}"), format!("suffix:{store},else=ngram:2")]
}

#[test]
fn stores_of_another_tokenizer_are_refused() {
    let (page, other) = (Page::new(), Model::new());
    let tokenizer = std::fs::read(other.file("tokenizer.json")).unwrap();
    std::fs::write(other.file("tokenizer.json"), [&tokenizer[..], b"\n"].concat()).unwrap();
    for drafter in drafters(&page.path("page.store")) {
        generate(&page.model, &drafter, &[]);
        generate(&other, &drafter, &["page.store", "another tokenizer"]);
    }
}

#[test]
fn damaged_stores_are_refused() {
    let page = Page::new();
    let mut bytes = std::fs::read(page.path("page.store")).unwrap();
    let damaged = page.path("damaged.store");
    for (bytes, words) in [
        (&bytes[..100], "truncated"),
        (&bytes[..bytes.len() - 1], "entries"),
        (b"no store at all", "no store"),
        (b"", "no store"),
    ] {
        std::fs::write(&damaged, bytes).unwrap();
        for drafter in drafters(&damaged) {
            generate(&page.model, &drafter, &["damaged.store", words]);
        }
        refused(&["store", "inspect", &damaged], &["damaged.store", words]);
    }
    let at = bytes.len() - 9;
    bytes[at] ^= 0x80;
    std::fs::write(&damaged, &bytes).unwrap();
    refused(&["store", "inspect", &damaged], &["damaged.store", "SHA-256"]);
    generate(&page.model, &format!("suffix:{damaged}"), &[]);
    for drafter in drafters(&page.path("none.store")) {
        generate(&page.model, &drafter, &["none.store"]);
    }
    refused(&["store", "inspect", &page.path("none.store")], &["none.store", "no such file"]);
}

#[test]
fn pairs_need_two_drafters() {
    let model = Model::new();
    for (drafter, words) in [
        ("rest", "rest:STORE names a store"),
        ("suffix,else=none", "there is no other drafter"),
        ("suffix,else=auto", "there is no other drafter"),
        ("suffix,else=medusa", "medusa needs heads"),
        ("ngram:2,else=suffix", "drafts in any case"),
    ] {
        generate(&model, drafter, &[words]);
    }
}

/// The file of SWIFT's search is of one model's weights: those of another with its sizes are refused.
#[test]
fn a_search_of_other_weights_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = |name: &str, seed: u64| {
        let dir = folder.path().join(name);
        LlamaShape { layers: 5, ..gorgon::SHAPE }.write(&dir, FloatFormat::F32, seed).unwrap();
        dir.to_str().unwrap().to_owned()
    };
    let (one, two) = (model("one", 1), model("two", 2));
    let state = folder.path().join("swift.json");
    let drafter = format!("swift:45,state={}", state.display());
    let more = ["--ids", "1,2,3", "--max-new-tokens", "50", "--ignore-eos", "--drafter", &drafter];
    let args = |model| [&["generate", "--model", model][..], &more].concat();
    let (one, two) = (one.as_str(), two.as_str());
    finished(&args(one), &[]);
    let stored: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    assert_eq!(stored["weights_sha256"].as_str().map(str::len), Some(64), "{stored}");
    finished(&args(one), &[]);
    refused(&args(two), &["swift.json", "other weights"]);
    // Files once had no hash.
    let mut old = stored.clone();
    old.as_object_mut().unwrap().remove("weights_sha256");
    std::fs::write(&state, old.to_string()).unwrap();
    finished(&args(two), &[]);
    refused(&args(one), &["swift.json", "other weights"]);
}

/// The last name is that of the store: a document whose store was forgotten is not lost.
#[test]
fn other_files_are_not_overwritten() {
    let job = Job::new();
    let model = backbone().to_str().unwrap();
    for page in ["one.txt", "two.txt"] {
        job.write(page, "Some text.\n");
    }
    let (one, two, out) = (job.text("one.txt"), job.text("two.txt"), job.text("out.store"));
    refused(&["store", "build", &one, &two, "--model", model], &["two.txt", "no store"]);
    assert_eq!(std::fs::read_to_string(job.path("two.txt")).unwrap(), "Some text.\n");
    for files in [&[one.as_str()][..], &[&one, &two]] {
        assert_eq!(built(&[files, &["--model", model, &out]].concat())["documents"], files.len());
    }
}
