//! The results that a training prints when it is done.

use crate::printer;
use crate::settings::Settings;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::fitting::FITTED_MODEL;
use gorgon_workflows::train::{best, fitted};
use serde_json::{Value, json};

/// Says how good the heads are.
pub fn report(run: &RunDir, settings: &Settings) -> Result<(), Failure> {
    let (best, heads) = (best(run)?, fitted(run));
    let records = gorgon_runs::metrics::read(&run.metrics())?;
    let measured = records.iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some());
    let measured = measured.map(|record| record["evaluation"].clone()).unwrap_or_default();
    if settings.json {
        let document = json!({
            "run": run.path().display().to_string(), "heads": heads.display().to_string(),
            "step": best, "evaluation": measured,
        });
        printer::document(&document.to_string());
        return Ok(());
    }
    let of = |key: &str| measured.get(key);
    match (of("head_loss"), of("acceptance"), of("step_loss")) {
        (Some(losses), ..) => print_heads(&measured, losses.as_array().map_or(0, Vec::len)),
        (_, Some(_), _) => print_model(&measured),
        (.., Some(_)) => print_steps(&measured),
        _ => print_layer(&measured),
    }
    print_language(&measured);
    let what = if heads.ends_with(FITTED_MODEL) { "draft model" } else { "heads" };
    settings.console.say(format!("best step {best}; {what} in {}", heads.display()));
    Ok(())
}

fn print_heads(measured: &Value, head_count: usize) {
    let mut table =
        Table::new([Column::number("head"), Column::number("loss"), Column::number("top-1"), Column::number("top-5")]);
    let of = |key: &str, head: usize| {
        let number = measured.get(key).and_then(|list| list.get(head)).and_then(Value::as_f64);
        number.map_or_else(|| "-".into(), |x| format!("{x:.3}"))
    };
    for head in 0..head_count {
        table.row([(head + 1).to_string(), of("head_loss", head), of("top1", head), of("top5", head)]);
    }
    printer::table(&table);
    let number = |key: &str| measured.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
    printer::line(&format!(
        "expected tokens per step on held-out text: {:.2} with a chain, {:.2} with the tree mc_sim_7b_63",
        number("length_chain"),
        number("length_tree")
    ));
    if let Some(tau) = measured.get("tau").and_then(Value::as_f64) {
        printer::line(&format!("tokens per step when decoding held-out prompts: {tau:.2}"));
    }
}

/// The loss of a backbone that was fitted along.
fn print_language(measured: &Value) {
    let number = |key: &str| measured.get(key).and_then(Value::as_f64);
    let (Some(kl), Some(before), Some(after)) = (number("kl"), number("perplexity_before"), number("perplexity"))
    else {
        return;
    };
    let agreement = 100.0 * number("agreement").unwrap_or(f64::NAN);
    printer::line(&format!(
        "backbone on held-out answers: {kl:.4} nats per token from the original, same first guess at {agreement:.1} % of them; \
         perplexity {before:.3} before, {after:.3} after"
    ));
    if measured["degraded"] == true {
        printer::line("the backbone is further from the original than medusa2.kl_bound allows: this run degraded it");
    }
}

/// A number of an evaluation, as it is printed.
fn number(measured: &Value, key: &str) -> String {
    measured.get(key).and_then(Value::as_f64).map_or_else(|| "-".into(), |x| format!("{x:.3}"))
}

fn print_model(measured: &Value) {
    let mut table = Table::new(["divergence", "acceptance", "top-1"].map(Column::number));
    table.row(["loss", "acceptance", "top1"].map(|key| number(measured, key)));
    printer::table(&table);
    print_lengths(measured, "chain:4");
}

fn print_layer(measured: &Value) {
    let number = |key: &str| number(measured, key);
    let columns = ["smooth L1", "cross-entropy", "top-1", "top-5"].map(Column::number);
    let mut table = Table::new(columns);
    table.row(["regression", "cross_entropy", "top1", "top5"].map(number));
    printer::table(&table);
    print_lengths(measured, "dynamic:60,5,10");
}

/// EAGLE-3: every step of the unrolled layer.
fn print_steps(measured: &Value) {
    let list = |key: &str| measured.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut table = Table::new(["step", "cross-entropy", "top-1"].map(Column::number));
    for (i, (loss, top1)) in list("step_loss").iter().zip(list("step_top1")).enumerate() {
        let number = |value: &Value| value.as_f64().map_or_else(|| "-".into(), |x| format!("{x:.3}"));
        table.row([(i + 1).to_string(), number(loss), number(&top1)]);
    }
    printer::table(&table);
    if let Some(draftable) = measured.get("draftable").and_then(Value::as_f64) {
        printer::line(&format!("{:.1} % of the backbone's tokens can be drafted", 100.0 * draftable));
    }
    print_lengths(measured, "dynamic:60,5,10");
}

/// The results of decoding held-out prompts.
fn print_lengths(measured: &Value, tree: &str) {
    let depths = measured.get("accepted_by_depth").and_then(Value::as_array).cloned().unwrap_or_default();
    let depths: Vec<String> = depths.iter().map(|share| format!("{:.2}", share.as_f64().unwrap_or(f64::NAN))).collect();
    if let Some(tau) = measured.get("tau").and_then(Value::as_f64) {
        printer::line(&format!(
            "tokens per step when decoding held-out prompts with {tree}: {tau:.2}; steps with at least 1, 2, ... drafts \
             accepted: {}",
            depths.join(" ")
        ));
    }
}
