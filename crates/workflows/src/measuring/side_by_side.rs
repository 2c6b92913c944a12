//! Plain and drafted decoding side by side.

use super::{Options, Setup};
use crate::bench_record::{BenchRecord, Decoded};
use crate::console::{Bar, BarStyle};
use crate::drafting::{DrafterChoice, Loaded, recording};
use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use gorgon_bench::measure::{BenchPrompt, Run, Summary, summarise};
use gorgon_bench::suite::Peer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A script that measures another program.
///
/// # Errors
/// When the script is not where it should be.
pub fn script(name: &str) -> Result<PathBuf, Failure> {
    let script = Path::new("scripts/bench").join(name);
    match script.is_file() {
        true => Ok(script),
        false => {
            Err(Failure::input(format!("{}: not found", script.display())).hint("run this in the project's folder"))
        }
    }
}

/// A finished measurement.
pub struct Measured {
    /// Everything that was measured, raw rows included.
    pub document: Value,
    /// Another program's plain decoding of the same weights, tokens/s by round.
    pub peer: Vec<f64>,
    /// The model, drafter, rule and prompts.
    pub setup: Setup,
    /// Totals over all prompts.
    pub summary: Summary,
    /// Totals by category of prompts.
    pub categories: BTreeMap<String, Summary>,
}

/// Measures.
///
/// # Errors
/// When model, heads or prompts are wrong, or there is nothing to compare.
pub fn execute(options: &Options, rounds: usize, settings: &Settings) -> Result<Measured, Failure> {
    execute_beside(options, rounds, None, settings)
}

/// As [`execute`], taking turns with another program: with transformers, if there is an interpreter for it.
///
/// # Errors
/// As of [`execute`], and when the other program fails.
pub fn execute_beside(
    options: &Options,
    rounds: usize,
    python: Option<&Path>,
    settings: &Settings,
) -> Result<Measured, Failure> {
    let mut setup = Setup::recorded(options, settings)?;
    if setup.drafting.is_plain() {
        let message = "nothing to compare: no heads, or a tree without drafts";
        return Err(Failure::input(message).hint("name heads with --heads or a draft model with --drafter model:DIR"));
    }
    let start = |python: &Path| {
        let script = script("decode_peer.py")?;
        Ok::<_, Failure>(Peer::transformers(python, &script, &load::folder(&options.model, settings)?)?)
    };
    let mut peer = python.map(start).transpose()?;
    let (runs, peer) = measure(&mut setup, rounds, peer.as_mut(), settings)?;
    let Some(summary) = summarise(&runs) else {
        return Err(Failure::run("no run took a step: the answers have one token each"));
    };
    let categories = by_category(&runs);
    remember(options, &setup, &summary, &categories, settings)?;
    let recorded = setup.recorded.as_mut().map(|pair| recording::report(pair.take_counts(), settings));
    let document = json!({
        "recorded": recorded, "model": options.model, "drafter": setup.drafting.name(), "tree": setup.drafting.tree_name,
        "accept": setup.rule_name, "lossless": setup.rule.is_lossless(), "prompts": setup.prompts.len(),
        "rounds": rounds, "max_new_tokens": setup.limits.max_new_tokens, "threads": rayon::current_num_threads(),
        "summary": summary, "peer_plain_tokens_per_second": peer, "categories": categories, "runs": runs,
    });
    Ok(Measured { document, peer, setup, summary, categories })
}

/// All rounds; another program has its turn after each.
fn measure(
    setup: &mut Setup,
    rounds: usize,
    mut peer: Option<&mut Peer>,
    settings: &Settings,
) -> Result<(Vec<Run>, Vec<f64>), Failure> {
    let bar: Bar = settings.console.bar(BarStyle::Count, "pairs of runs", (rounds * setup.prompts.len()) as u64);
    let prompts = setup.prompts.clone();
    let is_oracle = matches!(setup.loaded, Loaded::Oracle(_));
    // The truth of each prompt is revealed to an oracle before it.
    let groups: Vec<&[BenchPrompt]> = if is_oracle { prompts.chunks(1).collect() } else { vec![&prompts] };
    let (mut runs, mut speeds) = (vec![], vec![]);
    for round in 0..rounds {
        for group in &groups {
            if let (true, [prompt, ..]) = (is_oracle, group) {
                setup.reveal(prompt)?;
            }
            runs.extend(setup.run_round(group, round, settings.seed, &mut || bar.inc(1))?);
        }
        if let Some(peer) = &mut peer {
            speeds.push(peer.tokens_per_second()?);
        }
    }
    bar.finish();
    Ok((runs, speeds))
}

/// Stores what was measured with the heads, if heads alone drafted.
fn remember(
    options: &Options,
    setup: &Setup,
    summary: &Summary,
    categories: &BTreeMap<String, Summary>,
    settings: &Settings,
) -> Result<(), Failure> {
    let Some((DrafterChoice::Heads(_), folder)) = setup.drafting.heads() else { return Ok(()) };
    let decoded = Decoded {
        prompts: &options.prompts,
        tree: &setup.drafting.tree_name,
        accept: &setup.rule_name,
        named_tree: options.tree.is_some(),
        lossless: setup.rule.is_lossless(),
        temperature: options.transform.temperature(),
    };
    settings.console.say(BenchRecord::new(decoded, summary, categories, settings)?.store(&folder.path));
    Ok(())
}

fn by_category(runs: &[Run]) -> BTreeMap<String, Summary> {
    let mut by: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs {
        if let Some(category) = &run.category {
            by.entry(category.clone()).or_default().push(run.clone());
        }
    }
    by.into_iter().filter_map(|(category, runs)| Some((category, summarise(&runs)?))).collect()
}
