//! `gorgon bench`: plain and drafted decoding side by side.

mod remote;

use crate::args::Bench;
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::measure::Summary;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::files;
use gorgon_workflows::measuring::side_by_side::{Measured, execute_beside};
use std::process::ExitCode;

pub fn run(args: &Bench, settings: &Settings) -> Result<ExitCode, Failure> {
    args.out.iter().chain(&args.plot).try_for_each(|path| files::check_output(path))?;
    if let Some(url) = &args.url {
        return remote::run(args, url, settings);
    }
    let measured = execute_beside(&args.measure.options()?, args.rounds as usize, args.python.as_deref(), settings)?;
    files::store_rows(args.out.as_deref(), &measured.document, settings)?;
    match settings.json {
        true => printer::document(&measured.document.to_string()),
        false => print(&measured, args.markdown),
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

/// The table and what stands below it.
pub fn print(measured: &Measured, markdown: bool) {
    let Measured { setup, summary, categories, .. } = measured;
    let columns = ["plain", "drafted", "speed-up", "tokens/step", "eta", "nodes/step", "same text"];
    let spare =
        |name| if matches!(name, "eta" | "nodes/step") { Column::number(name).spare() } else { Column::number(name) };
    let mut table = Table::new(std::iter::once(Column::text("category")).chain(columns.map(spare)));
    for (category, summary) in categories {
        table.row(row(category, summary));
    }
    table.row(row("all", summary));
    match markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
    let depths: Vec<String> = summary.acceptance_by_depth.iter().map(|share| format!("{share:.2}")).collect();
    let [draft, verify, accept, commit, other] = summary.time_shares.map(|share| format!("{:.0} %", 100.0 * share));
    let depths = if depths.is_empty() { "none".into() } else { depths.join(" ") };
    printer::line(&format!("steps with at least 1, 2, ... drafts accepted: {depths}"));
    match setup.recorded {
        Some(_) => printer::line("steps were recorded, so their parts were not timed; speeds in tokens/s"),
        None => printer::line(&format!(
            "time: draft {draft}, verify {verify}, accept {accept}, commit {commit}, other {other}; speeds in tokens/s"
        )),
    }
    let lossless = if setup.rule.is_lossless() { "lossless" } else { "not lossless" };
    let (name, tree) = (setup.drafting.name(), &setup.drafting.tree_name);
    printer::line(&format!("{name} with tree {tree}, {} ({lossless})", setup.rule_name));
    if let Some(peer) = gorgon_bench::median(measured.peer.clone()) {
        let ratio = summary.plain_tokens_per_second / peer;
        printer::line(&format!(
            "transformers, plain, same weights: {peer:.1} tokens/s; plain decoding here is {ratio:.2} times as fast"
        ));
    }
}

fn row(name: &str, s: &Summary) -> [String; 8] {
    [
        name.to_owned(),
        format!("{:.1}", s.plain_tokens_per_second),
        format!("{:.1}", s.drafted_tokens_per_second),
        match s.speedup_range {
            (low, high) if low == high => format!("{:.2}", s.speedup),
            (low, high) => format!("{:.2} ({low:.2}-{high:.2})", s.speedup),
        },
        format!("{:.2}", s.tokens_per_step),
        format!("{:.2}", s.eta),
        format!("{:.1}", s.nodes_per_step),
        format!("{}/{}", s.same_text, s.pairs),
    ]
}
