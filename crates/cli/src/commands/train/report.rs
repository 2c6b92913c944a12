//! The results that a training prints when it is done.

use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::table::{Column, Table};
use gorgon_train::evaluation::{
    BlockMetrics, Decoded, DistillSpecMetrics, Eagle3Metrics, EagleMetrics, HeadRanks, KangarooMetrics,
    LayerSkipMetrics, MedusaTwoMetrics, Metrics,
};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::fitting::{FITTED_MODEL, MERGED, evaluation, measured};
use gorgon_workflows::train::{best, fitted};
use serde_json::json;

/// Says how good the heads are.
pub fn report(run: &RunDir, settings: &Settings) -> Result<(), Failure> {
    let (best, heads) = (best(run)?, fitted(run));
    let records = gorgon_runs::metrics::read(&run.metrics())?;
    if settings.json {
        let document = json!({
            "run": run.path().display().to_string(), "heads": heads.display().to_string(),
            "step": best, "evaluation": evaluation(&records, best),
        });
        printer::document(&document.to_string());
        return Ok(());
    }
    match measured(run, &records, best)? {
        Some(Metrics::Heads(metrics)) => print_heads(&metrics.ranks, metrics.tau),
        Some(Metrics::MedusaTwo(metrics)) => print_both(&metrics, "medusa2.kl_bound"),
        Some(Metrics::SpaceSft(metrics)) => print_both(&metrics, "space_sft.kl_bound"),
        Some(Metrics::Eagle(metrics)) => print_layer(&metrics),
        Some(Metrics::Eagle3(metrics)) => print_steps(&metrics),
        Some(Metrics::Kangaroo(metrics)) => print_adapter(&metrics),
        Some(Metrics::LayerSkip(metrics)) => print_exits(&metrics),
        Some(Metrics::Block(metrics)) => print_slots(&metrics),
        Some(Metrics::Cllm(metrics)) => {
            print_language(
                (metrics.kl, metrics.agreement, [metrics.perplexity_before, metrics.perplexity]),
                metrics.degraded.then_some("cllm.kl_bound"),
            );
            print_lengths(metrics.decoded.as_ref(), "Jacobi decoding");
        }
        Some(Metrics::DistillSpec(metrics)) => print_model(&metrics),
        Some(Metrics::Pretrain(_)) | None => {}
    }
    let is_model = heads.ends_with(FITTED_MODEL) || heads.ends_with(MERGED);
    let what = if is_model { "model" } else { "heads" };
    settings.console.say(format!("best step {best}; {what} in {}", heads.display()));
    Ok(())
}

/// Heads, and the backbone that was fitted with them within a bound.
fn print_both(metrics: &MedusaTwoMetrics, bound: &'static str) {
    print_heads(&metrics.ranks, metrics.tau);
    print_language(
        (metrics.kl, metrics.agreement, [metrics.perplexity_before, metrics.perplexity]),
        metrics.degraded.then_some(bound),
    );
}

fn print_heads(ranks: &HeadRanks, tau: Option<f64>) {
    let mut table =
        Table::new([Column::number("head"), Column::number("loss"), Column::number("top-1"), Column::number("top-5")]);
    for (head, loss) in ranks.head_loss.iter().enumerate() {
        let of = |list: &[f64]| number(list.get(head).copied().unwrap_or(f64::NAN));
        table.row([(head + 1).to_string(), number(*loss), of(&ranks.top1), of(&ranks.top5)]);
    }
    printer::table(&table);
    let tree = match ranks.length_tree.is_finite() {
        true => format!(", {:.2} with the tree mc_sim_7b_63", ranks.length_tree),
        false => String::new(),
    };
    let chain = ranks.length_chain;
    printer::line(&format!("expected tokens per step on held-out text: {chain:.2} with a chain{tree}"));
    if let Some(tau) = tau {
        printer::line(&format!("tokens per step when decoding held-out prompts: {tau:.2}"));
    }
}

/// How far a fitted backbone is from the original: divergence, agreement, perplexity before and after. The bound is
/// named if it is exceeded.
fn print_language((kl, agreement, [before, after]): (f64, f64, [f64; 2]), exceeded: Option<&str>) {
    printer::line(&format!(
        "backbone on held-out answers: {kl:.4} nats per token from the original, same first guess at {:.1} % of them; \
         perplexity {before:.3} before, {after:.3} after",
        100.0 * agreement
    ));
    if let Some(bound) = exceeded {
        printer::line(&format!("the backbone is further from the original than {bound} allows: this run degraded it"));
    }
}

/// A number as it is printed.
fn number(number: f64) -> String {
    if number.is_finite() { format!("{number:.3}") } else { "-".into() }
}

fn print_model(metrics: &DistillSpecMetrics) {
    let mut table = Table::new(["divergence", "acceptance", "top-1"].map(Column::number));
    table.row([metrics.loss, metrics.acceptance, metrics.top1].map(number));
    printer::table(&table);
    print_lengths(metrics.decoded.as_ref(), "chain:4");
}

fn print_layer(metrics: &EagleMetrics) {
    let columns = ["smooth L1", "cross-entropy", "top-1", "top-5"].map(Column::number);
    let mut table = Table::new(columns);
    table.row([metrics.regression, metrics.cross_entropy, metrics.top1, metrics.top5].map(number));
    printer::table(&table);
    print_lengths(metrics.decoded.as_ref(), "dynamic:60,5,10");
}

/// LayerSkip: the exit behind every layer.
fn print_exits(metrics: &LayerSkipMetrics) {
    let mut table = Table::new(["layers", "cross-entropy", "top-1"].map(Column::number));
    for (i, (&loss, &top1)) in metrics.exit_loss.iter().zip(&metrics.exit_top1).enumerate() {
        table.row([(i + 1).to_string(), number(loss), number(top1)]);
    }
    printer::table(&table);
    print_lengths(metrics.decoded.as_ref(), "chain:6");
}

fn print_adapter(metrics: &KangarooMetrics) {
    let mut table = Table::new(["cross-entropy", "top-1", "top-5"].map(Column::number));
    table.row([metrics.loss, metrics.top1, metrics.top5].map(number));
    printer::table(&table);
    print_lengths(metrics.decoded.as_ref(), "chain:6");
}

/// EAGLE-3: every step of the unrolled layer.
fn print_steps(metrics: &Eagle3Metrics) {
    let mut table = Table::new(["step", "cross-entropy", "top-1"].map(Column::number));
    for (i, (&loss, &top1)) in metrics.step_loss.iter().zip(&metrics.step_top1).enumerate() {
        table.row([(i + 1).to_string(), number(loss), number(top1)]);
    }
    printer::table(&table);
    printer::line(&format!("{:.1} % of the backbone's tokens can be drafted", 100.0 * metrics.draftable));
    print_lengths(metrics.decoded.as_ref(), "dynamic:60,5,10");
}

/// A block drafter: every slot that is drafted.
fn print_slots(metrics: &BlockMetrics) {
    let mut table = Table::new(["slot", "cross-entropy", "top-1"].map(Column::number));
    for (i, (&loss, &top1)) in metrics.slot_loss.iter().zip(&metrics.slot_top1).enumerate() {
        table.row([(i + 1).to_string(), number(loss), number(top1)]);
    }
    printer::table(&table);
    print_lengths(metrics.decoded.as_ref(), "trellis:60");
}

/// The results of decoding held-out prompts.
fn print_lengths(decoded: Option<&Decoded>, tree: &str) {
    let Some(Decoded { tokens_per_step, by_depth }) = decoded else { return };
    let depths: Vec<String> = by_depth.iter().map(|share| format!("{share:.2}")).collect();
    printer::line(&format!(
        "tokens per step when decoding held-out prompts with {tree}: {tokens_per_step:.2}; steps with at least 1, 2, ... \
         drafts accepted: {}",
        depths.join(" ")
    ));
}
