//! Wrong use, old spellings, and pages made from the command line's own description.

use crate::chain::start;
use crate::gorgon;

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
        (&["help", "trian"], "a similar subcommand exists: 'train'"),
        (&["help", "dev", "swep"], "a similar subcommand exists: 'sweep'"),
        (&["verify", "--sweep"], "hint: gorgon dev sweep alpha="),
        (&["init", "--out", "configs"], "a similar argument exists: '--dir'"),
        (&["dev", "convert", "a", "b"], "hint: gorgon export --to safetensors"),
    ] {
        let (code, words) = wrong(args);
        assert_eq!(code, 2);
        // Clap's own suggestion for these is another option.
        let other = ["verify", "init"].contains(&args[0]) && (words.contains("--seed") || words.contains("--compute"));
        assert!(!other, "{args:?}: {words}");
        assert!(words.contains(suggestion), "{args:?}: {words}");
    }
    let (_, words) = wrong(&["generate", "--modle", "m"]);
    assert!(words.contains("\nUsage: gorgon generate"), "clap's own lines stay lines: {words}");
}

/// Wrong numbers are worded plainly, and a value of the environment is not blamed on an option.
#[test]
fn wrong_numbers_say_what_is_expected_and_where_they_are() {
    let of = |args: &[&str], wanted: &str| {
        let (code, said) = wrong(&[&["generate", "--model", "m", "--prompt", "p"][..], args].concat());
        assert_eq!(code, 2);
        assert!(said.contains(wanted) && !said.contains("environment"), "{said}");
    };
    of(&["--max-new-tokens", "x"], "'--max-new-tokens <N>': expected a whole number");
    of(&["--temperature", "x"], "'--temperature <T>': expected a number");
    of(&["--max-new-tokens", "99999999999999999999"], "the number is too large");
    let output = start(&["doctor"], &[("GORGON_THREADS", "x")]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hint: the value comes from the environment variable GORGON_THREADS"), "{said}");
}

/// Help and version are documents too, and a missing verb is an error with a hint.
#[test]
fn help_and_version_are_json_documents_too() {
    let version = json(&gorgon(&["--version", "--json"]));
    assert_eq!((&version["gorgon"], &version["features"][0]), (&env!("CARGO_PKG_VERSION").into(), &"cpu".into()));
    let text = stdout(&gorgon(&["verify", "--help"]));
    let help = json(&gorgon(&["verify", "--help", "--json"]));
    assert_eq!(help["help"].as_str().unwrap().trim_end(), text.trim_end());
    for (args, missing) in [
        (&["--json"][..], "gorgon"),
        (&["store", "--json"], "gorgon store"),
        (&["--json", "--threads", "2", "store"], "gorgon store"),
    ] {
        let output = gorgon(args);
        assert_eq!(output.status.code(), Some(2));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"], format!("{missing} needs a subcommand"));
        assert_eq!(document["hint"], format!("see {missing} --help"));
    }
}

/// A panic ends the program with exit code 1 and one document, and leaves nothing half-written.
#[test]
fn a_panic_is_a_json_document_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("texts.store");
    let page = folder.path().join("text.txt");
    std::fs::write(&page, "one two three").unwrap();
    let args = ["store", "build", page.to_str().unwrap(), "--model", TINY, store.to_str().unwrap(), "--json"];
    let output = start(&args, &[("GORGON_CRASH_AT", "before-rename:1:panic")]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = document["error"].as_str().unwrap();
    assert!(error.starts_with("internal error at ") && error.contains("crash.rs:"), "{error}");
    assert!(document["hint"].as_str().unwrap().contains("report it"));
    assert!(!store.exists());
}

#[test]
fn wrong_use_is_a_json_document_too() {
    let output = gorgon(&["generate", "--modle", "m", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"], "unexpected argument '--modle' found");
    assert_eq!(document["hint"], "did you mean --model?");
    for (args, hint) in [
        (["help", "trian", "--json"], "did you mean train?"),
        (["init", "--out", "--json"], "did you mean --dir?"),
        (["verify", "--sweep", "--json"], "gorgon dev sweep alpha=A1,A2,… measures rules over values of α"),
    ] {
        assert_eq!(json(&gorgon(&args))["hint"], hint);
    }
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
    std::fs::write(folder.path().join("LICENSE"), "").unwrap();
    std::fs::write(folder.path().join("checkpoints/tiny/config.json"), "{}").unwrap();
    let run = |args: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"))
            .args(args)
            .current_dir(folder.path())
            .env("HF_HOME", folder.path().join("home"))
            // Whoever asks this hub waits.
            .env("HF_ENDPOINT", "http://10.255.255.1")
            .output()
            .unwrap()
    };
    let meant = "hint: did you mean checkpoints/tiny?";
    for (name, hint) in [
        ("checkpoints/tny", meant),
        ("chekpoints/tiny", meant),
        ("chekpoints/other", "hint: did you mean checkpoints? (chekpoints/other@main is a repository on the hub)"),
        ("checkpoints/none", "hint: models nearby: checkpoints/tiny ("),
        ("./none", "hint: models nearby: ./checkpoints/tiny"),
        ("tiny", meant),
    ] {
        for args in [&["generate", "--model", name, "--prompt", "p"][..], &["fetch", name]] {
            let output = run(args);
            let words = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {words}");
            assert!(words.contains(&format!("error: {name}: no such folder")), "{args:?}: {words}");
            assert!(words.contains(hint) && !words.contains("http"), "{args:?}: {words}");
        }
    }
    let heads = run(&["generate", "--model", "m", "--prompt", "p", "--heads", "chekpoints/tiny"]);
    assert!(heads.status.code() == Some(2) && !stderr(&heads).contains("http"), "{}", stderr(&heads));
    // A revision makes it a name on the hub, and so does a folder whose name is not that near.
    std::fs::create_dir(folder.path().join("data")).unwrap();
    for name in ["chekpoints/tiny@main", "databricks/dolly"] {
        let output = run(&["fetch", name, "--offline"]);
        assert!(stderr(&output).contains("not in the cache"), "{}", stderr(&output));
    }
    let here = run(&["fetch", "checkpoints/tiny"]);
    assert!(here.status.success() && stdout(&here) == "checkpoints/tiny\n", "{}", stderr(&here));
    assert!(stderr(&here).starts_with("note: checkpoints/tiny is here already"), "{}", stderr(&here));
}

/// The folder that trainings write to needs not be there.
#[test]
fn a_run_that_does_not_exist_is_no_name_on_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["generate", "--model", "checkpoints/none", "--prompt", "p"][..], &["fetch", "checkpoints/none"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
        // Whoever asks this hub waits.
        command.args(args).current_dir(&folder).env("HF_HOME", folder.path()).env("HF_ENDPOINT", "http://10.255.255.1");
        let words = stderr(&command.output().unwrap());
        assert!(words.contains("error: checkpoints/none: no such folder") && !words.contains("http"), "{words}");
    }
}

/// Each call is refused with these words and this hint, in a folder with a run, a config and prompts.
fn refused_with_hints(calls: &[(&[&str], &str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("checkpoints/medusa-tiny-1")).unwrap();
    for name in ["prompts.jsonl", "train.toml"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    for (args, words, hint) in calls {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
        let output = command.args(*args).current_dir(folder.path()).env("HF_HUB_OFFLINE", "1").output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words) && said.contains(hint), "{args:?}: {said}");
    }
}

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../checkpoints/tiny");

#[test]
fn mistyped_paths_are_suggested() {
    let measure = ["verify", "--model", TINY, "--drafter", "ngram:2", "--prompts"];
    refused_with_hints(&[
        (&["train", "-c", "trian.toml"], "trian.toml: no such file", "did you mean train.toml?"),
        (&["config", "check", "tain.toml"], "tain.toml: no such file", "did you mean train.toml?"),
        (
            &["train", "--resume", "checkpoints/medusa-tny-1"],
            "checkpoints/medusa-tny-1: no such run folder",
            "did you mean checkpoints/medusa-tiny-1?",
        ),
        (
            &["generate", "--model", TINY, "--prompt", "p", "--heads", "chekpoints/medusa-tiny-1"],
            "chekpoints/medusa-tiny-1: no such file or folder",
            "did you mean checkpoints/medusa-tiny-1?",
        ),
        (
            &["export", "medusa", "--to", "tgi", "out"],
            "medusa: no such file or folder",
            "the current folder has checkpoints",
        ),
        (&["init", TINY, "promts.jsonl", "--dir", "new"], "promts.jsonl: no such file", "did you mean prompts.jsonl?"),
        (&[&measure[..], &["promts.jsonl"]].concat(), "promts.jsonl: no such file", "did you mean prompts.jsonl?"),
        (&["runs", "list", "checkpoint"], "checkpoint: no such folder", "did you mean checkpoints?"),
    ]);
}

#[test]
fn mistyped_paths_of_runs_and_files_are_suggested() {
    let drafter = ["generate", "--model", TINY, "--prompt", "p", "--drafter"];
    refused_with_hints(&[
        (
            &["runs", "show", "checkpoints/medusa-tny-1"],
            "checkpoints/medusa-tny-1: no such run folder",
            "did you mean checkpoints/medusa-tiny-1?",
        ),
        (&["runs", "open", "checkpoint"], "checkpoint: no such run folder", "did you mean checkpoints?"),
        (&["convert", "heads.pt", "out"], "heads.pt: no such file or folder", "the current folder has checkpoints"),
        (&[&drafter[..], &["skip:trian.toml"]].concat(), "trian.toml: no such file", "did you mean train.toml?"),
    ]);
}

#[test]
fn before_the_first_training_there_are_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
    let output = command.args(["runs", "list"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("note: no run folders in checkpoints; gorgon train"));
}

/// A plan by formula does without data, and names the data that it did without.
#[test]
fn a_plan_names_the_data_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("datasets/texts")).unwrap();
    std::fs::write(folder.path().join("datasets/texts/held_out.jsonl"), "{}").unwrap();
    let config = format!("method = \"medusa\"\nmodel = {TINY:?}\ndata = \"datasets/textz\"\n");
    std::fs::write(folder.path().join("train.toml"), config).unwrap();
    for (more, note) in [
        (
            &[][..],
            "note: datasets/textz: no such folder of shards; did you mean datasets/texts? (gorgon distill writes shards)\n",
        ),
        (&["data=datasets/texts"], "note: datasets/texts: no shards are here yet; datasets/texts has held_out.jsonl\n"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gorgon"));
        let command = command.args(["train", "-c", "train.toml", "--dry-run"]).args(more).current_dir(folder.path());
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success() && said.contains("planned by formula") && said.contains(note), "{said}");
    }
}

#[test]
fn negative_numbers_are_values() {
    for (option, value) in [("--seed", "-1"), ("--max-new-tokens", "-1"), ("--top-k", "-3")] {
        refused(&["generate", "--model", "m", "--prompt", "x", option, value], &[option, value]);
    }
    refused(&["generate", "--model", "m", "--prompt", "x", "--drafter", "ngram"], &["ngram: a number"]);
}
