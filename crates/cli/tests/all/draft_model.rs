//! A separate draft model through the command line: made, decoded with, fitted, and swept over lossy rules.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{Model, json, refused, stderr, stdout};
use std::path::Path;
use std::sync::OnceLock;

/// A folder with a draft model for the shared backbone, fitted for a moment.
fn draft() -> &'static Path {
    static MODEL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = MODEL.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "seed = 5\nout = {:?}\nruns = {:?}\n[data]\nsynthetic = 300\nheld_out = 8\n[tokenizer]\nfrom = {:?}\n\
             [model]\nhidden_size = 16\nintermediate_size = 24\nlayers = 1\nheads = 2\nkv_heads = 2\n\
             max_positions = 512\n[training]\nsteps = 20\nmicro_batch_tokens = 512\n",
            dir.path().join("draft"),
            dir.path().join("runs"),
            backbone()
        );
        let path = dir.path().join("pretrain.toml");
        std::fs::write(&path, config).unwrap();
        finished(&["pretrain", "-c", path.to_str().unwrap()], &[]);
        dir
    });
    static PATH: OnceLock<std::path::PathBuf> = OnceLock::new();
    PATH.get_or_init(|| dir.path().join("draft"))
}

fn drafter() -> String {
    format!("model:{}", draft().display())
}

/// Greedy text is plain text with every tree; other rules run, and say what they are.
fn decodes(drafter: &str) {
    let model = backbone().to_str().unwrap();
    let decode = |more: &[&str]| {
        let base = ["generate", "--model", model, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))
    };
    let plain = decode(&[]);
    for tree in ["chain:4", "chain:1", "mc_sim_7b_63", "dynamic:12,3,4"] {
        let drafted = decode(&["--drafter", drafter, "--tree", tree]);
        assert_eq!(drafted["ids"], plain["ids"], "{tree}");
        assert_eq!((&drafted["drafter"], &drafted["tree"]), (&drafter.into(), &tree.into()));
    }
    assert_eq!(decode(&["--drafter", drafter])["tree"], "chain:4");
    for (rule, lossless) in [
        ("sampling", true),
        ("k-seq", true),
        ("coupled", true),
        ("lossy:0.2", false),
        ("opt:0.3", false),
        ("token-v3:0.3", false),
        ("bild:0.1,2", false),
    ] {
        for more in [&["--temperature", "1"][..], &["--temperature", "0.7", "--tree", "mc_sim_7b_63"]] {
            let drafted = decode(&[&["--drafter", drafter, "--accept", rule], more].concat());
            assert_eq!(drafted["lossless"], lossless, "{rule}");
        }
    }
}

#[test]
fn a_draft_model_is_made_and_decoded_with() {
    decodes(&drafter());
    let model = backbone().to_str().unwrap();
    let job = Job::new();
    let prompts = job.text("prompts.txt");
    std::fs::write(&prompts, "What is 3 + 4?\nSay hello.\n").unwrap();
    let drafter = drafter();
    let with = ["--model", model, "--drafter", &drafter, "--prompts", &prompts, "--max-new-tokens", "16"];
    let bench = json(&finished(&[&["bench", "--rounds", "1", "--json"], &with[..]].concat(), &[]));
    assert_eq!((&bench["drafter"], &bench["lossless"]), (&drafter.clone().into(), &true.into()));
    assert_eq!(bench["summary"]["same_text"], bench["summary"]["pairs"]);
    let said = finished(&[&["chat", "-p", "hello"], &["--model", model, "--drafter", &drafter][..]].concat(), &[]);
    assert!(said.status.success());
}

#[test]
fn a_draft_model_is_fitted_to_the_target() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let given = format!("distill_spec.draft={:?}", draft().to_str().unwrap());
    let train = ["train", "-c", &config, "method=\"distill-spec\"", &given, "distill_spec.every=5"];
    let train = [&train[..], &["distill_spec.max_new_tokens=12", "training.learning_rate=3e-3"]].concat();
    let plan = finished(&[&train[..], &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains("a draft model") && !job.path("runs").exists(), "{}", stderr(&plan));
    let document = json(&finished(&[&train[..], &["--json"]].concat(), &[]));
    for key in ["loss", "acceptance", "top1", "tau"] {
        assert!(document["evaluation"][key].is_number(), "{key}: {document}");
    }
    let run = job.run().unwrap();
    assert!(run.file_name().unwrap().to_str().unwrap().starts_with("distill-spec-"));
    for name in ["plots/loss.svg", "plots/acceptance.svg", "model/tokenizer.json", "answers-000002.json"] {
        assert!(run.join(name).is_file(), "{name}");
    }
    assert!(!run.join("plots/top5.svg").exists(), "there is nothing to draw");
    let model = std::fs::read(run.join("model/model.safetensors")).unwrap();
    // A run folder stands for its draft model.
    decodes(&format!("model:{}", run.join("model").display()));
    let prompt = ["--prompt", "x", "--max-new-tokens", "4", "--json"];
    let of_run = format!("model:{}", run.display());
    let generate = ["generate", "--model", backbone().to_str().unwrap(), "--drafter", &of_run];
    let found = json(&finished(&[&generate[..], &prompt].concat(), &[]));
    assert_eq!(found["drafter"], format!("model:{}", run.join("model").display()));
    // The resolved config repeats the run, bit for bit.
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap()], &[]);
    let again = job.run().unwrap();
    assert_ne!(again, run);
    assert_eq!(std::fs::read(again.join("model/model.safetensors")).unwrap(), model);
    for (more, word) in [
        ("distill_spec.divergence=\"l2\"", "l2"),
        ("distill_spec.beta=2", "distill_spec.beta"),
        ("distill_spec.draft=\"/nowhere\"", "/nowhere"),
        ("distill_spec.typo=1", "typo"),
    ] {
        refused(&[&train[..], &[more]].concat(), &[word]);
    }
}

/// A short sweep.
fn sweep(more: &[&str]) -> Vec<String> {
    let model = backbone().to_str().unwrap();
    let drafter = drafter();
    let base = ["bench", "--model", model, "--drafter", &drafter, "--limit", "2", "--max-new-tokens", "12"];
    let all = base.iter().chain(&["--rounds", "1", "--sweep", "alpha=0,0.5"]).chain(more);
    all.map(|word| (*word).to_owned()).collect()
}

fn swept(more: &[&str]) -> std::process::Output {
    finished(&sweep(more).iter().map(String::as_str).collect::<Vec<_>>(), &[])
}

#[test]
fn lossy_rules_are_swept() {
    let job = Job::new();
    let (out, plots) = (job.text("rows.json"), job.text("plots"));
    let all = json(&swept(&["--temperature", "1", "--json", "--out", &out, "--plots", &plots]));
    let points = all["points"].as_array().unwrap();
    // Two temperatures with three references each, since lossy greedy is at 0; ten rules at two values of α.
    assert_eq!(points.len(), 6 + 20, "{all}");
    for point in points {
        let is_reference = point["alpha"].is_null();
        let lossless = is_reference && point["rule"] != "draft model alone";
        let harmless = point["accept"] == "lossy:0,1";
        assert!(point["lossless"] == lossless || harmless, "{point}");
        for key in ["quality", "tokens_per_step", "tokens_per_second", "speedup"] {
            assert!(point[key].is_number(), "{key}: {point}");
        }
        assert_eq!(
            point["rejection_rate"].is_null(),
            is_reference && point["rule"].as_str().unwrap().contains("alone")
        );
        assert_eq!(point["answers"], 2);
    }
    let rows: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(rows["answers"].as_array().map(Vec::len), Some(2 * 26));
    for name in ["quality-rejections.svg", "quality-speed.svg"] {
        let svg = std::fs::read_to_string(Path::new(&plots).join(name)).unwrap();
        // Whatever rejects everything is not drawn.
        let drawn = |point: &&serde_json::Value| point["rejection_rate"].as_f64().is_some_and(|rate| rate < 1.0);
        for point in points.iter().filter(drawn).filter(|point| !point["alpha"].is_null()) {
            let name_in_legend = format!("{} (lossy)", point["rule"].as_str().unwrap());
            assert!(svg.contains(&name_in_legend), "{name}: {name_in_legend}");
        }
        assert!(svg.contains("(lossless)"), "{name}");
    }
    let table = stdout(&swept(&["--accept", "chow,bild:0.2"]));
    for word in ["chow", "bild:0.2", "lossy", "lossless", "target alone", "draft model alone"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert!(!table.contains("token-v1"), "{table}");
}

#[test]
fn sweeps_that_cannot_be_are_refused_in_a_line() {
    let (model, drafter) = (backbone().to_str().unwrap(), drafter());
    for (more, word) in [
        (&["--accept", "chow:0.1"][..], "without their parameters"),
        (&["--accept", "chow,greedy"], "\"greedy\""),
        (&["--accept", "lossy", "--temperature", "-1"], "temperature"),
        (&["--suite", "cpu"], "--model"),
    ] {
        let args = sweep(more);
        refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[word]);
    }
    refused(&["bench", "--model", model, "--drafter", &drafter, "--sweep", "alpha=1"], &["alpha = 1"]);
    refused(&["bench", "--model", model, "--drafter", &drafter, "--sweep", "beta=1"], &["alpha="]);
    refused(&["bench", "--model", model, "--drafter", "ngram:3", "--sweep", "alpha=0"], &["distributions"]);
    let verify = ["verify", "--model", model, "--drafter", &drafter, "--prompts", "x"];
    refused(&[&verify[..], &["--accept", "chow"]].concat(), &["chow:A"]);
}

#[test]
fn draft_models_that_cannot_be_are_refused_in_a_line() {
    let model = Model::new();
    let generate = |drafter: &str, words: &[&str]| {
        refused(&["generate", "--model", model.name(), "--ids", "1,2", "--drafter", drafter], words);
    };
    generate("model:", &["model:DIR"]);
    generate("model:/nowhere/at/all", &["/nowhere/at/all", "no such folder"]);
    let empty = tempfile::tempdir().unwrap();
    generate(&format!("model:{}", empty.path().display()), &["config.json"]);
    std::fs::copy(model.file("config.json"), empty.path().join("config.json")).unwrap();
    generate(&format!("model:{}", empty.path().display()), &[empty.path().to_str().unwrap()]);
    // The trained backbone's tokens are not bytes.
    let other = backbone().to_str().unwrap();
    generate(&format!("model:{other}"), &["tokenizer", model.name(), other]);
}
