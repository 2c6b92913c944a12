//! Jobs of the stages beside distillation and training, each of a moment, and what comes of them.

use super::{Job, backbone, last_run};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The bytes of a file.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A pretraining that takes a moment, tokenizer and all.
pub fn pretraining() -> Job {
    let job = Job::new();
    let text = format!(
        "seed = 3\nout = {:?}\nruns = {:?}\n[data]\nsynthetic = 60\nheld_out = 4\nprompt_weight = 0.1\n\
         [tokenizer]\nsize = 400\nconversations = 60\n[model]\nhidden_size = 16\nintermediate_size = 24\nlayers = 1\n\
         heads = 2\nkv_heads = 1\nmax_positions = 256\n[training]\nsteps = 8\nmicro_batch_tokens = 256\nlog_every = 1\n\
         eval_every = 4\nsave_every = 2\nsave_total_limit = 2\noptimizer = \"muon\"\n[finish]\nsynthetic = 12\n\
         kinds = [\"sum\"]\nshare = 0.5\nlearning_rate = 1e-3\nmicro_batch_tokens = 128\n",
        job.path("model"),
        job.path("runs")
    );
    job.write("pretrain.toml", &text);
    job
}

/// The folder of a run's last checkpoint.
pub fn last_step(run: &Path) -> PathBuf {
    let inside = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let steps = inside.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-")));
    steps.max().unwrap()
}

/// The finished model, and the last checkpoint, of a job in this folder.
pub fn pretrained(folder: &Path) -> Vec<Vec<u8>> {
    let run = last_step(&last_run(folder).unwrap());
    let names = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"];
    let of_model = names.iter().map(|name| read(&folder.join("model").join(name)));
    of_model.chain(["model.safetensors", "optimizer.safetensors"].iter().map(|name| read(&run.join(name)))).collect()
}

/// The config of a comparison that takes a moment, of the model and the shards of a job.
pub fn comparison(job: &Job) {
    let prompts: String = (0..4).map(|i| format!("{{\"prompt\": \"What is {i} + 4?\"}}\n")).collect();
    job.write("prompts.jsonl", &prompts);
    let text = format!(
        "model = {:?}\ndata = {:?}\nprompts = {:?}\nruns = {:?}\ncalibration_prompts = 2\nbench_prompts = 2\n\
         max_new_tokens = 8\nrounds = 1\nseeds = [1]\n[budget]\nsteps = 3\neval_every = 3\n\
         [[methods]]\nname = \"lookup\"\ndrafter = \"ngram:2\"\n\
         [[methods]]\nname = \"Medusa\"\nconfig = {:?}\ntree = \"chain:2\"\n",
        backbone(),
        job.path("data"),
        job.path("prompts.jsonl"),
        job.path("runs"),
        job.path("train.toml")
    );
    job.write("compare.toml", &text);
}

/// Results that do not depend on the clock: weights, and the acceptance under given trees.
pub fn compared(folder: &Path) -> (Vec<u8>, Vec<Value>) {
    let run: PathBuf = last_run(folder).unwrap();
    let heads = run.join("medusa-seed1-rateown/medusa-model-1/heads/model.safetensors");
    let document: Value = serde_json::from_slice(&read(&run.join("results.json"))).unwrap();
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{document}");
    let kept = |result: &Value| {
        let summary = &result["summary"];
        serde_json::json!([
            result["method"],
            result["tree"],
            result["tokens_per_step"],
            summary["same_text"],
            summary["pairs"]
        ])
    };
    (read(&heads), results[..2].iter().map(kept).collect())
}
