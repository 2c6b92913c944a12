//! Run folders: listed, shown, compared, and what they are taken for where something else is expected.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{gorgon, json, refused, stderr, stdout};
use gorgon_runs::run_dir::RunDir;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Two finished runs of Medusa with the same data.
fn two_runs() -> (Job, PathBuf, PathBuf) {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    job.train(&["training.learning_rate=3e-4"]);
    let (first, second) = (job.path("runs/medusa-model-1"), job.path("runs/medusa-model-2"));
    (job, first, second)
}

/// Makes a finished run one that was interrupted after its last checkpoint.
fn interrupt(run: &Path) {
    std::fs::remove_file(run.join("results.json")).unwrap();
    std::fs::remove_dir_all(run.join("heads")).unwrap();
}

fn state(run: &Path) -> Value {
    let run = run.to_str().unwrap();
    json(&finished(&["runs", "list", run, "--json"], &[]))["runs"][0]["state"].clone()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn runs_are_listed_shown_and_compared() {
    let (job, first, second) = two_runs();
    let runs = job.text("runs");
    let list = json(&finished(&["runs", "list", &runs, "--json"], &[]));
    let listed = list["runs"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{list}");
    for run in listed {
        assert_eq!((&run["state"], &run["method"]), (&"finished".into(), &"medusa".into()));
        assert_eq!((&run["steps"], &run["total_steps"]), (&12.into(), &12.into()));
        assert_eq!(run["model"], text(backbone()));
        assert_eq!(run["data"], job.text("data").as_str());
        assert!(
            run["held_out_loss"].as_f64().unwrap() > 0.0 && run["tokens_per_step"].as_f64().unwrap() >= 1.0,
            "{run}"
        );
        assert_eq!((&run["speedup"], &run["problems"]), (&Value::Null, &serde_json::json!([])));
    }
    let shown = stdout(&finished(&["runs", "list", &runs], &[]));
    for word in ["medusa-model-1", "medusa-model-2", "12/12", "finished", " loss ", " τ "] {
        assert!(shown.contains(word), "{shown}");
    }
    let details = json(&finished(&["runs", "show", text(&first), "--json"], &[]));
    assert_eq!(details["checkpoints"].as_array().unwrap().last(), Some(&12.into()), "{details}");
    assert_eq!((&details["heads"], &details["resume"]), (&text(&first.join("heads")).into(), &Value::Null));
    assert_eq!(details["results"]["method"], "medusa");
    assert!(stdout(&finished(&["runs", "show", text(&first)], &[])).contains("step-000012"));
    let (chart, both) = (job.text("curves.svg"), [text(&first), text(&second)]);
    let compared = [&["runs", "compare", "--out", &chart, "--json"][..], &both].concat();
    let compared = json(&finished(&compared, &[]));
    assert_eq!((&compared["metric"], compared["runs"].as_array().map(Vec::len)), (&"tau".into(), Some(2)));
    let svg = std::fs::read_to_string(&chart).unwrap();
    for word in ["medusa-model-1", "medusa-model-2", "accepted tokens per step", "prefers-color-scheme"] {
        assert!(svg.contains(word), "{word}");
    }
    refused(
        &["runs", "compare", both[0], "--metric", "nothing", "--out", &chart],
        &["nothing", "no evaluation of these runs has it"],
    );
    refused(&["runs", "show", &job.text("data")], &["no run folder"]);
    refused(&["runs", "open", &job.text("none")], &["/none: no such run folder"]);
    refused(&["runs", "list", "/no/such/folder"], &["/no/such/folder"]);
}

#[test]
fn plots_are_labelled_in_words_and_their_paths_are_printed() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let run = job.run().unwrap();
    let paths = stdout(&finished(&["runs", "open", text(&run)], &[]));
    let plots: Vec<&str> = paths.lines().collect();
    assert!(plots.len() >= 4 && plots.iter().all(|plot| Path::new(plot).is_file()), "{paths}");
    let listed = json(&finished(&["runs", "open", text(&run), "--json"], &[]));
    assert_eq!(listed["plots"].as_array().map(Vec::len), Some(plots.len()));
    let svg = |name: &str| std::fs::read_to_string(run.join("plots").join(name)).unwrap();
    for (name, words) in [
        ("loss.svg", ["loss (weighted, nats per token)", "held-out text", "training step"]),
        (
            "length.svg",
            ["accepted tokens per step, bonus token included", "decoded prompts (measured)", "training step"],
        ),
        ("top1.svg", ["share of tokens (top-1 accuracy)", "head 3", "training step"]),
    ] {
        words.iter().for_each(|word| assert!(svg(name).contains(word), "{name}: {word}"));
    }
}

#[test]
fn the_state_of_a_run_is_told_from_its_files() {
    let (job, run, other) = two_runs();
    interrupt(&run);
    assert_eq!(state(&run), "interrupted");
    let details = json(&finished(&["runs", "show", text(&run), "--json"], &[]));
    let resume = details["resume"].as_str().unwrap();
    assert!(resume.starts_with("gorgon train ") && resume.contains(text(&run)), "{resume}");
    // While a process holds the folder, it runs; reading it does not disturb that.
    let held = RunDir::open(&run).unwrap();
    assert_eq!(state(&run), "running");
    drop(held);
    // The command is one that resumes it, and the run is finished then.
    let words: Vec<&str> = resume.split(' ').skip(1).collect();
    finished(&words, &[]);
    assert_eq!(state(&run), "finished");
    std::fs::write(other.join("config.toml"), "method = ").unwrap();
    assert_eq!(state(&other), "damaged");
    let list = gorgon(&["runs", "list", &job.text("runs")]);
    assert!(list.status.success() && stdout(&list).contains("config.toml"), "{}", stdout(&list));
    interrupt(&run);
    let details = json(&finished(&["runs", "show", text(&run), "--json"], &[]));
    for step in details["checkpoints"].as_array().unwrap() {
        std::fs::write(run.join(format!("step-{:06}/state.json", step.as_u64().unwrap())), "{").unwrap();
    }
    assert_eq!(state(&run), "damaged");
}

#[test]
fn an_interrupted_run_drafts_with_its_newest_checkpoint() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let run = job.run().unwrap();
    let model = text(backbone());
    let decode = |heads: &str| {
        let args = ["generate", "--model", model, "--heads", heads, "--tree", "chain:3", "--prompt", "Hello", "--json"];
        let output = finished(&[&args[..], &["--max-new-tokens", "12", "--ignore-eos"]].concat(), &[]);
        (json(&output)["accepted"].clone(), stderr(&output))
    };
    let (accepted, said) = decode(text(&run));
    assert!(!said.contains("not finished"), "{said}");
    interrupt(&run);
    let (newest, said) = decode(text(&run));
    let notice = format!("note: {}: this run has not finished", text(&run));
    assert!(said.contains(&notice) && said.contains("step 12"), "{said}");
    let (step, said) = decode(text(&run.join("step-000012")));
    assert!(!said.contains("not finished"), "{said}");
    assert_eq!((&newest, &step.as_array().map(Vec::is_empty)), (&step, &Some(false)));
    assert!(accepted.is_array());
    // Of damaged checkpoints the newest whole one serves; of none, an error says so.
    std::fs::write(run.join("step-000012/model.safetensors"), "damaged").unwrap();
    let (_, said) = decode(text(&run));
    assert!(said.contains("not finished") && !said.contains("step 12"), "{said}");
    for entry in std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.file_name().unwrap().to_string_lossy().starts_with("step-") {
            std::fs::remove_dir_all(entry).unwrap();
        }
    }
    let words = ["has not finished", "no whole checkpoint"];
    refused(&["generate", "--model", model, "--heads", text(&run), "--prompt", "x"], &words);
}

/// A folder that is no model is named for its content, with the right command, before anything is looked for elsewhere.
#[test]
fn runs_heads_and_datasets_are_no_models() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let run = job.run().unwrap();
    let (model, heads) = (text(backbone()), run.join("heads"));
    for (path, words) in [
        (
            &run,
            [
                "run folder of a training (medusa), not a model".to_owned(),
                format!("--model {model} --heads {}", run.display()),
            ],
        ),
        (&heads, ["holds draft heads".to_owned(), format!("--model {model} --heads {}", heads.display())]),
    ] {
        for command in ["generate", "chat"] {
            let output = gorgon(&[command, "--model", text(path), "--prompt", "x"]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            words.iter().for_each(|word| assert!(said.contains(word), "{command}: {said}"));
        }
        refused(&["generate", "--model", text(path), "--prompt", "x"], &[&words[0]]);
    }
    let data = job.text("data");
    refused(&["generate", "--model", &data, "--prompt", "x"], &["holds a dataset, not a model"]);
    // Nor are models and datasets heads.
    let wanted = "; heads are the run folder of a training, a folder of heads, or a file of them";
    for (path, other) in [
        (model, format!("{model} is a model: --model {model} decodes with it, --drafter model:{model} drafts with it")),
        (&data, format!("{data} is a dataset: data = \"{data}\" in a config trains on it")),
        (&job.text("runs"), format!("{} has medusa-model-1", job.text("runs"))),
    ] {
        let generate = ["generate", "--model", model, "--prompt", "x", "--heads", path];
        for args in [&generate[..], &["export", path, "--to", "medusa-v1", &job.text("out")]] {
            let output = gorgon(args);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.ends_with(&format!("hint: {other}{wanted}\n")), "{args:?}: {said}");
        }
    }
}

/// `results.json` has what came of the run.
#[test]
fn results_have_results() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let run = job.run().unwrap();
    let results: Value = serde_json::from_slice(&std::fs::read(run.join("results.json")).unwrap()).unwrap();
    assert_eq!((&results["method"], &results["steps"]), (&"medusa".into(), &12.into()), "{results}");
    for part in ["train", "held_out"] {
        let losses = &results[part];
        assert!(losses["loss"].as_f64().unwrap() > 0.0, "{part}: {results}");
        for key in ["head_loss", "top1"] {
            let numbers = losses[key].as_array().unwrap();
            assert!(numbers.len() == 4 && numbers.iter().all(Value::is_number), "{part} {key}: {results}");
        }
    }
    assert_eq!(results["held_out"]["top5"].as_array().map(Vec::len), Some(4));
    for key in ["chain_expected", "tree_expected", "decoded"] {
        assert!(results["tokens_per_step"][key].as_f64().unwrap() >= 1.0, "{key}: {results}");
    }
    assert!(results["training_tokens_per_second"].as_f64().unwrap() > 0.0);
    assert!(results["parameters"].as_u64().unwrap() > 1000);
    for key in ["memory_bytes", "disk_bytes", "fitting_seconds"] {
        assert!(results["plan"][key]["planned"].is_number(), "{key}: {results}");
    }
    let bytes = std::fs::read(run.join("provenance.json")).unwrap();
    assert_eq!(results["provenance_sha256"], gorgon_runs::provenance::hash_bytes(&bytes).as_str());
    let provenance: Value = serde_json::from_slice(&bytes).unwrap();
    let commit = provenance["commit"].as_str().unwrap();
    assert!(commit == "unknown" || commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{provenance}");
    assert_eq!(provenance["features"][0], "cpu");
    let doctor = json(&gorgon(&["doctor", "--json"]));
    assert_eq!((&doctor["commit"], &doctor["features"]), (&provenance["commit"], &provenance["features"]));
}

/// A measurement is stored with the heads, and the list of runs and the model card have it.
#[test]
fn a_measured_speed_is_kept_with_the_heads() {
    let job = Job::new();
    job.distill(&[]);
    job.train(&[]);
    let (run, prompts) = (job.run().unwrap(), job.text("prompts.jsonl"));
    let lines =
        "{\"prompt\": \"What is 3 + 4?\", \"category\": \"sums\"}\n{\"prompt\": \"Hello\", \"category\": \"talk\"}\n";
    std::fs::write(&prompts, lines).unwrap();
    let heads = ["--model", text(backbone()), "--heads", text(&run), "--tree", "chain:2", "--prompts", &prompts];
    let few = ["--max-new-tokens", "8", "--rounds", "1", "--ignore-eos"];
    finished(&[&["bench"][..], &heads, &few].concat(), &[]);
    let list = json(&finished(&["runs", "list", text(&run), "--json"], &[]));
    let speedup = &list["runs"][0]["speedup"];
    assert!(speedup["factor"].as_f64().unwrap() > 0.0 && speedup["measured"] == true, "{list}");
    assert_eq!(speedup["device"], "cpu");
    assert!(speedup["tokens_per_step"].as_f64().unwrap() >= 1.0, "{list}");
    let out = job.text("card");
    finished(&["export", text(&run), "--to", "medusa-v2", &out], &[]);
    let card = std::fs::read_to_string(Path::new(&out).join("README.md")).unwrap();
    for word in ["## Speed", "tokens/step (τ)", "`prompts.jsonl`", "chain:2", "CPU threads"] {
        assert!(card.contains(word), "{word}: {card}");
    }
}
