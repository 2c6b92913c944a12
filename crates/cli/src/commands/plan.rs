//! `gorgon plan`: which chain or tree pays.

use crate::args::Plan;
use crate::commands::tree::sequoia_choice;
use crate::error::Failure;
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::stats;
use gorgon_draft::folder::HeadsFolder;
use gorgon_runs::table::{Column, Table};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Plan, settings: &Settings) -> Result<ExitCode, Failure> {
    let plan = match (&args.heads, args.alpha) {
        (Some(heads), _) => measured(heads, args)?,
        (None, Some(alpha)) => formula(alpha, args.draft_cost, args)?,
        (None, None) => return Err(Failure::input("--heads or --alpha is needed")),
    };
    match settings.json {
        true => printer::document(&plan.document().to_string()),
        false => plan.print(),
    }
    Ok(ExitCode::SUCCESS)
}

/// A chain of drafts, by the formulas and as measured.
struct Chain {
    drafts: usize,
    /// `(1 - α^{γ+1}) / (1 - α)`.
    tokens: f64,
    /// The gain if verifying a chain lasts as long as a plain step.
    gain: f64,
    operations: f64,
    /// `1 + Σ Π α_d` with acceptance by depth.
    tokens_by_depth: Option<f64>,
    /// The gain with the measured time of a step of this size.
    measured_gain: Option<f64>,
}

/// A tree that was measured or follows from what was.
struct Candidate {
    name: String,
    nodes: usize,
    tokens: f64,
    speedup: f64,
}

struct Analysis {
    alpha: f64,
    draft_cost: f64,
    chains: Vec<Chain>,
    trees: Vec<Candidate>,
    /// Nodes, and the time of a step over that of a plain one.
    steps: Vec<(usize, f64)>,
}

fn chains(alpha: f64, cost: f64, args: &Plan, longest: usize) -> Result<Vec<Chain>, Failure> {
    let operations = args.draft_operations.unwrap_or(cost);
    (1..=longest)
        .map(|drafts| {
            Ok(Chain {
                drafts,
                tokens: stats::expected_tokens(alpha, drafts).map_err(Failure::input)?,
                gain: stats::wall_time_gain(alpha, drafts, cost).map_err(Failure::input)?,
                operations: stats::operations_ratio(alpha, drafts, operations).map_err(Failure::input)?,
                tokens_by_depth: None,
                measured_gain: None,
            })
        })
        .collect()
}

fn formula(alpha: f64, draft_cost: f64, args: &Plan) -> Result<Analysis, Failure> {
    let chains = chains(alpha, draft_cost, args, usize::from(args.longest))?;
    Ok(Analysis { alpha, draft_cost, chains, trees: vec![], steps: vec![] })
}

fn measured(heads: &Path, args: &Plan) -> Result<Analysis, Failure> {
    let folder = HeadsFolder::open(heads)?;
    let record = CalibrationRecord::read(&folder.path)?;
    let hint = "gorgon tree calibrate measures it";
    let unmeasured = || Failure::input(format!("{}: not calibrated", folder.path.display())).hint(hint);
    let record = record.filter(|record| !record.chain.is_empty()).ok_or_else(unmeasured)?;
    let plain = record.plain_seconds().ok_or_else(unmeasured)?;
    // Each depth is tried as often as the chain reached it, so this is the share of all tried drafts that were right.
    let mut reached = 1.0;
    let (mut tried, mut right) = (0.0, 0.0);
    for share in &record.chain {
        tried += reached;
        reached *= share;
        right += reached;
    }
    let alpha = right / tried;
    let drafted = record.step_times.iter().filter(|time| time.nodes > record.chain.len());
    let draft = drafted.map(|time| time.draft_seconds).next().unwrap_or(0.0);
    let draft_cost = draft / plain / record.chain.len() as f64;
    let mut chains = chains(alpha, draft_cost, args, record.chain.len().min(usize::from(args.longest)))?;
    for chain in &mut chains {
        let depths = record.chain.iter().take(chain.drafts);
        let tokens = 1.0 + depths.scan(1.0, |reach, share| Some(*reach * share).inspect(|r| *reach = *r)).sum::<f64>();
        chain.tokens_by_depth = Some(tokens);
        chain.measured_gain = record.cost(chain.drafts + 1).map(|cost| tokens / cost);
    }
    let mut trees = vec![Candidate {
        name: "calibrated".into(),
        nodes: record.tree.len() + 1,
        tokens: record.expected_tokens_per_step,
        speedup: record.expected_speedup,
    }];
    if let Ok(choice) = sequoia_choice(&record, None) {
        let (nodes, tokens, speedup) = (choice.shape.len(), choice.tokens, choice.speedup);
        trees.push(Candidate { name: format!("sequoia:{nodes}"), nodes, tokens, speedup });
    }
    let steps = record.step_times.iter().map(|time| (time.nodes, time.seconds / plain)).collect();
    Ok(Analysis { alpha, draft_cost, chains, trees, steps })
}

impl Analysis {
    /// What should be fastest: its name and its gain.
    fn best(&self) -> (String, f64) {
        let chains = self.chains.iter().map(|c| (format!("chain:{}", c.drafts), c.measured_gain.unwrap_or(c.gain)));
        let trees = self.trees.iter().filter(|tree| tree.nodes > 1).map(|tree| (tree.name.clone(), tree.speedup));
        let plain = ("none".to_owned(), 1.0);
        chains.chain(trees).fold(plain, |best, next| if next.1 > best.1 { next } else { best })
    }

    fn document(&self) -> Value {
        let chain = |c: &Chain| {
            json!({"drafts": c.drafts, "expected_tokens": c.tokens, "wall_time_gain": c.gain,
                "operations_ratio": c.operations, "expected_tokens_by_depth": c.tokens_by_depth,
                "measured_gain": c.measured_gain})
        };
        let tree = |t: &Candidate| json!({"tree": t.name, "nodes": t.nodes, "expected_tokens": t.tokens, "speedup": t.speedup});
        let (tree_name, gain) = self.best();
        json!({
            "alpha": self.alpha, "draft_cost": self.draft_cost,
            "chains": self.chains.iter().map(chain).collect::<Vec<_>>(),
            "trees": self.trees.iter().map(tree).collect::<Vec<_>>(),
            "step_time_over_plain": self.steps, "recommended": {"tree": tree_name, "speedup": gain},
        })
    }

    fn print(&self) {
        printer::line(&format!(
            "alpha = {:.3}: drafts accepted of those tried; c = {:.4}: time of a draft over that of a plain step",
            self.alpha, self.draft_cost
        ));
        let columns = ["chain", "tokens", "gain", "operations", "tokens by depth", "gain as measured"];
        let mut table = Table::new(columns.map(Column::number));
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
        for c in &self.chains {
            let exact = [c.tokens, c.gain, c.operations].map(|value| format!("{value:.2}"));
            let [tokens, gain, operations] = exact;
            let (by_depth, measured) = (number(c.tokens_by_depth), number(c.measured_gain));
            table.row([c.drafts.to_string(), tokens, gain, operations, by_depth, measured]);
        }
        printer::piece(&table.to_text());
        if !self.trees.is_empty() {
            let names =
                [Column::text("tree"), Column::number("nodes"), Column::number("tokens"), Column::number("gain")];
            let mut table = Table::new(names);
            for tree in &self.trees {
                let figures = [tree.tokens, tree.speedup].map(|value| format!("{value:.2}"));
                table.row([vec![tree.name.clone(), tree.nodes.to_string()], figures.to_vec()].concat());
            }
            printer::piece(&table.to_text());
        }
        if !self.steps.is_empty() {
            let steps: Vec<String> = self.steps.iter().map(|(nodes, time)| format!("{nodes}: {time:.2}")).collect();
            printer::line(&format!("a step of n nodes over a plain one: {}", steps.join(", ")));
        }
        match self.best() {
            (_, gain) if gain <= 1.0 => printer::line("nothing pays here: decode plainly"),
            (name, gain) => {
                printer::line(&format!("--tree {name} should be {gain:.2} times as fast as plain decoding"))
            }
        }
    }
}
