//! Every drafter with every kind of tree and every rule that claims to be lossless: greedy text is plain text, and
//! sampled text follows the model's own distribution.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{gorgon, json, stderr, stdout};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::{LlamaShape, T5Shape};
use serde_json::Value;
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Trainings: a name, the keys that make it, and whether the run's own model is decoded.
const METHODS: &[(&str, &[&str], bool)] = &[
    ("medusa", &["method=\"medusa\""], false),
    ("medusa-2", &["method=\"medusa-2\"", "medusa2.lora.rank=4"], true),
    ("hydra", &["method=\"hydra\""], false),
    ("hydra-plus", &["method=\"hydra\"", "hydra.prefix_attention=true", "hydra.soft_targets=true"], false),
    ("eagle", &["method=\"eagle\""], false),
    (
        "eagle3",
        &["method=\"eagle3\"", "eagle3.steps=3", "eagle3.aux_hidden_state_layers=[0, 1, 2]", "eagle3.draft_vocab=200"],
        false,
    ),
    ("mtp", &["method=\"mtp\""], false),
    ("kangaroo", &["method=\"kangaroo\"", "kangaroo.exit_layer=1", "kangaroo.stop=0.1"], false),
    ("block", &["method=\"block\"", "block.layers=2", "block.block_size=4", "block.mask_token=5"], false),
    ("ppd", &["method=\"ppd\"", "ppd.ensemble=2"], false),
    ("pass", &["method=\"pass\"", "pass.look_ahead=2"], false),
    ("pass-2", &["method=\"pass\"", "pass.look_ahead=2", "pass.two_pass=true"], false),
    ("space", &["method=\"space\"", "space.masks=2"], false),
    ("space-sft", &["method=\"space-sft\"", "space_sft.masks=2", "space_sft.weights=\"full\""], true),
    (
        "block-2",
        &["method=\"block\"", "block.layers=1", "block.block_size=4", "block.conv=true", "block.selector.k=4"],
        false,
    ),
];

const LAYERSKIP: &[&str] = &["method=\"layerskip\"", "layerskip.exit_layer=1", "layerskip.weights=\"lora\""];

const TREES: &[&str] = &["chain:2", "mc_sim_7b_63", "dynamic:12,2,4", "trellis:16"];

/// Heads that are decoded behind a drafter that goes by matches too, and their tree there.
const HANDED: &[(&str, &str)] = &[
    ("hydra", "mc_sim_7b_63"),
    ("mtp", "dynamic:12,2,4"),
    ("block", "trellis:16"),
    ("ppd", "mc_sim_7b_63"),
    ("pass", "mc_sim_7b_63"),
    ("space", "mc_sim_7b_63"),
];

/// A budget within which drafters make trees of their own.
const BUDGET: &[&str] = &["own:16,6"];

struct Bench {
    job: Job,
    prompts: String,
    /// New tokens at most.
    tokens: Cell<&'static str>,
}

impl Bench {
    fn new() -> Self {
        let bench = Self::without_data();
        bench.job.distill(&[]);
        bench
    }

    fn without_data() -> Self {
        let job = Job::new();
        let prompts = ["What is 3 + 4?", "Sort these numbers: 5, 2, 9.", "Tell me a story about a fox."];
        job.write("prompts.jsonl", &prompts.map(|p| format!("{{\"prompt\": {p:?}}}\n")).concat());
        let prompts = job.text("prompts.jsonl");
        Self { job, prompts, tokens: Cell::new("16") }
    }

    /// Trains for a few steps and returns the run folder.
    fn train(&self, name: &str, keys: &[&str]) -> PathBuf {
        let (config, runs) = (self.job.text("train.toml"), self.job.path(name));
        let runs = format!("runs={:?}", runs.to_str().unwrap());
        let few = ["training.steps=4", "training.eval_every=4", "eval_decoded_prompts=2", "eval_decoded_tokens=8"];
        finished(&[&["train", "-c", &config, &runs][..], keys, &few].concat(), &[]);
        let mut inside = std::fs::read_dir(self.job.path(name)).unwrap().map(|entry| entry.unwrap().path());
        inside.next().unwrap()
    }

    /// A store of a model's own answers to the prompts: nothing else says what a model with random weights says.
    fn store_of(&self, model: &str) -> String {
        let (store, answers) = (self.job.text("answers.store"), self.job.text("answers"));
        let config = format!(
            "model = {model:?}\nout = {answers:?}\nprompts = [{:?}]\n[sampling]\ntemperature = 0.0\n\
             max_new_tokens = 24\n",
            self.prompts
        );
        self.job.write("answers.toml", &config);
        finished(&["distill", "-c", &self.job.text("answers.toml")], &[]);
        finished(&["store", "build", &answers, "--model", model, &store], &[]);
        store
    }

    /// Greedy text with every tree and rule, and the distribution of sampled text with one tree. Without a draft that
    /// was accepted in any of them, they would show nothing.
    fn check(&self, model: &str, trees: &[&str], drafts: &[&str]) {
        assert!(self.accepted(model, trees, drafts) > 0, "{drafts:?}: no draft was accepted in any text of {model}");
    }

    /// As [`Self::check`]. Returns the number of accepted drafts, which may be 0.
    fn accepted(&self, model: &str, trees: &[&str], drafts: &[&str]) -> u64 {
        let texts = trees.iter().map(|tree| self.texts(model, tree, drafts));
        let mut accepted: u64 = texts.sum();
        let all = [
            ("chain:2", "sampling"),
            ("dynamic:6,1,3", "sampling"),
            ("mc_sim_7b_63", "coupled"),
            ("chain:2", "block"),
            ("mc_sim_7b_63", "traversal"),
            ("chain:2", "k-seq"),
        ];
        let own = [(trees[0], "sampling"), (trees[0], "coupled"), (trees[0], "traversal")];
        for &(tree, rule) in if trees == TREES { &all[..] } else { &own[..] } {
            let sampling = ["--temperature", "0.8", "--samples", "30", "--limit", "1"];
            let found = self.verify(model, drafts, &[&["--tree", tree, "--accept", rule][..], &sampling].concat());
            assert_eq!(
                (&found["passes"], &found["lossless"]),
                (&true.into(), &true.into()),
                "{drafts:?} {tree} {rule}: {found}"
            );
            accepted += found["accepted"].as_u64().unwrap();
        }
        accepted
    }

    /// Greedy and coupled text in one tree.
    fn texts(&self, model: &str, tree: &str, drafts: &[&str]) -> u64 {
        let is_plain = |more: &[&str]| {
            let found = self.verify(model, drafts, &[&["--tree", tree][..], more].concat());
            assert_eq!((&found["diverged"], &found["prompts"]), (&0.into(), &3.into()), "{drafts:?} {tree} {more:?}");
            found["accepted_drafts"].as_u64().unwrap()
        };
        let rules = ["greedy", "coupled", "sampling", "block", "traversal", "k-seq"];
        let greedy = rules.map(|rule| is_plain(&["--accept", rule, "--ignore-eos"]));
        // Coupled text is plain text at any temperature.
        let coupled = ["0.4", "1"].map(|temperature| is_plain(&["--temperature", temperature]));
        greedy.iter().chain(&coupled).sum()
    }

    /// The exit code says too whether any draft was accepted, which in a single case is left to chance.
    fn verify(&self, model: &str, drafts: &[&str], more: &[&str]) -> Value {
        let base =
            ["verify", "--model", model, "--prompts", &self.prompts, "--json", "--max-new-tokens", self.tokens.get()];
        let output = gorgon(&[&base[..], drafts, more].concat());
        let done = output.status.code().is_some_and(|code| code < 2);
        assert!(done, "{drafts:?} {more:?}: {} {}", stdout(&output), stderr(&output));
        json(&output)
    }
}

#[test]
fn text_that_heads_draft_is_the_models_own() {
    let bench = Bench::new();
    let model = backbone().to_str().unwrap();
    for (name, keys, own_model) in METHODS {
        eprintln!("{name}");
        let run = bench.train(name, keys);
        let merged = run.join("merged");
        let model = if *own_model { merged.to_str().unwrap() } else { model };
        bench.check(model, TREES, &["--heads", run.to_str().unwrap()]);
        if *name == "eagle" {
            let pair = ["--heads", run.to_str().unwrap(), "--drafter", "suffix,below=2,else=auto"];
            bench.check(model, &["dynamic:12,2,4"], &pair);
        }
        if let Some(&(_, tree)) = HANDED.iter().find(|(handed, _)| handed == name) {
            let pair = ["--heads", run.to_str().unwrap(), "--drafter", "suffix,else=auto"];
            bench.check(model, &[tree], &pair);
        }
    }
}

/// Models that were fitted as a whole, and drafts without training.
#[test]
fn text_of_drafters_without_heads_is_the_models_own() {
    let (bench, model) = (Bench::new(), backbone().to_str().unwrap());
    // A fitted model, with the drafter that it was fitted for.
    finished(&["dev", "trajectories", &bench.job.text("data"), "--model", model, "--block", "4"], &[]);
    let run = bench.train("cllm", &["method=\"cllm\"", "cllm.lora.rank=4"]);
    bench.check(run.join("merged").to_str().unwrap(), &["chain:4"], &["--drafter", "jacobi:4"]);
    // The fitted model drafts with its own layers.
    let run = bench.train("layerskip", LAYERSKIP);
    bench.check(run.join("model").to_str().unwrap(), TREES, &["--drafter", "early-exit:1"]);
    // A model can draft for itself, and a text for its own continuation.
    bench.check(model, TREES, &["--drafter", &format!("model:{model}")]);
    bench.check(model, &["chain:2"], &["--drafter", &format!("suffix,else=model:{model}")]);
    let (sublayers, swift) = (bench.job.path("sublayers.json"), bench.job.text("swift.json"));
    std::fs::write(&sublayers, r#"{"attention": [1], "mlp": [0]}"#).unwrap();
    let skip = format!("skip:{}", sublayers.display());
    for drafter in
        ["suffix", "suffix,else=jacobi:3", "ngram:2", "jacobi:5", "early-exit:1", &skip, "recycle", "partial:16,4"]
    {
        bench.check(model, TREES, &["--drafter", drafter]);
    }
    for drafter in ["suffix", "suffix,else=recycle", "ngram:2", "recycle"] {
        bench.check(model, BUDGET, &["--drafter", drafter]);
    }
    bench.check(model, &["trellis:4,1"], &["--drafter", "pipelined:1,3"]);
    // Of a model with two layers no sub-layer may be left out by a search.
    let deeper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny");
    // The search begins once 33 tokens of an answer are out.
    bench.tokens.set("48");
    bench.check(deeper.to_str().unwrap(), &["own:12,6", "chain:3"], &["--drafter", &format!("swift:50,state={swift}")]);
    bench.tokens.set("16");
    // A list that was searched for.
    let (model_of_six, searched) = (deeper.to_str().unwrap(), bench.job.text("searched.json"));
    let few = ["--limit", "1", "--max-new-tokens", "8", "--evaluations", "6"];
    let search = ["dev", "skip", "--model", model_of_six, "--prompts", &bench.prompts, "--out", &searched];
    finished(&[&search[..], &few].concat(), &[]);
    bench.accepted(model_of_six, &["chain:4"], &["--drafter", &format!("skip:{searched}")]);
    let store = bench.store_of(model);
    for drafter in [format!("suffix:{store}"), format!("rest:{store},else=ngram:2"), "suffix:live:1".into()] {
        bench.check(model, TREES, &["--drafter", &drafter]);
        bench.check(model, BUDGET, &["--drafter", &drafter]);
    }
    // Drafters that arrange their drafts themselves: the tree only bounds nodes and depth.
    // Which tree pays, or none, is measured, so it may draft nothing.
    bench.accepted(model, &["own:24,23"], &["--drafter", "auto"]);
    for drafter in ["lookahead:5,4,4", "lookahead:5,4,4,window"] {
        bench.check(model, &["own:40,20"], &["--drafter", drafter]);
    }
}

/// Drafts from a store of past answers, alone and in front of heads.
#[test]
fn text_that_is_looked_up_in_a_store_is_the_models_own() {
    let (bench, model) = (Bench::new(), backbone().to_str().unwrap());
    let store = bench.store_of(model);
    bench.check(model, &["own:16,6", "mc_sim_7b_63"], &["--drafter", &format!("rest:{store}")]);
    let run = bench.train("medusa", &["method=\"medusa\""]);
    let stored = format!("suffix:{store},else=auto");
    bench.check(model, &["mc_sim_7b_63"], &["--heads", run.to_str().unwrap(), "--drafter", &stored]);
}

const T5: T5Shape = T5Shape {
    hidden_size: 16,
    intermediate_size: 24,
    encoder_layers: 1,
    layers: 1,
    heads: 2,
    head_dim: 8,
    vocab_size: 300,
    gated: false,
};

/// Encoder-decoder models of both versions, with draft models of several shapes and drafters that look tokens up.
#[test]
fn drafted_text_of_an_encoder_decoder_model_is_its_own() {
    let (folder, bench) = (tempfile::tempdir().unwrap(), Bench::without_data());
    let targets = [
        T5Shape { hidden_size: 32, encoder_layers: 2, layers: 3, heads: 4, head_dim: 12, gated: true, ..T5 },
        T5Shape { hidden_size: 24, encoder_layers: 3, layers: 2, heads: 3, ..T5 },
    ];
    let write = |name: &str, shape: T5Shape| {
        let dir = folder.path().join(name);
        shape.write(&dir, 5).unwrap();
        dir.to_str().unwrap().to_owned()
    };
    let draft = write("draft", T5);
    // Answers of a random model need not have anything in common.
    let mut looked_up = 0;
    for (number, shape) in targets.into_iter().enumerate() {
        let model = write(&format!("target-{number}"), shape);
        for drafter in [format!("model:{model}"), format!("model:{draft}")] {
            bench.check(&model, TREES, &["--drafter", &drafter]);
        }
        for drafter in ["suffix", "ngram:2", "jacobi:5", "early-exit:1", "recycle"] {
            bench.check(&model, &TREES[..3], &["--drafter", drafter]);
        }
        looked_up += bench.accepted(&model, &TREES[..3], &["--drafter", "rest:live:1"]);
        bench.check(&model, &["chain:3"], &["--drafter", &format!("suffix:live:1,else=model:{draft}")]);
        bench.check(&model, &["own:15,8"], &["--drafter", &format!("ouroboros:{draft},gamma=4,w=3,n=4,g=3")]);
        bench.check(&model, &["own:40,20"], &["--drafter", "lookahead:5,4,4"]);
        bench.check(&model, &["own:23,5"], &["--drafter", &format!("specinfer:{model}+{draft}")]);
        bench.check(&model, &["chain:4"], &["--drafter", &format!("cascade:{model},then=model:{draft}")]);
    }
    assert!(looked_up > 0, "no answer was looked up in another one");
}

/// An encoder-decoder model drafts with a part of its own layers.
#[test]
fn text_of_an_encoder_decoder_models_own_layers_is_its_own() {
    let (folder, bench) = (tempfile::tempdir().unwrap(), Bench::without_data());
    T5Shape { hidden_size: 32, layers: 4, ..T5 }.write(folder.path(), 5).unwrap();
    let (model, sublayers) = (folder.path().to_str().unwrap(), bench.job.path("sublayers.json"));
    std::fs::write(&sublayers, r#"{"attention": [1], "mlp": [0]}"#).unwrap();
    let swift = format!("swift:50,state={}", bench.job.text("swift.json"));
    for (drafter, tree) in [
        (format!("skip:{}", sublayers.display()), "chain:3"),
        ("pipelined:1,3".into(), "trellis:4,1"),
        (swift, "own:12,6"),
    ] {
        bench.check(model, &[tree], &["--drafter", &drafter]);
    }
}

/// A draft model with random weights and the tokens of the shared backbone.
fn random_draft(dir: &Path) -> String {
    let ModelConfig { vocab_size, max_positions, .. } = ModelConfig::read(backbone()).unwrap();
    let (hidden_size, intermediate_size, layers, heads, kv_heads) = (16, 24, 2, 2, 2);
    let shape = LlamaShape { hidden_size, intermediate_size, layers, heads, kv_heads, vocab_size, max_positions };
    shape.write(dir, FloatFormat::F32, 1).unwrap();
    std::fs::copy(backbone().join("tokenizer.json"), dir.join("tokenizer.json")).unwrap();
    dir.to_str().unwrap().to_owned()
}

/// Several models that draft together, and a model for which another drafter drafts.
#[test]
fn text_of_composed_drafters_is_the_models_own() {
    let (bench, model) = (Bench::new(), backbone().to_str().unwrap());
    let several = format!("specinfer:{model}+{model}");
    bench.check(model, &["own:23,5", "chain:2", "mc_sim_7b_63", "dynamic:12,2,4"], &["--drafter", &several]);
    // Most drafts of a model with random weights are wrong, and are tried first.
    let other = random_draft(&bench.job.path("other"));
    let different = format!("specinfer:{other}+{model}");
    bench.check(model, &["own:23,5", "trellis:23"], &["--drafter", &different]);
    bench.check(model, &["chain:4"], &["--drafter", &format!("cascade:{model},then=model:{other},ahead=2,tail=1")]);
    for then in ["ngram:2,tail=1", "suffix", "early-exit:1", "partial:16,4", "none"] {
        bench.check(model, &["chain:4"], &["--drafter", &format!("cascade:{model},then={then}")]);
    }
    for small in ["window=16", "sinks=0,window=8,ahead=3"] {
        bench.check(model, &["chain:4"], &["--drafter", &format!("partial:16,4,small={model},{small}")]);
    }
    bench.check(model, &["own:15,8"], &["--drafter", &format!("ouroboros:{model},gamma=4,w=3,n=4,g=3")]);
}

/// A drafter that goes by matches in front of heads, a draft model, composed drafters, and one that reads its live
/// store.
#[test]
fn text_of_handovers_is_the_models_own() {
    let (bench, model) = (Bench::new(), backbone().to_str().unwrap());
    for (name, keys, _) in METHODS.iter().filter(|(name, ..)| ["medusa", "eagle3", "kangaroo"].contains(name)) {
        let run = bench.train(name, keys);
        let heads = ["--heads", run.to_str().unwrap(), "--drafter"];
        let tree = if *name == "medusa" { "mc_sim_7b_63" } else { "chain:3" };
        for drafter in ["suffix,else=auto", "rest:live:1,else=auto"] {
            bench.check(model, &[tree], &[&heads[..], &[drafter]].concat());
        }
    }
    for (other, tree) in [
        (format!("specinfer:{model}+{model}"), "own:23,5"),
        (format!("cascade:{model},then=ngram:2,tail=1"), "chain:4"),
        (format!("cascade:{model},then=suffix:live:1"), "chain:4"),
        (format!("ouroboros:{model},gamma=4,w=3,n=4,g=3"), "own:15,8"),
        (format!("partial:16,4,small={model},window=16"), "chain:4"),
        ("recycle".into(), "chain:4"),
        ("rest:live:1,else=recycle".into(), "mc_sim_7b_63"),
    ] {
        bench.check(model, &[tree], &["--drafter", &format!("suffix:live:1,else={other}")]);
    }
    bench.check(model, TREES, &["--drafter", "rest:live:1"]);
}
