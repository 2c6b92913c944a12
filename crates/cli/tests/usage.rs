//! Wrong use, old spellings, and pages made from the command line's own description.

mod gorgon;

use gorgon::{Model, gorgon, json, refused, stderr, stdout};

/// A failed call: its exit code and its words.
fn wrong(args: &[&str]) -> (i32, String) {
    let output = gorgon(args);
    assert!(output.stdout.is_empty(), "{args:?}: {}", stdout(&output));
    (output.status.code().unwrap(), stderr(&output))
}

#[test]
fn mistyped_flags_verbs_and_names_are_suggested() {
    for (args, suggestion) in [
        (&["generate", "--modle", "m"][..], "'--model'"),
        (&["benhc"], "'bench'"),
        (&["generate", "--model", "m", "--prompt", "p", "--tree", "chian:4"], "did you mean \"chain:N\"?"),
        (
            &["generate", "--model", "m", "--prompt", "p", "--accept", "typcal"],
            "did you mean \"typical[:EPSILON,DELTA]\"?",
        ),
        (&["generate", "--model", "m", "--prompt", "p", "--drafter", "medussa"], "did you mean \"medusa\"?"),
        (&["export", "run", "--to", "eagel3", "out"], "did you mean \"eagle3\"?"),
        (&["config", "schema", "trian"], "did you mean \"train\"?"),
        (&["doctor", "--device", "cdua"], "'--device <DEVICE>': did you mean \"cuda\"? expected auto"),
        (&["train", "--lr", "3"], "settings of a config are given without dashes: training.learning_rate=VALUE"),
        (&["distill", "--max-new-tokens", "3"], "without dashes: sampling.max_new_tokens=VALUE"),
        (&["doctor", "--dtype", "b16"], "did you mean \"bf16\"?"),
        (&["doctor", "--compute-dtype", "b16"], "did you mean \"bf16\"?"),
        (&["doctor", "--weights", "stord"], "did you mean \"stored\"?"),
    ] {
        let (code, words) = wrong(args);
        assert_eq!(code, 2);
        assert!(words.contains(suggestion), "{args:?}: {words}");
    }
    let (_, words) = wrong(&["generate", "--modle", "m"]);
    assert!(words.contains("\nUsage: gorgon generate"), "clap's own lines stay lines: {words}");
}

#[test]
fn wrong_use_is_a_json_document_too() {
    let output = gorgon(&["generate", "--modle", "m", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"], "unexpected argument '--modle' found");
    assert_eq!(document["hint"], "did you mean --model?");
}

#[test]
fn old_spellings_work_with_a_notice() {
    let output = gorgon(&["plan", "--alpha", "0.8", "--json"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("note: \"gorgon plan\" is now \"gorgon tree plan\""), "{}", stderr(&output));
    let new = gorgon(&["tree", "plan", "--alpha", "0.8", "--json"]);
    assert!(stderr(&new).is_empty(), "{}", stderr(&new));
    assert_eq!(json(&output), json(&new));
    assert!(stderr(&gorgon(&["plan", "--alpha", "0.8", "--json", "-q"])).is_empty());
    for failing in [&["plan", "--alpha", "1.5"][..], &["plan", "--alhpa", "0.8"]] {
        let (code, words) = wrong(failing);
        assert!(
            code == 2 && words.starts_with("note: \"gorgon plan\" is now \"gorgon tree plan\"\nerror: "),
            "{words}"
        );
    }
}

#[test]
fn help_of_verify_knows_no_sweep() {
    let help = stdout(&gorgon(&["verify", "--help"]));
    assert!(!help.contains("sweep") && !help.contains("--suite"), "{help}");
    assert!(stdout(&gorgon(&["dev", "--help"])).contains("sweep"));
}

#[test]
fn completions_and_man_pages_name_every_verb() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = gorgon(&["completions", shell]);
        assert!(output.status.success() && stdout(&output).contains("calibrate"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(gorgon(&["dev", "man", folder.path().to_str().unwrap()]).status.success());
    for page in ["gorgon.1", "gorgon-generate.1", "gorgon-tree-calibrate.1", "gorgon-dev-logits.1"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn the_context_is_the_size_of_the_cache() {
    let model = Model::new();
    let base = ["generate", "--model", model.name(), "--ids", "1,2,3,4,5,6,7,8", "--ignore-eos", "--json"];
    let with = |more: &[&str]| gorgon(&[&base[..], more].concat());
    // The last new token is never read, so eight positions hold nine tokens.
    let document = json(&with(&["--context", "16"]));
    assert_eq!(document["ids"].as_array().unwrap().len(), 9);
    let fewer = with(&["--context", "4"]);
    assert_eq!(fewer.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&fewer.stdout).unwrap();
    assert_eq!(document["error"], "the prompt of 8 tokens does not fit the context of 4 tokens");
    refused(&[&base[..6], &["--context", "65"]].concat(), &["--context 65", "64 positions"]);
}

#[test]
fn colours_are_for_those_who_want_them() {
    let red = "\x1b[1;31merror:";
    let plain = wrong(&["generate", "--model", "none/none/none", "--prompt", "p"]).1;
    assert!(!plain.contains('\x1b') && plain.contains("error:"), "{plain}");
    let coloured = wrong(&["generate", "--model", "none/none/none", "--prompt", "p", "--color", "always"]).1;
    assert!(coloured.contains(red), "{coloured}");
    // NO_COLOR counts on a terminal, unless it is empty or --color says otherwise.
    #[cfg(unix)]
    for (no_color, more, wanted) in [
        (None, &[][..], true),
        (Some(""), &[], true),
        (Some("1"), &[], false),
        (Some("1"), &["--color", "always"], true),
        (None, &["--color", "never"], false),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
        command.args(["generate", "--model", "none/none/none", "--prompt", "p"]).args(more).env_remove("NO_COLOR");
        command.envs(no_color.iter().map(|value| ("NO_COLOR", value)));
        let shown = rexpect::session::spawn_command(command, Some(20_000)).unwrap().exp_eof().unwrap();
        assert_eq!(shown.contains(red), wanted, "{no_color:?} {more:?}: {shown}");
    }
}

#[test]
fn paths_that_do_not_exist_are_no_names_on_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("checkpoints/tiny")).unwrap();
    let run = |model: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"))
            .args(["generate", "--model", model, "--prompt", "p"])
            .current_dir(folder.path())
            .env("HF_HOME", folder.path().join("home"))
            // Whoever asks this hub waits.
            .env("HF_ENDPOINT", "http://10.255.255.1")
            .output()
            .unwrap()
    };
    let output = run("checkpoints/tny");
    assert_eq!(output.status.code(), Some(2));
    let words = stderr(&output);
    assert!(words.contains("error: checkpoints/tny: no such folder"), "{words}");
    assert!(words.contains("hint: did you mean checkpoints/tiny?") && !words.contains("http"), "{words}");
}

#[test]
fn mistyped_paths_are_suggested() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("checkpoints/medusa-tiny-1")).unwrap();
    for name in ["prompts.jsonl", "train.toml"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let model = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny");
    let model = model.to_str().unwrap();
    let measure = ["verify", "--model", model, "--drafter", "ngram:2", "--prompts"];
    for (args, words, hint) in [
        (&["train", "-c", "trian.toml"][..], "trian.toml: no such file", "did you mean train.toml?"),
        (&["config", "check", "tain.toml"], "tain.toml: no such file", "did you mean train.toml?"),
        (
            &["train", "--resume", "checkpoints/medusa-tny-1"],
            "checkpoints/medusa-tny-1: no such run folder",
            "did you mean checkpoints/medusa-tiny-1?",
        ),
        (
            &["generate", "--model", model, "--prompt", "p", "--heads", "chekpoints/medusa-tiny-1"],
            "chekpoints/medusa-tiny-1: no such file or folder",
            "did you mean checkpoints?",
        ),
        (
            &["export", "medusa", "--to", "tgi", "out"],
            "medusa: no such file or folder",
            "the current folder has checkpoints",
        ),
        (&["init", model, "promts.jsonl", "--dir", "new"], "promts.jsonl: no such file", "did you mean prompts.jsonl?"),
        (&[&measure[..], &["promts.jsonl"]].concat(), "promts.jsonl: no such file", "did you mean prompts.jsonl?"),
        (&["runs", "list", "checkpoint"], "checkpoint: no such folder", "did you mean checkpoints?"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
        let output = command.args(args).current_dir(folder.path()).env("HF_HUB_OFFLINE", "1").output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words) && said.contains(hint), "{args:?}: {said}");
    }
}

#[test]
fn before_the_first_training_there_are_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
    let output = command.args(["runs", "list"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("no run folders in checkpoints; gorgon train"));
}
