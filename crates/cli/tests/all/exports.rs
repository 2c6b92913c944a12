//! States and logits of heads along given tokens, and exports held against PyTorch modules of the published shapes.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stdout};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::Path;

/// A Python with torch, transformers and safetensors, as scripts/bench/requirements.txt has them.
const PYTHON: &str = "GORGON_TEST_PYTHON";

fn tensors(path: &Path) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    file.tensors().into_iter().map(|(name, t)| (name, (t.shape().to_vec(), values(t.data())))).collect()
}

fn argmax(row: &[f32]) -> usize {
    let largest = row.iter().copied().fold(f32::MIN, f32::max);
    row.iter().position(|x| *x == largest).unwrap()
}

/// The guesses along plain text are those that decoding with a chain accepts.
#[test]
fn guesses_along_a_text_are_those_that_are_drafted() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&["medusa.heads=3"]);
    let (model, run) = (backbone().to_str().unwrap(), job.run().unwrap());
    let heads = ["--model", model, "--heads", run.to_str().unwrap()];
    let decode =
        ["generate", "--tree", "chain:3", "--prompt", "What is 3 + 4?", "--max-new-tokens", "32", "--ignore-eos"];
    let drafted = json(&finished(&[&decode[..], &heads, &["--json"]].concat(), &[]));
    let list = |key: &str| -> Vec<usize> { serde_json::from_value(drafted[key].clone()).unwrap() };
    let (prompt, text) = (list("prompt_ids").len(), [list("prompt_ids"), list("ids")].concat());
    let (out, ids) = (job.text("rows.safetensors"), text.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
    let logits = [&["logits", "--ids", &ids, "--out", &out, "--drafts", "3", "--json"][..], &heads].concat();
    let document = json(&finished(&logits, &[]));
    let rows = tensors(&job.path("rows.safetensors"));
    let (shape, values) = &rows["draft_logits"];
    let (n, vocab) = (text.len() - 3, rows["logits"].0[1]);
    assert_eq!(
        (shape, &rows["draft_states"].0, &rows["draft_inputs"].0),
        (&vec![n, 3, vocab], &vec![n, 3, 32], &vec![n, 32])
    );
    assert_eq!(document["draft_logits"], serde_json::json!([n, 3, vocab]));
    assert_eq!(rows["draft_inputs"].1, rows["hidden"].1[..n * 32], "Medusa's heads read the state itself");
    let guess = |row: usize, place: usize| argmax(&values[(row * 3 + place) * vocab..][..vocab]);
    // The root of a step is known; its guesses start from the token before it.
    let mut root = prompt;
    for accepted in list("accepted") {
        if root > n {
            break;
        }
        let right = (0..3).take_while(|&place| guess(root - 1, place) == text[root + 1 + place]).count();
        assert_eq!(right, accepted, "after token {root}");
        root += accepted + 1;
    }
    // As many guesses as there are heads, unless told otherwise.
    let plain = [&["logits", "--ids", &ids, "--out", &out, "--json"][..], &heads].concat();
    assert_eq!(json(&finished(&plain, &[]))["draft_logits"], serde_json::json!([n, 3, vocab]));
    refused(&[&logits[..6], &["4"], &logits[8..]].concat(), &["--drafts 4", "3 heads"]);
    let few = ["logits", "--ids", "1,2,3", "--out", &out, "--drafts", "3"];
    refused(&[&few[..], &heads].concat(), &["--ids", "3 token ids", "at least 4"]);
    refused(&["logits", "--ids", "1,2", "--out", &out, "--model", model, "--drafts", "1"], &["--heads"]);
}

/// The project's own model in every format, loaded strictly by independent code. Takes some minutes.
#[test]
fn exports_agree_with_pytorch() {
    let Ok(python) = std::env::var(PYTHON) else {
        eprintln!(
            "SKIPPED exports_agree_with_pytorch: {PYTHON} names no Python with torch (make check-exports has the long form)"
        );
        return;
    };
    let (root, work) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), tempfile::tempdir().unwrap());
    let output = std::process::Command::new(&python)
        .arg(root.join("scripts/check_exports/run.py"))
        .args([
            "--gorgon",
            env!("CARGO_BIN_EXE_gorgon"),
            "--dialogues",
            "24",
            "--steps",
            "3",
            "--prompts",
            "1",
            "--tokens",
            "40",
        ])
        .arg("--model")
        .arg(root.join("checkpoints/tiny"))
        .arg("--work")
        .arg(work.path())
        .output()
        .unwrap_or_else(|error| panic!("{PYTHON}={python}: {error}"));
    let said = stdout(&output);
    eprintln!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
