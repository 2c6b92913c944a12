use super::today;
use crate::args::Cli;
use clap::CommandFactory;
use std::ffi::OsString;

fn spelt(line: &str) -> (String, Option<String>) {
    let (args, notice) = today(line.split(' ').map(OsString::from).collect(), &Cli::command());
    (args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "), notice)
}

#[test]
fn old_verbs_are_found_behind_global_options() {
    let (args, notice) = spelt("gorgon --seed 3 -q logits --ids 1,2");
    assert_eq!(args, "gorgon --seed 3 -q dev logits --ids 1,2");
    assert_eq!(notice.unwrap(), "note: \"gorgon logits\" is now \"gorgon dev logits\"");
    let (args, notice) = spelt("gorgon convert heads.pt out");
    assert_eq!(args, "gorgon export --to=safetensors heads.pt out");
    assert_eq!(notice.unwrap(), "note: \"gorgon convert\" is now \"gorgon export --to=safetensors\"");
    assert_eq!(spelt("gorgon plan --alpha 0.8").0, "gorgon tree plan --alpha 0.8");
}

#[test]
fn suites_and_sweeps_have_verbs_of_their_own() {
    let (args, _) = spelt("gorgon bench --rounds 2 --suite gpu --context 64 --device cuda");
    assert_eq!(args, "gorgon dev suite gpu --rounds 2 --prompt-tokens 64 --device cuda");
    assert_eq!(spelt("gorgon bench --suite=cpu").0, "gorgon dev suite cpu");
    assert_eq!(spelt("gorgon bench --sweep alpha=0,1 --model m").0, "gorgon dev sweep alpha=0,1 --model m");
}

#[test]
fn other_arguments_stay() {
    for line in ["gorgon", "gorgon --help", "gorgon generate --prompt plan", "gorgon bench --model logits"] {
        assert_eq!(spelt(line), (line.to_owned(), None));
    }
}
