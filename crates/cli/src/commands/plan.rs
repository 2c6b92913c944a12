//! `gorgon tree plan`: which chain or tree pays.

use crate::args::Plan;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::plan::{self, Analysis, Options, WORTHWHILE};
use std::process::ExitCode;

pub fn run(args: &Plan, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = Options { draft_operations: args.draft_operations, longest: usize::from(args.longest) };
    let analysis = match (&args.heads, args.alpha) {
        (Some(heads), _) => plan::measured(heads, options)?,
        (None, Some(alpha)) => plan::formula(alpha, args.draft_cost, options)?,
        (None, None) => return Err(Failure::input("--heads or --alpha is needed")),
    };
    match settings.json {
        true => printer::document(&analysis.document().to_string()),
        false => print(&analysis),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(analysis: &Analysis) {
    printer::line(&format!(
        "alpha = {:.3}: drafts accepted of those tried; c = {:.4}: time of a draft over that of a plain step",
        analysis.alpha, analysis.draft_cost
    ));
    let columns = ["chain", "tokens", "gain", "operations", "tokens by depth", "gain as measured"];
    let mut table = Table::new(columns.map(Column::number));
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
    for c in &analysis.chains {
        let exact = [c.tokens, c.gain, c.operations].map(|value| format!("{value:.2}"));
        let [tokens, gain, operations] = exact;
        let (by_depth, measured) = (number(c.tokens_by_depth), number(c.measured_gain));
        table.row([c.drafts.to_string(), tokens, gain, operations, by_depth, measured]);
    }
    printer::table(&table);
    if !analysis.trees.is_empty() {
        let names = [Column::text("tree"), Column::number("nodes"), Column::number("tokens"), Column::number("gain")];
        let mut table = Table::new(names);
        for tree in &analysis.trees {
            let figures = [tree.tokens, tree.speedup].map(|value| format!("{value:.2}"));
            table.row([vec![tree.name.clone(), tree.nodes.to_string()], figures.to_vec()].concat());
        }
        printer::table(&table);
    }
    if !analysis.steps.is_empty() {
        let steps: Vec<String> = analysis.steps.iter().map(|(nodes, time)| format!("{nodes}: {time:.2}")).collect();
        printer::line(&format!("a step of n nodes over a plain one: {}", steps.join(", ")));
    }
    match analysis.best() {
        (_, gain) if gain < WORTHWHILE => printer::line("nothing pays here: decode plainly"),
        (name, gain) => printer::line(&format!(
            "--tree {name} is predicted at {gain:.2} times plain decoding; gorgon bench --tree {name} measures it"
        )),
    }
}
