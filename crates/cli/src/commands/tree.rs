//! `gorgon tree`: calibrating and showing trees.

use crate::args::{Calibrate, Sequoia, Show, TreeCommand};
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{PublishedTree, TreeBuilder, TreeChoice, TreeShape};
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::drafting::sequoia_choice;
use gorgon_workflows::drafting::stored_tree::{self, TREE_FILE};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use gorgon_workflows::measuring::calibration::{Calibrated, measure_and_store};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The hint about heads that were not measured.
const CALIBRATE: &str = "gorgon tree calibrate measures it";

pub fn run(command: &TreeCommand, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        TreeCommand::Calibrate(args) => calibrate(args, settings),
        TreeCommand::Sequoia(args) => sequoia(args, settings),
        TreeCommand::Show(args) => show(args, settings),
        TreeCommand::Plan(args) => super::plan::run(args, settings),
    }
}

fn sequoia(args: &Sequoia, settings: &Settings) -> Result<ExitCode, Failure> {
    let folder = load::heads(&args.heads, &settings.console)?;
    let unmeasured = || Failure::input(format!("{}: not calibrated", folder.path.display())).hint(CALIBRATE);
    let record = CalibrationRecord::read(&folder.path)?.ok_or_else(unmeasured)?;
    let choice = sequoia_choice(&record, args.nodes.map(usize::from))?;
    let paths: Vec<&[usize]> = choice.shape.paths().iter().map(Vec::as_slice).filter(|p| !p.is_empty()).collect();
    let path = stored_tree::store(&folder.path, &paths)?;
    match settings.json {
        true => printer::document(
            &json!({"tree": paths, "nodes": choice.shape.len(), "acceptance": record.children,
                "expected_tokens_per_step": choice.tokens, "expected_speedup": choice.speedup})
            .to_string(),
        ),
        false => {
            printer::piece(&picture(&choice.shape));
            printer::line(&format!(
                "{} nodes, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
                choice.shape.len(),
                choice.tokens,
                choice.speedup
            ));
        }
    }
    settings.console.say(format!("stored as {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn calibrate(args: &Calibrate, settings: &Settings) -> Result<ExitCode, Failure> {
    let (found, path) = measure_and_store(&args.measure.options()?, args.rounds as usize, settings)?;
    if settings.json {
        printer::document(&found.document().to_string());
        return Ok(ExitCode::SUCCESS);
    }
    report(&found);
    settings.console.say(format!("stored as {}", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Prints the tables and the picture.
pub fn report(found: &Calibrated) {
    let Calibrated { accuracies, times, choice, .. } = found;
    let mut table = Table::new(["depth", "1st guess", "2nd", "3rd", "4th", "5th"].map(Column::number));
    for (head, row) in accuracies.heads.heads().iter().enumerate() {
        let shares = row.iter().take(5).map(|share| format!("{share:.3}"));
        table.row(std::iter::once((head + 1).to_string()).chain(shares));
    }
    printer::table(&table);
    let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::NAN, |time| time.seconds);
    let mut table = Table::new(["nodes", "step, ms", "over plain", "spread, %"].map(Column::number));
    for time in times {
        let name = if time.nodes == 1 { "plain".to_owned() } else { time.nodes.to_string() };
        let (milliseconds, ratio) = (format!("{:.3}", time.seconds * 1e3), format!("{:.2}", time.seconds / plain));
        table.row([name, milliseconds, ratio, format!("{:.0}", time.spread * 100.0)]);
    }
    printer::table(&table);
    if let Some((nodes, speedup)) = choice.doubtful {
        printer::line(&format!(
            "{nodes} nodes might be {speedup:.2} times as fast as plain decoding, but the times spread by more than that gain: \
             they are not used (on an idle machine, or with more --rounds, times spread less)"
        ));
    }
    if choice.shape.len() < 2 {
        printer::line("no tree is expected to beat plain decoding here: generate will decode plainly with these heads");
        return;
    }
    printer::piece(&picture(&choice.shape));
    printer::line(&format!(
        "{} nodes, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
        choice.shape.len(),
        choice.expected_tokens,
        choice.expected_speedup
    ));
}

/// A tree as indented lines: each node with its rank.
fn picture(shape: &TreeShape) -> String {
    let mut lines = vec!["root".to_owned()];
    draw(shape, 0, "", &mut lines);
    lines.join("\n") + "\n"
}

fn draw(shape: &TreeShape, node: usize, indent: &str, lines: &mut Vec<String>) {
    let children: Vec<usize> = (1..shape.len()).filter(|&child| shape.parents()[child] == node).collect();
    for (i, &child) in children.iter().enumerate() {
        let last = i + 1 == children.len();
        let rank = shape.path(child).last().copied().unwrap_or(0);
        lines.push(format!("{indent}{} {rank}", if last { "└─" } else { "├─" }));
        draw(shape, child, &format!("{indent}{}  ", if last { " " } else { "│" }), lines);
    }
}

fn show(args: &Show, settings: &Settings) -> Result<ExitCode, Failure> {
    let shape = match (&args.heads, &args.tree) {
        (_, Some(TreeChoice::Published(published))) => published.shape().clone(),
        (_, Some(TreeChoice::Chain(chain))) => {
            let paths = (1..=chain.max_depth()).map(|depth| vec![0; depth]).collect();
            TreeShape::new(paths).map_err(Failure::input)?
        }
        (_, Some(TreeChoice::File(path))) => stored_tree::file(path)?,
        (Some(heads), _) => {
            let folder = load::heads(heads, &settings.console)?;
            stored_tree::file(&folder.path.join(TREE_FILE))?
        }
        (None, None) => "mc_sim_7b_63".parse::<PublishedTree>().map_err(Failure::input)?.shape().clone(),
        (None, Some(other)) => {
            return Err(Failure::input(format!(
                "{other}: its shape depends on the drafts of each step; show draws chain:N, published lists and files"
            )));
        }
    };
    let paths: Vec<Value> = shape.paths().iter().filter(|p| !p.is_empty()).map(|p| json!(p)).collect();
    match settings.json {
        true => {
            printer::document(&json!({"nodes": shape.len(), "depth": shape.max_depth(), "paths": paths}).to_string())
        }
        false => printer::piece(&picture(&shape)),
    }
    Ok(ExitCode::SUCCESS)
}
