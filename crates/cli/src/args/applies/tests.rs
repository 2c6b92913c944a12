//! Every global option of clap's on every verb: it has an effect, is refused, or belongs to those that all verbs share.

use super::super::Cli;
use super::{SELECTIVE, check, effective};
use crate::printer::Style;
use crate::settings::Settings;
use clap::{Command as ClapCommand, CommandFactory, FromArgMatches};
use gorgon_model::device::{ActivationBits, DraftWeights, FloatFormat, Products, Weights};
use std::collections::BTreeSet;

/// The least arguments of each verb.
const VERBS: [(&str, &str); 42] = [
    ("doctor", ""),
    ("fetch", "owner/name"),
    ("inspect", "m"),
    ("generate", "--model m --prompt p --heads h"),
    ("chat", "--model m --heads h"),
    ("serve", "--model m --heads h"),
    ("distill", "-c c"),
    ("train", "-c c"),
    ("config schema", ""),
    ("config check", "c"),
    ("config reference", ""),
    ("init", "m p"),
    ("compare", "-c c"),
    ("bench", "--model m --prompts p --heads h"),
    ("verify", "--model m --prompts p --heads h"),
    ("tree calibrate", "--model m --heads h --prompts p"),
    ("tree sequoia", "--heads h"),
    ("tree show", "--tree chain:2"),
    ("tree plan", "--alpha 0.5"),
    ("export", "r --to medusa-v1 o"),
    ("quantize", "m o --to int8"),
    ("store build", "f o --model m"),
    ("store inspect", "s"),
    ("store save", "--url u o"),
    ("runs list", ""),
    ("runs show", "r"),
    ("runs compare", "r"),
    ("runs open", "r"),
    ("demo", ""),
    ("completions", "bash"),
    ("dev logits", "--model m --ids 1 --out o"),
    ("dev features", "-c c"),
    ("dev synth", ""),
    ("dev t5", "o"),
    ("dev pretrain", "-c c"),
    ("dev suite", "cpu"),
    ("dev sweep", "alpha=0 --model m --drafter model:d"),
    ("dev replay", "--model m --drafter none"),
    ("dev skip", "--model m --prompts p --out o"),
    ("dev trajectories", "d --model m"),
    ("dev man", "d"),
    ("dev plot", "r"),
];

/// An option, how it is typed, and whether settings have taken it.
type Taken = (&'static str, &'static str, fn(&Settings) -> bool);

/// Options that only some verbs take: how they are typed, and whether settings have taken them.
const CHOSEN: [Taken; 9] = [
    ("device", "--device cuda:3", |s| s.devices.to_string() == "cuda:3"),
    ("dtype", "--dtype f16", |s| s.formats.dtype == Some(FloatFormat::F16)),
    ("compute_dtype", "--compute-dtype bf16", |s| s.formats.compute_dtype == Products::Bf16),
    ("weights", "--weights int8", |s| s.formats.integers.weights == Weights::Int8),
    ("draft_weights", "--draft-weights int8", |s| s.formats.integers.draft_weights == DraftWeights::Int8),
    ("activation_bits", "--activation-bits 16", |s| {
        s.formats.integers.activation_bits == Some(ActivationBits::Sixteen)
    }),
    ("seed", "--seed 7", |s| (s.seed, s.typed_seed) == (7, Some(7))),
    ("context", "--context 9", |s| s.context == Some(9)),
    ("template_var", "--template-var a=1", |s| s.template.contains_key("a")),
];

/// Options that settings hold for every verb: how they are typed, and whether settings have taken them.
const ALWAYS: [Taken; 3] =
    [("json", "--json", |s| s.json), ("quiet", "--quiet", |s| s.quiet), ("offline", "--offline", |s| s.offline)];

/// Options that are set up once for the whole process; [`options_of_the_process`] asserts their effect.
const OF_PROCESS: [(&str, &str); 4] = [
    ("threads", "--threads 3"),
    ("color", "--color always"),
    ("verbose", "--verbose"),
    ("no_progress", "--no-progress"),
];

/// The verbs that do something, as they are typed.
fn leaves(command: &ClapCommand, path: &str, found: &mut BTreeSet<String>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        let path = format!("{path} {}", verb.get_name());
        let path = path.trim_start();
        match verb.has_subcommands() {
            true => leaves(verb, path, found),
            false => drop(found.insert(path.to_owned())),
        }
    }
}

/// A command line, parsed; and whether its options are refused.
fn typed(verb: &str, args: &str, option: &str) -> (Cli, Result<(), String>) {
    let line = format!("gorgon {verb} {args} {option}");
    let matches = Cli::command().try_get_matches_from(line.split_whitespace());
    let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
    let cli = Cli::from_arg_matches(&matches).unwrap();
    let checked = check(&cli.command, &matches).map_err(|failure| failure.message().to_owned());
    (cli, checked)
}

#[test]
fn every_option_and_every_verb_has_its_place() {
    let mut program = Cli::command();
    program.build();
    let mut found = BTreeSet::new();
    leaves(&program, "", &mut found);
    assert_eq!(found, VERBS.iter().map(|(verb, _)| (*verb).to_owned()).collect::<BTreeSet<_>>());
    let global = program.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().as_str().to_owned());
    let global: BTreeSet<String> = global.filter(|id| id != "help" && id != "version").collect();
    let placed = CHOSEN.iter().map(|(id, ..)| *id).chain(ALWAYS.iter().map(|(id, ..)| *id));
    let placed: BTreeSet<String> = placed.chain(OF_PROCESS.iter().map(|(id, _)| *id)).map(String::from).collect();
    assert_eq!(global, placed);
    assert_eq!(
        SELECTIVE.iter().copied().collect::<BTreeSet<_>>(),
        CHOSEN.iter().map(|(id, ..)| *id).collect::<BTreeSet<_>>()
    );
}

#[test]
fn chosen_options_change_settings_or_are_refused() {
    let mut pairs = [0, 0];
    for (verb, args) in VERBS {
        let plain = Settings::new(typed(verb, args, "").0.global).unwrap();
        for (id, option, taken) in CHOSEN {
            assert!(!taken(&plain), "{verb} {id}");
            let (cli, checked) = typed(verb, args, option);
            let has_effect = effective(&cli.command).contains(&id);
            match checked {
                Ok(()) => {
                    assert!(has_effect, "gorgon {verb} {option} is neither refused nor effective");
                    assert!(taken(&Settings::new(cli.global).unwrap()), "{verb} {option}");
                }
                Err(words) => {
                    assert!(!has_effect, "{verb} {option}");
                    let flag = option.split(' ').next().unwrap_or_default();
                    assert_eq!(words, format!("{flag} has no effect on gorgon {verb}"));
                }
            }
            pairs[usize::from(has_effect)] += 1;
        }
    }
    assert!(pairs.iter().all(|&count| count > 40), "{pairs:?}");
}

#[test]
fn options_of_every_verb_change_settings() {
    for (verb, args) in VERBS {
        let plain = Settings::new(typed(verb, args, "").0.global).unwrap();
        for (id, option, taken) in ALWAYS {
            assert!(!taken(&plain) || (id == "offline" && plain.offline), "{verb} {id}");
            let (cli, checked) = typed(verb, args, option);
            assert_eq!(checked, Ok(()), "{verb} {option}");
            assert!(taken(&Settings::new(cli.global).unwrap()), "{verb} {option}");
        }
        for (_, option) in OF_PROCESS {
            assert_eq!(typed(verb, args, option).1, Ok(()), "{verb} {option}");
        }
    }
}

#[test]
fn options_of_the_process() {
    let global = |option: &str| typed("inspect", "m", option).0.global;
    Settings::new(global("--threads 3")).unwrap();
    assert_eq!(rayon::current_num_threads(), 3);
    for (option, colour) in [("--color always", true), ("--color never", false)] {
        let style = Style::new(&global(option));
        assert_eq!(style.colours(&std::fs::File::open("/dev/null").unwrap()), colour);
    }
    assert!(Settings::wants_progress(&global("")) && !Settings::wants_progress(&global("--no-progress")));
    assert!(Style::new(&global("--verbose")).tells_causes() && !Style::new(&global("")).tells_causes());
    assert!(crate::logging::wanted(true, None).unwrap().is_some());
    assert!(crate::logging::wanted(false, None).unwrap().is_none());
}

/// Options that one form of a verb takes and another does not.
#[test]
fn options_of_a_form_are_refused_by_the_others() {
    let refused = |verb: &str, args: &str, option: &str| typed(verb, args, option).1.expect_err(option);
    for option in ["--dtype f16", "--weights int8", "--context 9", "--template-var a=1", "--device cuda"] {
        for (verb, args) in [("chat", "--url u"), ("bench", "--url u --prompts p")] {
            assert!(refused(verb, args, option).ends_with(&format!("has no effect on gorgon {verb}")), "{option}");
        }
    }
    assert_eq!(typed("bench", "--url u --prompts p", "--seed 3").1, Ok(()));
    for option in ["--plot p.svg", "--concurrency 2"] {
        assert!(refused("bench", "--model m --prompts p", option).ends_with("without --url"), "{option}");
    }
    for drafter in ["", "--drafter none", "--drafter ngram:2", "--drafter suffix,else=recycle"] {
        let said = refused("generate", "--model m --prompt p", &format!("--draft-weights int8 {drafter}"));
        assert!(said.starts_with("--draft-weights has no effect: "), "{said}");
    }
    for drafter in ["--heads h", "--drafter model:d", "--drafter suffix,else=model:d", "--heads h --drafter medusa"] {
        let option = format!("--draft-weights int8 {drafter}");
        assert_eq!(typed("generate", "--model m --prompt p", &option).1, Ok(()), "{drafter}");
    }
    for drafter in ["none", "ngram:2", "suffix,else=recycle", "model:d"] {
        let said = refused("bench", "--model m --prompts p --heads h", &format!("--drafter {drafter}"));
        assert!(said.starts_with("--heads h: --drafter ") && said.ends_with("does not draft with heads"), "{said}");
    }
    for drafter in ["auto", "medusa", "oracle:1", "suffix,else=auto", "ngram:2 --tree trellis"] {
        assert_eq!(typed("bench", "--model m --prompts p --heads h", &format!("--drafter {drafter}")).1, Ok(()));
    }
}
