//! `results.json`: what came of a finished run.

use super::plots::curve;
use crate::failure::Failure;
use crate::files;
use gorgon_runs::provenance::hash_file;
use gorgon_runs::run_dir::RunView;
use gorgon_runs::{json, metrics};
use gorgon_train::evaluation::{HeadMetrics, MedusaTwoMetrics, Metrics};
use serde::Serialize;
use serde_json::{Value, json};
use std::slice::from_ref;

/// Of the logged steps, the last `1 / TAIL` count for the training losses: a single step's loss is noisy.
const TAIL: usize = 10;

/// The fitted method.
#[derive(Clone, Copy, Debug)]
pub struct Fitted<'a> {
    /// A method of `gorgon train`, or `pretrain`.
    pub method: &'a str,
    /// The target as the config names it; of a pretraining, the model that was written.
    pub model: &'a str,
    /// Parameters that were fitted.
    pub parameters: usize,
}

/// `results.json` of a finished training or pretraining. A number that was not measured, or is not finite, is `null`.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// A method of `gorgon train`, or `pretrain`.
    pub method: String,
    /// The target as the config names it; of a pretraining, the model that was written.
    pub model: String,
    /// Parameters that were fitted.
    pub parameters: usize,
    /// Steps of the run.
    pub steps: u64,
    /// The step of the checkpoint that did best on held-out text. Its heads are published.
    pub best_step: u64,
    /// On training text: means over the last tenth of the logged steps.
    pub train: Losses,
    /// On held-out text, of the best checkpoint.
    pub held_out: Losses,
    /// Tokens per step (τ) of the best checkpoint, the bonus token included.
    pub tokens_per_step: TokensPerStep,
    /// Tokens that training read per second: the median over the logged steps, evaluations apart.
    pub training_tokens_per_second: Option<f64>,
    /// Memory, disk and time: planned, measured, and the first over the second.
    pub plan: Value,
    /// SHA-256 of `provenance.json`, which identifies the run.
    pub provenance_sha256: String,
}

/// Losses and accuracies. Lists have an entry for each head, or for each unrolled step of EAGLE-3.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losses {
    /// The minimised loss, in nats per token; weighted over the heads.
    pub loss: Option<f64>,
    /// Cross-entropy of each head, in nats per token.
    pub head_loss: Vec<Option<f64>>,
    /// Share of tokens that are the first guess of each head.
    pub top1: Vec<Option<f64>>,
    /// Share of tokens among the first five guesses of each head.
    pub top5: Vec<Option<f64>>,
}

/// Tokens per step on held-out text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TokensPerStep {
    /// Expected from the accuracies, with a chain of first guesses.
    pub chain_expected: Option<f64>,
    /// Expected from the accuracies, with the tree `mc_sim_7b_63`.
    pub tree_expected: Option<f64>,
    /// Measured: held-out prompts decoded greedily.
    pub decoded: Option<f64>,
}

impl Results {
    /// Reads the metrics of a run whose last step is done.
    ///
    /// # Errors
    /// When metrics, checkpoints or provenance cannot be read.
    pub fn read(run: &RunView, fitted: &Fitted<'_>, plan: Value) -> Result<Self, Failure> {
        let records = metrics::read(&run.metrics())?;
        let steps = run.steps()?.last().copied().unwrap_or(0);
        let best_step = run.best()?.unwrap_or(steps);
        let evaluation = measured(run, &records, best_step)?;
        let path = run.provenance();
        let provenance_sha256 =
            hash_file(&path).map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
        Ok(Self {
            method: fitted.method.into(),
            model: fitted.model.into(),
            parameters: fitted.parameters,
            steps,
            best_step,
            train: Losses::of_training(&records),
            held_out: evaluation.as_ref().map(Losses::of_evaluation).unwrap_or_default(),
            tokens_per_step: evaluation.as_ref().map(TokensPerStep::of_evaluation).unwrap_or_default(),
            training_tokens_per_second: gorgon_bench::median(numbers(&records, "tokens_per_second")),
            plan: earlier_plan(run, steps).unwrap_or(plan),
            provenance_sha256,
        })
    }

    /// Writes the file into the run folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, run: &RunView) -> Result<(), Failure> {
        files::write_json(&run.results(), &json!(self))
    }
}

/// The plan of a run that had finished before it was resumed, without further steps: nothing new was measured.
fn earlier_plan(run: &RunView, steps: u64) -> Option<Value> {
    let before: Value = json::read(&std::fs::read(run.results()).ok()?).ok()?;
    (before["steps"] == steps).then(|| before["plan"].clone()).filter(Value::is_object)
}

/// The newest evaluation of a step.
pub fn evaluation(records: &[Value], step: u64) -> Option<&Value> {
    records.iter().rev().filter(|record| record["step"] == step).find_map(|record| record.get("evaluation"))
}

/// The newest evaluation of a step, if there is one.
///
/// # Errors
/// When it is no record of an evaluation.
pub fn measured(run: &RunView, records: &[Value], step: u64) -> Result<Option<Metrics>, Failure> {
    let wrong = |error: serde_json::Error| {
        Failure::run(format!("{}: the evaluation of step {step}: {error}", run.metrics().display()))
    };
    evaluation(records, step).map(Metrics::read).transpose().map_err(wrong)
}

fn numbers(records: &[Value], key: &str) -> Vec<f64> {
    curve(records, key).into_iter().filter_map(|(_, value)| value.as_f64()).collect()
}

impl Losses {
    fn of_training(records: &[Value]) -> Self {
        let mean = |key: &str| {
            let all = numbers(records, key);
            let tail = &all[all.len() - all.len().div_ceil(TAIL)..];
            (!tail.is_empty()).then(|| gorgon_bench::mean(tail))
        };
        // A method has heads, or unrolled steps, or neither.
        let each = |what: &str| -> Vec<Option<f64>> {
            let of = |part: &'static str| {
                (1..).map_while(|i: usize| mean(&format!("{part}{i}_{what}"))).collect::<Vec<f64>>()
            };
            [of("head"), of("step")].concat().into_iter().map(Some).collect()
        };
        let top1 = each("top1");
        Self {
            loss: mean("loss"),
            head_loss: each("loss"),
            top1: if top1.is_empty() {
                mean("top1").or(mean("answer_top1")).map(Some).into_iter().collect()
            } else {
                top1
            },
            top5: vec![],
        }
    }

    /// From a record of held-out text.
    pub fn of_evaluation(evaluation: &Metrics) -> Self {
        let (head_loss, top1, top5): (&[f64], &[f64], &[f64]) = match evaluation {
            Metrics::Heads(HeadMetrics { ranks, .. })
            | Metrics::MedusaTwo(MedusaTwoMetrics { ranks, .. })
            | Metrics::SpaceSft(MedusaTwoMetrics { ranks, .. }) => (&ranks.head_loss, &ranks.top1, &ranks.top5),
            Metrics::Eagle(eagle) => (&[], from_ref(&eagle.top1), from_ref(&eagle.top5)),
            Metrics::Eagle3(eagle) => (&eagle.step_loss, &eagle.step_top1, from_ref(&eagle.top5)),
            Metrics::Kangaroo(adapter) => (&[], from_ref(&adapter.top1), from_ref(&adapter.top5)),
            Metrics::LayerSkip(model) => (&model.exit_loss, &model.exit_top1, &[]),
            Metrics::Block(block) => (&block.slot_loss, &block.slot_top1, &[]),
            Metrics::Cllm(model) => (&[], from_ref(&model.agreement), &[]),
            Metrics::DistillSpec(model) => (&[], from_ref(&model.top1), &[]),
            Metrics::Pretrain(model) => (&[], from_ref(&model.answer_top1), &[]),
        };
        let list = |numbers: &[f64]| numbers.iter().copied().map(finite).collect();
        Self { loss: finite(evaluation.loss()), head_loss: list(head_loss), top1: list(top1), top5: list(top5) }
    }
}

impl TokensPerStep {
    /// From a record of held-out text.
    pub fn of_evaluation(evaluation: &Metrics) -> Self {
        let decoded = evaluation.tau().and_then(finite);
        match evaluation {
            Metrics::Heads(HeadMetrics { ranks, .. })
            | Metrics::MedusaTwo(MedusaTwoMetrics { ranks, .. })
            | Metrics::SpaceSft(MedusaTwoMetrics { ranks, .. }) => {
                Self { chain_expected: finite(ranks.length_chain), tree_expected: finite(ranks.length_tree), decoded }
            }
            Metrics::Eagle(_)
            | Metrics::Eagle3(_)
            | Metrics::Block(_)
            | Metrics::Cllm(_)
            | Metrics::Kangaroo(_)
            | Metrics::LayerSkip(_)
            | Metrics::DistillSpec(_)
            | Metrics::Pretrain(_) => Self { decoded, ..Self::default() },
        }
    }
}

fn finite(number: f64) -> Option<f64> {
    Some(number).filter(|number| number.is_finite())
}
