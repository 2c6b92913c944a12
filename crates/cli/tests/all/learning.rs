//! `chat --learn` and `serve --learn`: the text stays, corrections become training data, what drafts is fitted to them,
//! and a running program takes the newer weights up.

mod published;
mod rollback;

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused};
use gorgon_data::shard;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

fn draft(job: &Job) -> String {
    let keys = ["method=\"layerskip\"", "layerskip.exit_layer=1", "training.learning_rate=3e-2", "training.steps=6"];
    finished(&[&["train", "-c", &job.text("train.toml")][..], &keys].concat(), &[]);
    job.run().unwrap().join("model").to_str().unwrap().to_owned()
}

#[test]
fn corrections_are_logged_and_learnt() {
    let job = Job::new();
    job.distill(&[]);
    let (draft, log, model) = (draft(&job), job.text("log"), backbone().to_str().unwrap());
    let drafter = format!("model:{draft}");
    let chat = |prompt: &str, more: &[&str]| {
        let base = ["chat", "--model", model, "-p", prompt, "--max-new-tokens", "32", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))["turns"][0]["ids"].clone()
    };
    let prompts = ["What is 3 + 4?", "Sort these numbers: 5, 2, 9.", "Tell me a story.", "Who are you?", "Count to 9."];
    let files = || job.dir.path().read_dir().unwrap().count();
    let (before, _) = (files(), chat(prompts[0], &["--drafter", &drafter]));
    assert_eq!(files(), before, "nothing is written without --learn");
    for prompt in prompts {
        assert_eq!(chat(prompt, &["--drafter", &drafter, "--learn", &log]), chat(prompt, &["--drafter", "none"]));
    }
    let files = shard::files(&job.path("log")).unwrap();
    let (mut labels, mut answers) = (0, 0);
    for row in files.iter().flat_map(|file| shard::read(file, 10_000).unwrap().0) {
        labels += (0..row.example.ids.len()).filter(|&at| row.example.is_label(at)).count();
        answers += row.example.labels();
    }
    assert!(labels > 0 && labels < answers, "{labels} {answers}");
    let config = format!(
        "method = \"distill-spec\"\nmodel = {model:?}\ndata = {log:?}\nruns = {:?}\neval_data = {log:?}\nheld_out = 0.0\nseed = 1\n\
         labels = \"corrected\"\nkeep_start = true\neval_decoded_prompts = 0\n\
         [distill_spec]\ndraft = {draft:?}\nanswers = \"data\"\n\
         [training]\nsteps = 6\neval_every = 3\nlearning_rate = 1e-3\n",
        job.path("learnt")
    );
    job.write("learn.toml", &config);
    finished(&["train", "-c", &job.text("learn.toml")], &[]);
    let run = std::fs::read_dir(job.path("learnt")).unwrap().next().unwrap().unwrap().path();
    let learnt = format!("model:{}", run.join("model").display());
    assert_eq!(chat(prompts[0], &["--drafter", &learnt]), chat(prompts[0], &["--drafter", "none"]));
    let refuse = |drafter: &str, learn: &str, words: &[&str]| {
        refused(&["chat", "--model", model, "-p", "x", "--drafter", drafter, "--learn", learn], words);
    };
    refuse("ngram:2", &log, &["--learn", "draft heads and draft models only"]);
    refuse(&drafter, &job.text("data"), &["distilled data set"]);
    refuse(&drafter, &job.text("train.toml"), &["train.toml"]);
}

/// A model whose answers are worth drafting.
fn tiny() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny").to_str().unwrap().to_owned()
}

/// A server that learns until it is dropped.
struct Learner {
    process: Child,
    lines: BufReader<ChildStderr>,
    address: String,
}

impl Learner {
    fn start(model: &str, drafter: [&str; 2], log: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_gorgon"))
            .args(["serve", "--model", model, "--port", "0", "--batch", "1", "--tree", "chain:2"])
            .args(drafter)
            .args(["--learn", log])
            .env_remove("GORGON_API_KEY")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap());
        let mut learner = Self { process, lines, address: String::new() };
        let line = learner.waits_for(" is served at http://");
        learner.address = line.split_once("http://").unwrap().1.split(' ').next().unwrap().to_owned();
        learner
    }

    /// The next line with these words.
    fn waits_for(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        line
    }

    fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        reply.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The greedy answer to a question.
    fn answer(&self, question: &str) -> String {
        self.reply(question)["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    /// The greedy answers to all questions, and how many tokens were drafted for them and accepted.
    fn answers(&self) -> (Vec<String>, [u64; 2]) {
        let (mut answers, mut counts) = (vec![], [0, 0]);
        for question in questions() {
            let reply = self.reply(&question);
            answers.push(reply["choices"][0]["message"]["content"].as_str().unwrap().to_owned());
            let count = |name: &str| reply["timings"][name].as_u64().unwrap();
            counts = [counts[0] + count("draft_n"), counts[1] + count("draft_n_accepted")];
        }
        (answers, counts)
    }

    fn reply(&self, question: &str) -> Value {
        let body = serde_json::json!({
            "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 24,
        });
        let (body, host) = (body.to_string(), &self.address);
        let reply = self.exchange(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        serde_json::from_str(&reply).unwrap()
    }

    fn renewals(&self) -> u64 {
        let host = &self.address;
        let metrics = self.exchange(&format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        let value = metrics.lines().find_map(|line| line.strip_prefix("gorgon_drafter_renewals_total "));
        value.unwrap().parse().unwrap()
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn questions() -> Vec<String> {
    (0..26).map(|i| format!("What is {} + {}?", i, 2 * i + 1)).collect()
}

/// Heads that were hardly fitted, in a folder of their own.
fn heads(job: &Job) -> String {
    let model = format!("model={:?}", tiny());
    job.distill(&[&model]);
    job.train(&[&model, "training.steps=1", "training.learning_rate=1e-6"]);
    copied(job, &job.run().unwrap().join("heads"), "live")
}

/// A folder's files in a folder of their own.
fn copied(job: &Job, from: &Path, name: &str) -> String {
    let live = job.path(name);
    std::fs::create_dir(&live).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), live.join(entry.file_name())).unwrap();
    }
    live.to_str().unwrap().to_owned()
}

/// Trains the heads of a folder on the log, in place. Returns what was said.
fn learn(job: &Job, live: &str, keys: &[&str]) -> String {
    let config = format!(
        "method = \"medusa\"\nmodel = {:?}\ndata = {:?}\nruns = {:?}\ninit_from = {live:?}\nheld_out = 0.3\nseed = 2\n\
         keep_start = true\npublish = true\neval_decoded_prompts = 2\n\
         [training]\nsteps = 60\nmicro_batch_tokens = 256\neval_every = 20\nlearning_rate = 1e-2\n",
        tiny(),
        job.path("log"),
        job.path("learnt")
    );
    job.write("learn.toml", &config);
    let path = job.text("learn.toml");
    let args = [&["train", "-c", &path, "--no-progress"][..], keys].concat();
    String::from_utf8(finished(&args, &[]).stderr).unwrap()
}

/// A server logs corrections, a training publishes better heads, and the server takes them up: the text stays. Worse and
/// damaged ones are left alone.
#[test]
fn a_server_takes_learnt_heads_up() {
    let job = Job::new();
    let live = heads(&job);
    let weights = Path::new(&live).join("model.safetensors");
    let mut server = Learner::start(&tiny(), ["--heads", &live], &job.text("log"));
    let before: Vec<String> = questions().iter().map(|question| server.answer(question)).collect();
    assert_eq!(server.renewals(), 0);
    let start = std::fs::read(&weights).unwrap();
    let said = learn(&job, &live, &[]);
    assert!(said.contains("published: "), "{said}");
    let learnt = std::fs::read(&weights).unwrap();
    assert!(learnt != start);
    let previous = Path::new(&live).join("previous.safetensors");
    assert!(std::fs::read(&previous).unwrap() == start);
    server.waits_for("newer weights of the drafter");
    let after: Vec<String> = questions().iter().map(|question| server.answer(question)).collect();
    assert_eq!(after, before);
    assert_eq!(server.renewals(), 1);
    let said = learn(&job, &live, &["training.learning_rate=100.0", "training.steps=4"]);
    assert!(said.contains("stays as it is"), "{said}");
    assert!(std::fs::read(&weights).unwrap() == learnt);
    assert!(std::fs::read(&previous).unwrap() == start);
    replace(&weights, &learnt[..learnt.len() / 2]);
    server.waits_for("newer weights of the drafter are not used");
    assert_eq!(server.answer(&questions()[0]), before[0]);
    assert_eq!(server.renewals(), 1);
}

/// A file in the place of another one.
fn replace(path: &Path, bytes: &[u8]) {
    let other = path.with_extension("new");
    std::fs::write(&other, bytes).unwrap();
    std::fs::rename(&other, path).unwrap();
}

/// A server takes newer weights up, and leaves damaged ones alone. Returns tokens that it drafted and accepted with the
/// newer ones.
fn takes_up(drafter: [&str; 2], weights: &Path, newer: &[u8], log: &str) -> [u64; 2] {
    let mut server = Learner::start(backbone().to_str().unwrap(), drafter, log);
    let (before, drafted) = server.answers();
    assert!(drafted[0] > 0, "{drafter:?}");
    replace(weights, newer);
    server.waits_for("newer weights of the drafter, for answers that begin from now on");
    let (after, counts) = server.answers();
    assert_eq!((after, server.renewals()), (before.clone(), 1), "{drafter:?}");
    replace(weights, &newer[..newer.len() / 2]);
    server.waits_for("newer weights of the drafter are not used");
    assert_eq!((server.answer(&questions()[0]), server.renewals()), (before[0].clone(), 1), "{drafter:?}");
    if drafter[0] == "--drafter" {
        // Another model with the same tensors, two of whose tokens have each other's id.
        let tokenizer = weights.with_file_name("tokenizer.json");
        let mut document: Value = serde_json::from_slice(&std::fs::read(&tokenizer).unwrap()).unwrap();
        for id in document["model"]["vocab"].as_object_mut().unwrap().values_mut() {
            *id = match id.as_u64() {
                Some(300) => 301.into(),
                Some(301) => 300.into(),
                _ => continue,
            };
        }
        replace(&tokenizer, document.to_string().as_bytes());
        replace(weights, newer);
        server.waits_for("have different tokenizers: token 300");
        assert_eq!((server.answer(&questions()[0]), server.renewals()), (before[0].clone(), 1), "{drafter:?}");
    }
    counts
}

/// Heads of other kinds, and a draft model, are taken up as Medusa heads are.
#[test]
fn a_server_takes_newer_weights_of_every_kind_up() {
    let job = Job::new();
    job.distill(&[]);
    let config = job.text("train.toml");
    let kinds: [(&str, &[&str]); 5] = [
        ("hydra", &[]),
        ("eagle", &[]),
        ("eagle3", &["eagle3.steps=3", "eagle3.aux_hidden_state_layers=[0, 1, 2]", "eagle3.draft_vocab=200"]),
        ("mtp", &[]),
        ("block", &["block.layers=1", "block.block_size=4"]),
    ];
    for (method, keys) in kinds {
        let heads = |name: &str, steps: &str| {
            let (named, runs) = (format!("method={method:?}"), job.path(&format!("{method}-{name}")));
            let runs = format!("runs={:?}", runs.to_str().unwrap());
            finished(&[&["train", "-c", &config, "--no-progress", &named, &runs, steps][..], keys].concat(), &[]);
            let run = std::fs::read_dir(job.path(&format!("{method}-{name}"))).unwrap().next().unwrap().unwrap();
            run.path().join("heads")
        };
        let (one, two) = (heads("one", "training.steps=2"), heads("two", "training.steps=8"));
        let live = copied(&job, &one, &format!("{method}-live"));
        let newer = std::fs::read(two.join("model.safetensors")).unwrap();
        let log = job.text(&format!("{method}-log"));
        takes_up(["--heads", &live], &Path::new(&live).join("model.safetensors"), &newer, &log);
    }
    let live = copied(&job, Path::new(&draft(&job)), "draft-live");
    let newer = std::fs::read(backbone().join("model.safetensors")).unwrap();
    let (drafter, weights) = (format!("model:{live}"), Path::new(&live).join("model.safetensors"));
    let [drafted, accepted] = takes_up(["--drafter", &drafter], &weights, &newer, &job.text("draft-log"));
    // The newer draft model is the model itself.
    assert!(drafted > 0 && 10 * accepted >= 9 * drafted, "{accepted} of {drafted}");
}

/// A chat takes newer heads up between two answers.
#[test]
fn a_chat_takes_newer_heads_up() {
    let job = Job::new();
    let live = heads(&job);
    let weights = Path::new(&live).join("model.safetensors");
    let (model, log) = (&tiny(), job.text("log"));
    let mut chat = Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args([
            "chat",
            "--model",
            model,
            "--heads",
            &live,
            "--learn",
            &log,
            "--tree",
            "chain:2",
            "--max-new-tokens",
            "8",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = chat.stdin.take().unwrap();
    writeln!(input, "Who are you?").unwrap();
    // An answer follows once it has begun.
    let mut first = [0; 1];
    chat.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    job.train(&[&format!("model={model:?}"), "training.steps=3"]);
    replace(&weights, &std::fs::read(job.run().unwrap().join("heads/model.safetensors")).unwrap());
    writeln!(input, "Count to 9.").unwrap();
    drop(input);
    let output = chat.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("newer weights of the drafter from now on"), "{said}");
    assert!(!shard::files(&job.path("log")).unwrap().is_empty());
}

/// Heads of every kind draft in a chat that learns, and go on from where they are on its log.
#[test]
fn heads_of_every_kind_learn() {
    let job = Job::new();
    job.distill(&[]);
    let (model, config) = (backbone().to_str().unwrap(), job.text("train.toml"));
    for method in ["eagle", "eagle3", "hydra", "mtp", "block", "kangaroo", "ppd", "pass", "space"] {
        let (named, runs) = (format!("method={method:?}"), format!("runs={:?}", job.path(method)));
        let train = |keys: &[&str]| {
            let args =
                [&["train", "-c", &config, "--no-progress", &named, &runs, "training.steps=2"][..], keys].concat();
            String::from_utf8(finished(&args, &[]).stderr).unwrap()
        };
        train(&["kangaroo.exit_layer=1"][..usize::from(method == "kangaroo")]);
        let run = std::fs::read_dir(job.path(method)).unwrap().next().unwrap().unwrap().path();
        let log = job.text(&format!("{method}-log"));
        let live = copied(&job, &run.join("heads"), &format!("{method}-live"));
        let chat = |more: &[&str]| {
            let base = ["chat", "--model", model, "-p", "Who are you?", "--max-new-tokens", "16", "--json"];
            json(&finished(&[&base[..], more].concat(), &[]))["turns"][0]["ids"].clone()
        };
        assert_eq!(chat(&["--heads", &live, "--learn", &log]), chat(&["--drafter", "none"]), "{method}");
        let keys = [format!("data={log:?}"), format!("eval_data={log:?}"), format!("init_from={live:?}")];
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.extend(["held_out=0.0", "keep_start=true", "publish=true"]);
        keys.extend((method == "kangaroo").then_some("kangaroo.exit_layer=1"));
        let said = train(&keys);
        assert!(said.contains("published: ") || said.contains("stays as it is"), "{method}: {said}");
    }
}

#[test]
fn what_cannot_be_learnt_is_named() {
    let job = Job::new();
    let live = heads(&job);
    let run = job.run().unwrap();
    let (config, model) = (job.text("train.toml"), tiny());
    let on_tiny = format!("model={model:?}");
    let refuse = |keys: &[&str], words: &[&str]| {
        refused(&[&["train", "-c", &config, &on_tiny][..], keys].concat(), words);
    };
    refuse(&["keep_start=true"], &["keep_start", "init_from"]);
    let from = format!("init_from={live:?}");
    refuse(&["publish=true", &from], &["publish", "keep_start"]);
    refuse(&["labels=\"corrected\""], &["row 0 tells no corrected tokens"]);
    refuse(&["keep_start=true", &from, "held_out=0.0"], &["keep_start", "no held-out position"]);
    let from = format!("init_from={:?}", run.join("heads"));
    refuse(&["keep_start=true", "publish=true", &from], &["publish", "belongs to a run"]);
    refuse(&["method=\"block\"", "labels=\"corrected\""], &["labels", "block"]);
    let model = backbone().to_str().unwrap();
    refused(
        &["chat", "--model", model, "-p", "x", "--heads", &live, "--learn", &job.text("log"), "--learn-mb", "0"],
        &["--learn-mb"],
    );
}
