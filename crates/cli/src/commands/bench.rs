//! `gorgon bench`: plain and drafted decoding side by side.

mod remote;
mod store;

pub use store::store;

use crate::args::Bench;
use crate::printer;
use crate::progress;
use crate::settings::Settings;
use gorgon_bench::measure::{BenchPrompt, Run, Summary, summarise};
use gorgon_bench::suite::Peer;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::bench_record::{BenchRecord, Decoded};
use gorgon_workflows::drafting::recording;
use gorgon_workflows::drafting::{DrafterChoice, Loaded};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::{Options, Setup};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &Bench, settings: &Settings) -> Result<ExitCode, Failure> {
    if let Some(url) = &args.url {
        return remote::run(args, url, settings);
    }
    let measured = execute_beside(&args.measure.options()?, args.rounds as usize, args.python.as_deref(), settings)?;
    store(args.out.as_deref(), &measured.document, settings)?;
    match settings.json {
        true => printer::document(&measured.document.to_string()),
        false => measured.print(args.markdown),
    }
    if measured.summary.speedup < 1.0
        && args.measure.draft.tree.is_none()
        && measured.setup.drafting.is_uncalibrated()?
    {
        settings.console.say(
            "hint: drafting is slower than plain decoding with this tree: gorgon tree calibrate measures which tree pays \
             on this machine and stores it with the heads",
        );
    }
    Ok(ExitCode::SUCCESS)
}

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
    pub document: Value,
    /// Another program's plain decoding of the same weights, tokens/s by round.
    peer: Vec<f64>,
    setup: Setup,
    summary: Summary,
    runs: Vec<Run>,
}

impl Measured {
    /// Totals over all prompts.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The table and what stands below it.
    pub fn print(&self, markdown: bool) {
        print(&self.setup, &self.summary, &self.runs, markdown);
        if let Some(peer) = gorgon_bench::median(self.peer.clone()) {
            let ratio = self.summary.plain_tokens_per_second / peer;
            printer::line(&format!(
                "transformers, plain, same weights: {peer:.1} tokens/s; plain decoding here is {ratio:.2} times as fast"
            ));
        }
    }
}

/// Measures.
///
/// # Errors
/// When model, heads or prompts are wrong, or there is nothing to compare.
pub fn execute(options: &Options, rounds: usize, settings: &Settings) -> Result<Measured, Failure> {
    execute_beside(options, rounds, None, settings)
}

/// As [`execute`], taking turns with another program.
fn execute_beside(
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
        Ok::<_, Failure>(Peer::transformers(
            python,
            &script,
            &gorgon_workflows::load::folder(&options.model, settings)?,
        )?)
    };
    let mut peer = python.map(start).transpose()?;
    let (runs, peer) = measure(&mut setup, rounds, peer.as_mut(), settings)?;
    let Some(summary) = summarise(&runs) else {
        return Err(Failure::run("no run took a step: the answers have one token each"));
    };
    remember(options, &setup, &summary, &runs, settings)?;
    let recorded = setup.recorded.as_mut().map(|pair| recording::report(pair.take_counts(), settings));
    let document = json!({
        "recorded": recorded, "model": options.model, "drafter": setup.drafting.name(), "tree": setup.drafting.tree_name,
        "accept": setup.rule_name, "lossless": setup.rule.is_lossless(), "prompts": setup.prompts.len(),
        "rounds": rounds, "max_new_tokens": setup.limits.max_new_tokens, "threads": rayon::current_num_threads(),
        "summary": summary, "peer_plain_tokens_per_second": peer, "categories": by_category(&runs), "runs": runs,
    });
    Ok(Measured { document, peer, setup, summary, runs })
}

/// All rounds; another program has its turn after each.
fn measure(
    setup: &mut Setup,
    rounds: usize,
    mut peer: Option<&mut Peer>,
    settings: &Settings,
) -> Result<(Vec<Run>, Vec<f64>), Failure> {
    let bar = progress::count(settings.progress, "pairs of runs", (rounds * setup.prompts.len()) as u64);
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
            runs.extend(setup.comparison(settings.seed).run_round(group, round, &mut || bar.inc(1))?);
        }
        if let Some(peer) = &mut peer {
            speeds.push(peer.tokens_per_second()?);
        }
    }
    bar.finish_and_clear();
    Ok((runs, speeds))
}

/// Stores what was measured with the heads, if heads alone drafted.
fn remember(
    options: &Options,
    setup: &Setup,
    summary: &Summary,
    runs: &[Run],
    settings: &Settings,
) -> Result<(), Failure> {
    let Some((DrafterChoice::Heads(_), folder)) = setup.drafting.heads() else { return Ok(()) };
    let decoded = Decoded {
        prompts: &options.prompts,
        tree: &setup.drafting.tree_name,
        accept: &setup.rule_name,
        temperature: options.transform.temperature(),
    };
    BenchRecord::new(decoded, summary, &by_category(runs), settings)?.store(&folder.path);
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

fn print(setup: &Setup, summary: &Summary, runs: &[Run], markdown: bool) {
    let columns = ["plain", "drafted", "speed-up", "tokens/step", "eta", "nodes/step", "same text"];
    let mut table = Table::new(std::iter::once(Column::text("category")).chain(columns.map(Column::number)));
    for (category, summary) in &by_category(runs) {
        table.row(row(category, summary));
    }
    table.row(row("all", summary));
    match markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
    let depths: Vec<String> = summary.acceptance_by_depth.iter().map(|share| format!("{share:.2}")).collect();
    let [draft, verify, accept, commit, other] = summary.time_shares.map(|share| format!("{:.0} %", 100.0 * share));
    printer::line(&format!("steps with at least 1, 2, ... drafts accepted: {}", depths.join(" ")));
    match setup.recorded {
        Some(_) => printer::line("steps were recorded, so their parts were not timed; speeds in tokens/s"),
        None => printer::line(&format!(
            "time: draft {draft}, verify {verify}, accept {accept}, commit {commit}, other {other}; speeds in tokens/s"
        )),
    }
    let lossless = if setup.rule.is_lossless() { "lossless" } else { "not lossless" };
    let (name, tree) = (setup.drafting.name(), &setup.drafting.tree_name);
    printer::line(&format!("{name} with tree {tree}, {} ({lossless})", setup.rule_name));
}

fn row(name: &str, s: &Summary) -> [String; 8] {
    [
        name.to_owned(),
        format!("{:.1}", s.plain_tokens_per_second),
        format!("{:.1}", s.drafted_tokens_per_second),
        format!("{:.2} ({:.2}-{:.2})", s.speedup, s.speedup_range.0, s.speedup_range.1),
        format!("{:.2}", s.tokens_per_step),
        format!("{:.2}", s.eta),
        format!("{:.1}", s.nodes_per_step),
        format!("{}/{}", s.same_text, s.pairs),
    ]
}
