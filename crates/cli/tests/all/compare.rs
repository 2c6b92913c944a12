//! `gorgon compare` and `gorgon convert` through the command line.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr};

fn config(job: &Job, more: &str) -> String {
    let prompts: String = (0..6).map(|i| format!("{{\"prompt\": \"What is {i} + 4?\"}}\n")).collect();
    job.write("prompts.jsonl", &prompts);
    job.write(
        "compare.toml",
        &format!(
            "model = {:?}\ndata = {:?}\nprompts = {:?}\nruns = {:?}\ncalibration_prompts = 3\nbench_prompts = 3\n\
             max_new_tokens = 16\nrounds = 1\nseeds = [1, 2]\ntemperatures = [0.0, 0.7]\nlearning_curve = [2, 3]\n[budget]\nsteps = 3\neval_every = 3\n\
             [[methods]]\nname = \"lookup\"\ndrafter = \"ngram:2\"\n\
             [[methods]]\nname = \"Medusa\"\nconfig = {:?}\ntree = \"chain:2\"\n{more}",
            backbone(),
            job.path("data"),
            job.path("prompts.jsonl"),
            job.path("runs"),
            job.path("train.toml")
        ),
    );
    job.text("compare.toml")
}

#[test]
fn methods_are_fitted_measured_and_gone_on_with() {
    let job = Job::new();
    job.distill(&[]);
    let config =
        config(&job, "[[methods]]\nname = \"Jacobi\"\ndrafter = \"jacobi:4\"\ntree = [\"chain:4\", \"chain:2\"]\n");
    let document = json(&finished(&["compare", "-c", &config, "--json"], &[]));
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 11, "{document}");
    let jacobi = results.iter().find(|result| result["method"] == "Jacobi").unwrap();
    assert_eq!((&jacobi["tree"], &jacobi["parameters"]), (&"chain:4".into(), &0.into()), "{jacobi}");
    assert_eq!(jacobi["summary"]["same_text"], jacobi["summary"]["pairs"]);
    let trees: Vec<_> = results.iter().filter(|result| result["method"] == "Jacobi").map(|r| &r["tree"]).collect();
    assert_eq!(trees, ["chain:4", "chain:4", "chain:2", "chain:2"]);
    let medusa: Vec<_> = results.iter().filter(|result| result["method"] == "Medusa").collect();
    assert_eq!((&medusa[0]["tree"], &medusa[0]["temperature"]), (&"chain:2".into(), &0.0.into()));
    assert_eq!((&medusa[1]["tree"], &medusa[1]["temperature"]), (&"chain:2".into(), &0.7.into()));
    assert_eq!(medusa[0]["tokens_per_step"].as_array().unwrap().len(), 2);
    assert!(medusa[0]["half_width"].is_number() && medusa[0]["parameters"].as_u64().unwrap() > 0);
    assert_eq!((&medusa[3]["conversations"], &medusa[4]["conversations"]), (&2.into(), &3.into()));
    assert!(medusa.iter().all(|result| result["summary"]["same_text"] == result["summary"]["pairs"]), "{document}");
    let run = document["run"].as_str().unwrap();
    for name in [
        "config.toml",
        "results.json",
        "table.md",
        "plots/acceptance.svg",
        "plots/speed.svg",
        "plots/learning_curve.svg",
    ] {
        assert!(std::path::Path::new(run).join(name).is_file(), "{name}");
    }
    // Everything is there: going on measures nothing anew.
    let again = json(&finished(&["compare", "-c", &config, "--json", "--resume", run], &[]));
    assert_eq!(again["results"], document["results"]);
    // Weights that are not as they were written are published again from their checkpoint.
    let heads = std::path::Path::new(run).join("medusa-seed1-rateown/medusa-model-1/heads/model.safetensors");
    let whole = std::fs::read(&heads).unwrap();
    for damage in [[&whole[..whole.len() - 1], b"x"].concat(), whole[..whole.len() / 2].to_vec(), vec![]] {
        std::fs::write(&heads, damage).unwrap();
        let output = finished(&["compare", "-c", &config, "--resume", run], &[]);
        assert!(stderr(&output).contains("not as they were written"), "{}", stderr(&output));
        assert!(std::fs::read(&heads).unwrap() == whole);
    }
}

#[test]
fn missing_trajectories_of_a_method_are_written() {
    let job = Job::new();
    job.distill(&[]);
    let cllm = format!(
        "[[methods]]\nname = \"CLLM\"\nconfig = {:?}\noverrides = ['method=\"cllm\"', \"cllm.lora.rank=4\"]\n\
         model = \"{{run}}/merged\"\ndrafter = \"jacobi:4\"\n",
        job.path("train.toml")
    );
    let config = config(&job, &cllm);
    let file = job.path("data/trajectories-00000.parquet");
    let short = ["compare", "-c", &config, "seeds=[1]", "learning_curve=[]", "temperatures=[0.0]", "--json"];
    assert!(!file.exists());
    let document = json(&finished(&short, &[]));
    let cllm = document["results"].as_array().unwrap().iter().find(|result| result["method"] == "CLLM").unwrap();
    assert_eq!(cllm["summary"]["same_text"], cllm["summary"]["pairs"], "{cllm}");
    let written = std::fs::read(&file).unwrap();
    // Existing trajectories are kept, also with another block length.
    finished(&["dev", "trajectories", &job.text("data"), "--model", backbone().to_str().unwrap(), "--block", "4"], &[]);
    let others = std::fs::read(&file).unwrap();
    assert!(others != written);
    finished(&short, &[]);
    assert!(std::fs::read(&file).unwrap() == others);
}

/// Also its trajectories are those of its own data.
#[test]
fn a_method_is_fitted_to_data_of_its_own() {
    let (job, answers) = (Job::new(), Job::new());
    job.distill(&[]);
    answers.distill(&["synthetic.seed=10"]);
    let other = format!(
        "[[methods]]\nname = \"other\"\nconfig = {:?}\ndata = {:?}\nmodel = \"{{run}}/merged\"\n\
         overrides = ['method=\"cllm\"', \"cllm.lora.rank=4\"]\ndrafter = \"jacobi:4\"\n",
        job.path("train.toml"),
        answers.path("data")
    );
    let config = config(&job, &other);
    let short = ["compare", "-c", &config, "seeds=[1]", "learning_curve=[]", "temperatures=[0.0]", "--json"];
    let run = json(&finished(&short, &[]))["run"].as_str().unwrap().to_owned();
    for (name, owner) in [("medusa-seed1-rateown/medusa", &job), ("other-seed1-rateown/cllm", &answers)] {
        let file = format!("{run}/{name}-model-1/config.toml");
        let written: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
        assert_eq!(written["data"].as_str(), owner.path("data").to_str());
    }
    let has = |job: &Job| job.path("data/trajectories-00000.parquet").is_file();
    assert!(has(&answers) && !has(&job));
    finished(&[&short[..], &["--resume", &run]].concat(), &[]);
}

/// The dry run decides the steps once; a resumed comparison keeps them.
#[test]
fn trainings_take_as_many_steps_as_fit_in_the_seconds() {
    let job = Job::new();
    job.distill(&[]);
    let config = config(&job, "");
    let short = ["compare", "-c", &config, "seeds=[1]", "learning_curve=[]", "temperatures=[0.0]", "--json"];
    let run =
        json(&finished(&[&short[..], &["training_seconds=0.05"]].concat(), &[]))["run"].as_str().unwrap().to_owned();
    let folder = std::path::Path::new(&run).join("medusa-seed1-rateown");
    let text = std::fs::read_to_string(folder.join("steps.json")).unwrap();
    let steps = serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert_eq!(steps["within_seconds"], 0.05);
    let written: toml::Table =
        std::fs::read_to_string(folder.join("medusa-model-1/config.toml")).unwrap().parse().unwrap();
    assert_eq!(written["training"]["steps"].as_integer().map(|steps| steps as u64), steps["steps"].as_u64());
    finished(&[&short[..], &["training_seconds=0.05", "--resume", &run]].concat(), &[]);
    assert_eq!(std::fs::read_to_string(folder.join("steps.json")).unwrap(), text);
}

#[test]
fn wrong_comparisons_are_refused_and_leave_nothing() {
    let job = Job::new();
    let path = config(&job, "");
    refused(&["compare", "-c", &path, "model=/nowhere"], &["/nowhere"]);
    refused(&["compare", "-c", &path, "bench_prompts=4"], &["6 conversations, 7 are needed"]);
    refused(&["compare", "-c", &path], &["no shards"]);
    refused(&["compare", "-c", &path, "seeds=[]"], &["seeds"]);
    refused(&["compare", "-c", &path, "training_seconds=0"], &["training_seconds"]);
    refused(&["compare", "-c", &path, "temperatures=[-1]"], &["temperatures"]);
    refused(&["compare", "-c", &path, "learning_curve=[0]"], &["learning_curve"]);
    refused(&["compare", "-c", &path, "typo=1"], &["typo"]);
    let twice = config(&job, "[[methods]]\nname = \"medusa\"\ndrafter = \"ngram:1\"\n");
    refused(&["compare", "-c", &twice], &["two methods are called"]);
    let unread = config(&job, "[[methods]]\nname = \"Jacobi\"\ndrafter = \"jacobi:4\"\ndata = \"answers\"\n");
    refused(&["compare", "-c", &unread], &["methods[2].data", "answers"]);
    let trained = format!("[[methods]]\nname = \"other\"\nconfig = {:?}\n", job.path("train.toml"));
    let nowhere = config(&job, &format!("{trained}data = \"nowhere\"\n"));
    refused(&["compare", "-c", &nowhere], &["methods[2].data", "nowhere", "no shards"]);
    std::fs::create_dir_all(job.path("cut")).unwrap();
    job.write("cut/shard-00000.parquet", "");
    let cut = format!("data={}", job.text("cut"));
    refused(&["compare", "-c", &config(&job, ""), &cut], &["shard-00000.parquet"]);
    assert!(!job.path("runs").exists());
    job.write("broken.pt", "no pickle");
    let out = job.text("converted");
    refused(&["export", &job.text("broken.pt"), "--to", "safetensors", &out], &["broken.pt"]);
    assert!(!job.path("converted").exists());
}
