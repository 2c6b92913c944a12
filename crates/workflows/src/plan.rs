//! The analysis of speculative decoding: which chain or tree pays.

use crate::console::Console;
use crate::drafting::sequoia_choice;
use crate::failure::Failure;
use crate::load;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::stats;
use serde_json::{Value, json};
use std::path::Path;

/// The drafts that are considered.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The operations of one draft over those of a plain step; the draft cost if there are none.
    pub draft_operations: Option<f64>,
    /// The longest chain.
    pub longest: usize,
}

/// A gain that measurements can tell from none.
pub const WORTHWHILE: f64 = 1.01;

/// A chain of drafts, by the formulas and as measured.
pub struct Chain {
    /// Drafts.
    pub drafts: usize,
    /// `(1 - α^{γ+1}) / (1 - α)`.
    pub tokens: f64,
    /// The gain if verifying a chain lasts as long as a plain step.
    pub gain: f64,
    /// Operations over those of plain decoding.
    pub operations: f64,
    /// `1 + Σ Π α_d` with acceptance by depth.
    pub tokens_by_depth: Option<f64>,
    /// The gain with the measured time of a step of this size.
    pub measured_gain: Option<f64>,
}

/// A tree that was measured or follows from what was.
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Nodes, the root included.
    pub nodes: usize,
    /// Tokens per step that are expected.
    pub tokens: f64,
    /// Speed over plain decoding that is expected.
    pub speedup: f64,
}

/// Chains and trees, and what each of them gains.
pub struct Analysis {
    /// The probability that a draft is accepted, given that those before it were.
    pub alpha: f64,
    /// The time of a draft over that of a plain step.
    pub draft_cost: f64,
    /// Chains, the shortest first.
    pub chains: Vec<Chain>,
    /// Trees that were measured.
    pub trees: Vec<Candidate>,
    /// Nodes, and the time of a step over that of a plain one.
    pub steps: Vec<(usize, f64)>,
}

fn chains(alpha: f64, cost: f64, options: Options, longest: usize) -> Result<Vec<Chain>, Failure> {
    let operations = options.draft_operations.unwrap_or(cost);
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

/// By formulas alone.
///
/// # Errors
/// When a number is out of range.
pub fn formula(alpha: f64, draft_cost: f64, options: Options) -> Result<Analysis, Failure> {
    let chains = chains(alpha, draft_cost, options, options.longest)?;
    Ok(Analysis { alpha, draft_cost, chains, trees: vec![], steps: vec![] })
}

/// From what a calibration of heads measured.
///
/// # Errors
/// When the heads were not calibrated.
pub fn measured(heads: &Path, options: Options) -> Result<Analysis, Failure> {
    let folder = load::heads(heads, &Console::silent())?;
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
    let mut chains = chains(alpha, draft_cost, options, record.chain.len().min(options.longest))?;
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
    /// Name and gain of the option that should be fastest.
    pub fn best(&self) -> (String, f64) {
        let chains = self.chains.iter().map(|c| (format!("chain:{}", c.drafts), c.measured_gain.unwrap_or(c.gain)));
        let trees = self.trees.iter().filter(|tree| tree.nodes > 1).map(|tree| (tree.name.clone(), tree.speedup));
        let plain = ("none".to_owned(), 1.0);
        chains.chain(trees).fold(plain, |best, next| if next.1 > best.1 { next } else { best })
    }

    /// As a JSON document.
    pub fn document(&self) -> Value {
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
}
