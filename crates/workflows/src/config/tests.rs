//! Tests of `config`.

use super::*;
use gorgon_data::config::DistillConfig;
use gorgon_train::config::TrainConfig;
use toml::Table;

const TRAIN: &str = "method = \"hydra\"\nmodel = \"m\"\ndata = \"d\"\n\n[hydra]\nheads = 3\n";

fn document(text: &str, overrides: &[&str]) -> Document {
    let mut document = Document::parse("c.toml", text).unwrap();
    overrides.iter().for_each(|given| document.apply(given).unwrap());
    document
}

fn message(text: &str, overrides: &[&str]) -> String {
    read::<TrainConfig>(&document(text, overrides)).unwrap_err().message().to_owned()
}

#[test]
fn overrides_are_toml_or_text() {
    let text = "a = 1\n[b]\nc = 2";
    let given = ["a=3", "b.c=[1, 2]", "b.d=some/path", "e.f.g=true", "x=\"7\""];
    let want = "a = 3\nx = \"7\"\n[b]\nc = [1, 2]\nd = \"some/path\"\n[e.f]\ng = true".parse::<Table>().unwrap();
    let mut found = document(text, &given);
    assert_eq!(found.table, want);
    for wrong in ["a", "=1", "a.b=1", "b..c=1"] {
        assert!(found.apply(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_nearest_one() {
    let said = message(&format!("{TRAIN}[training]\nstepz = 4\n"), &[]);
    assert_eq!(said, "c.toml:8: unknown key \"training.stepz\"; did you mean \"training.steps\"?");
    let said = message(&format!("learning_rate = 1e-3\n{TRAIN}"), &[]);
    assert_eq!(said, "c.toml:1: unknown key \"learning_rate\"; did you mean \"training.learning_rate\"?");
    for (theirs, ours) in [("training.lr", "training.learning_rate"), ("grad_clip", "training.max_grad_norm")] {
        let said = message(TRAIN, &[&format!("{theirs}=1")]);
        assert!(said.ends_with(&format!("unknown key {theirs:?}; did you mean {ours:?}?")), "{said}");
    }
}

#[test]
fn a_wrong_override_is_named_and_not_the_file() {
    let said = message(TRAIN, &["training.stepz=5"]);
    assert_eq!(said, "override training.stepz=5: unknown key \"training.stepz\"; did you mean \"training.steps\"?");
    let said = message(TRAIN, &["method=medussa"]);
    assert!(said.starts_with("override method=medussa: method = \"medussa\": expected medusa, "), "{said}");
    assert!(said.ends_with("did you mean \"medusa\"?"), "{said}");
    let said = message(TRAIN, &["training.warmup=2"]);
    assert!(said.starts_with("override training.warmup=2: training.warmup = 2: it has to be between"), "{said}");
    let said = message(TRAIN, &["training.optimizer=adamv"]);
    assert!(said.ends_with("expected adamw, muon; did you mean \"adamw\"?"), "{said}");
}

#[test]
fn a_table_of_another_method_is_refused_with_both_names() {
    let said = message(&TRAIN.replace("method = \"hydra\"", "method = \"medusa\""), &[]);
    assert_eq!(said, "c.toml:5: [hydra] belongs to another method; this config has method = \"medusa\"");
    let said = message(TRAIN, &["mtp.depths=2"]);
    assert!(said.starts_with("override mtp.depths=2: [mtp] belongs to another method"), "{said}");
}

#[test]
fn wrong_types_and_missing_keys_are_named() {
    assert_eq!(message("method = \"mtp\"\nmodel = \"m\"", &[]), "c.toml: the key \"data\" is missing");
    let said = message(TRAIN, &["hydra.heads=two", "training.betas=[0.9, \"x\"]"]);
    assert!(said.contains("hydra.heads = \"two\": expected a whole number"), "{said}");
    assert!(said.contains("training.betas[1] = \"x\": expected a number"), "{said}");
    assert!(message(TRAIN, &["seed=-1"]).contains("seed = -1: it has to be at least 0"));
}

#[test]
fn a_resolved_config_is_its_own_source() {
    let config: TrainConfig = read::<TrainConfig>(&document(TRAIN, &[])).unwrap().resolved();
    let text = to_toml(&config).unwrap();
    let again: TrainConfig = read::<TrainConfig>(&document(&text, &[])).unwrap().resolved();
    assert_eq!((to_toml(&again).unwrap(), again), (text, config));
    let text = "model = \"m\"\nout = \"o\"\nbatch_size = \"auto\"\n[synthetic]\ndialogues = 3\n";
    let config: DistillConfig = read(&document(text, &[])).unwrap();
    let again: DistillConfig = read(&document(&to_toml(&config).unwrap(), &[])).unwrap();
    assert_eq!(again, config);
}

/// Heads that read a state alone draw positions by default; methods that read sequences refuse to.
#[test]
fn positions_are_shuffled_where_heads_read_single_states() {
    let config = |text: &str, overrides: &[&str]| read::<TrainConfig>(&document(text, overrides)).unwrap();
    let of = |method: &str| format!("method = \"{method}\"\nmodel = \"m\"\ndata = \"d\"\n");
    for (method, buffer) in [("medusa", 65_536), ("hydra", 65_536), ("eagle", 0), ("eagle3", 0), ("mtp", 0)] {
        let config = config(&of(method), &[]).resolved();
        assert_eq!((config.training.shuffle_buffer, config.check().is_ok()), (Some(buffer), true), "{method}");
    }
    let attentive = config(&of("hydra"), &["hydra.prefix_attention=true"]);
    assert_eq!(attentive.resolved().training.shuffle_buffer, Some(0));
    let said = message(&of("eagle"), &["training.shuffle_buffer=100"]);
    assert!(said.contains("training.shuffle_buffer = 100: eagle reads sequences"), "{said}");
    let said = message(&of("hydra"), &["training.shuffle_buffer=1", "hydra.soft_targets=true"]);
    assert!(said.contains("hydra with prefix_attention or soft_targets reads sequences"), "{said}");
    let said = message(&of("medusa"), &["training.shuffle_buffer=1073741825"]);
    assert!(said.contains("training.shuffle_buffer = 1073741825"), "{said}");
    assert!(config(&of("medusa"), &["training.shuffle_buffer=0"]).check().is_ok());
}

/// Windows are for methods that read cached hidden states in sequences.
#[test]
fn windows_are_refused_where_steps_read_none() {
    let config = |text: &str, overrides: &[&str]| read::<TrainConfig>(&document(text, overrides)).unwrap();
    let of = |method: &str| format!("method = \"{method}\"\nmodel = \"m\"\ndata = \"d\"\n");
    for method in ["eagle", "eagle3", "mtp", "block", "kangaroo"] {
        let said = message(&of(method), &["training.window_tokens=64"]);
        assert!(said.contains("training.window_tokens = 64: it needs cache_features = true"), "{said}");
        let windows = ["training.window_tokens=64", "cache_features=true"];
        assert!(config(&of(method), &windows).check().is_ok(), "{method}");
    }
    for (method, said) in [("medusa", "medusa"), ("hydra", "hydra"), ("ppd", "ppd"), ("cllm", "cllm")] {
        let refused = message(&of(method), &["training.window_tokens=64", "cache_features=true"]);
        assert!(refused.contains(&format!("steps of {said} read no windows")), "{refused}");
    }
    let short = ["training.window_tokens=16", "cache_features=true", "block.block_size=16"];
    let refused = message(&of("block"), &short);
    assert!(refused.contains("training.window_tokens = 16: it has to be at least 32"), "{refused}");
    let said = message(&of("eagle"), &["training.window_tokens=4", "cache_features=true"]);
    assert!(said.contains("training.window_tokens = 4"), "{said}");
}

/// Keys that are read beside some values of other keys: what makes them unread, the key with another value, and the
/// method whose config has it. A bar separates overrides.
const UNREAD: [(&str, &str, &str); 22] = [
    ("training.steps=5", "training.epochs=2.0", "medusa"),
    ("training.optimizer=adamw", "training.muon_factor=2.0", "medusa"),
    ("eval_decoded_prompts=0", "eval_decoded_tokens=9", "medusa"),
    ("eval_data=e", "held_out=0.2", "medusa"),
    ("medusa.label_weights=equal", "medusa.alpha=0.3", "medusa"),
    ("hydra.blocks=1", "hydra.tied_blocks=true", "hydra"),
    ("block.slot_weights=exponential", "block.alpha=0.3", "block"),
    ("block.slot_weights=d-pace", "block.gamma=2.0", "block"),
    ("layerskip.curriculum=all", "layerskip.every=2", "layerskip"),
    ("layerskip.weights=full", "layerskip.lora={rank=2}", "layerskip"),
    ("space_sft.weights=full", "space_sft.lora={rank=2}", "space-sft"),
    ("cllm.weights=full", "cllm.lora={rank=2}", "cllm"),
    ("distill_spec.draft=d", "distill_spec.earlier_top_k=2", "distill-spec"),
    ("distill_spec.draft=d|distill_spec.divergence=rkl", "distill_spec.beta=0.2", "distill-spec"),
    ("distill_spec.draft=d|distill_spec.answers=data", "distill_spec.every=7", "distill-spec"),
    ("distill_spec.draft=d|distill_spec.answers=data", "distill_spec.temperature=0.5", "distill-spec"),
    ("answers=data", "sampling.temperature=0.5", ""),
    ("answers=data", "sampling.seed=3", ""),
    ("answers=data", "batch_size=2", ""),
    ("answers=data", "self_talk_turns=1", ""),
    ("servers=[\"http://h\"]", "memory_mib=9", ""),
    ("prompts=[]|synthetic={dialogues=3}", "limit=3", ""),
];

#[test]
fn keys_that_nothing_would_read_are_refused() {
    for (beside, key, method) in UNREAD {
        let text = match method {
            "" => "model = \"m\"\nprompts = \"p\"\nout = \"o\"\n".to_owned(),
            method => format!("method = {method:?}\nmodel = \"m\"\ndata = \"d\"\n"),
        };
        let load = |overrides: &[&str]| match method {
            "" => read::<DistillConfig>(&document(&text, overrides)).map(drop),
            _ => read::<TrainConfig>(&document(&text, overrides)).map(drop),
        };
        let mut overrides: Vec<&str> = beside.split('|').collect();
        assert!(load(&overrides).is_ok(), "{overrides:?}");
        overrides.push(key);
        let failure = load(&overrides).expect_err(key);
        let (name, _) = key.split_once('=').unwrap();
        assert!(failure.message().starts_with(&format!("override {key}: {name} = ")), "{}", failure.message());
    }
}

/// Where a file says one and an override the other, the override counts.
#[test]
fn steps_and_epochs_take_each_others_place() {
    let load = |text: &str, overrides: &[&str]| read::<TrainConfig>(&document(text, overrides)).unwrap().training;
    let (epochs, steps) = (format!("{TRAIN}[training]\nepochs = 4\n"), format!("{TRAIN}[training]\nsteps = 40\n"));
    let training = load(&epochs, &["training.steps=5"]);
    assert_eq!((training.steps, training.epochs), (5, 1.0));
    let training = load(&steps, &["training.epochs=3"]);
    assert_eq!((training.steps, training.epochs), (0, 3.0));
    let said = message(&format!("{TRAIN}[training]\nsteps = 5\nepochs = 2\n"), &[]);
    assert_eq!(said, "c.toml:9: training.epochs = 2.0: training.steps is set, and counts");
}
