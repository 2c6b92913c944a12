//! Is what was trained what will be served? Heads are read back from where they will be looked for, loaded as any
//! user's are, and decode the held-out prompts of the evaluation once more: every acceptance length has to be the same.

use crate::console::Console;
use crate::drafting::Drafting;
use crate::failure::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_runs::metrics::{self, Metrics};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters};
use gorgon_train::config::changes_evaluation;
use gorgon_train::evaluation::{self, Decoded};
use gorgon_train::methods::OnBackbone;
use serde_json::{Map, Value, json};
use std::path::Path;

/// How far two acceptance lengths may differ on a device whose sums have no fixed order, as a share. On the CPU they
/// are equal.
const TOLERANCE: f64 = 0.02;

/// Compares what the heads in `heads` do with the evaluation of checkpoint `best` while training. Where the config or
/// the number formats were changed since, the checkpoint is evaluated again. The comparison goes into the metrics.
///
/// # Errors
/// When the heads cannot be loaded, or do something else.
pub fn check<F: OnBackbone>(
    objective: &F,
    run: &RunDir,
    best: u64,
    heads: &Path,
    settings: &Settings,
) -> Result<(), Failure> {
    let drafting = match objective.drafter() {
        Some(choice) => Drafting::resolve(None, &choice, None, &Console::silent())?,
        None => Drafting::unmeasured(heads)?,
    };
    let served = objective.served(run.path()).map_err(Failure::training)?;
    let data = served.as_ref().unwrap_or(objective.data());
    let decoder = &data.features.decoder;
    let mut loaded = drafting.load(decoder, settings.seed)?;
    let served = data.decode_with(loaded.drafter(), drafting.builder.as_ref()).map_err(Failure::training)?;
    let trained = trained(objective, run, best, settings)?;
    let exact = gorgon_kernels::host::is_host(decoder.compute().device());
    let served = served.as_ref().map_or(Value::Null, document);
    let same = is_same(&trained, &served, if exact { 0.0 } else { TOLERANCE });
    let record = json!({"step": best, "parity": {"trained": trained, "served": served, "same": same}});
    let known = metrics::read(&run.metrics())?.into_iter().rev().find(|known| known.get("parity").is_some());
    if known.as_ref() != Some(&record) {
        append(run, &record)?;
    }
    let (before, after) = (tau(&trained), tau(&served));
    if !same {
        let message = format!(
            "{}: these heads are not what was trained: {before} tokens per step in training, {after} as they are loaded",
            heads.display()
        );
        return Err(Failure::run(message));
    }
    settings.console.say(match trained.is_null() {
        true => "note: train and serve are not compared, since no held-out prompt is decoded".into(),
        false => format!("train and serve agree: {after} tokens per step with the heads read back from disk"),
    });
    Ok(())
}

fn append(run: &RunDir, record: &Value) -> Result<(), Failure> {
    let mut file = Metrics::append(&run.metrics())?;
    file.record(record)?;
    Ok(file.sync()?)
}

/// Acceptance lengths of a checkpoint as they were recorded, or as they are now where the settings were others.
fn trained<F: OnBackbone>(objective: &F, run: &RunDir, best: u64, settings: &Settings) -> Result<Value, Failure> {
    let mut held_out = objective.data().held_out.iter();
    if held_out.all(|row| objective.positions(&row.example).is_empty()) {
        return Ok(Value::Null);
    }
    let records = metrics::read(&run.metrics())?;
    let recorded = fitting::evaluation(&records, best);
    let measured = match recorded.and_then(Value::as_object).filter(|_| is_current(&records, best)) {
        Some(evaluation) => evaluation.clone(),
        None => {
            let mut parameters = objective.parameters(0);
            read_parameters(&run.step(best).join(MODEL_FILE), &mut parameters, &objective.constants())
                .map_err(Failure::training)?;
            let evaluation = objective.evaluate(&parameters).map_err(Failure::training)?;
            let measured = fitting::fields(&evaluation.metrics);
            report_other(run, best, (recorded, &measured), settings)?;
            measured
        }
    };
    let kept =
        ["tau", "accepted_by_depth"].into_iter().filter_map(|key| Some((key.into(), measured.get(key)?.clone())));
    let kept: Map<String, Value> = kept.collect();
    Ok(if kept.is_empty() { Value::Null } else { Value::Object(kept) })
}

/// Whether no setting that evaluations depend on was changed since the newest evaluation of a step.
fn is_current(records: &[Value], step: u64) -> bool {
    let is_change = |record: &Value| record["changed"]["key"].as_str().is_some_and(changes_evaluation);
    let since = records.iter().rev().take_while(|r| r["step"] != step || r.get("evaluation").is_none());
    !since.into_iter().any(is_change)
}

/// Records an evaluation that is not the one known of its step, and reports it.
fn report_other(
    run: &RunDir,
    step: u64,
    (recorded, measured): (Option<&Value>, &Map<String, Value>),
    settings: &Settings,
) -> Result<(), Failure> {
    let measured = Value::Object(measured.clone());
    // A record of an earlier version does not name its method.
    let is_other =
        |recorded: &&Value| evaluation::Metrics::read(recorded).map_or(true, |metrics| json!(metrics) != measured);
    let Some(recorded) = recorded.filter(is_other) else { return Ok(()) };
    append(run, &json!({"step": step, "evaluation": measured}))?;
    let (before, now) = (tau(recorded), tau(&measured));
    settings.console.say(format!(
        "note: step {step} was evaluated again with the changed settings: {now} tokens per step; recorded before: {before}"
    ));
    Ok(())
}

fn document(decoded: &Decoded) -> Value {
    json!({"tau": decoded.tokens_per_step, "accepted_by_depth": decoded.by_depth})
}

/// Whether all that was measured in training was found again. Not every method records shares by depth.
fn is_same(trained: &Value, served: &Value, tolerance: f64) -> bool {
    let close = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance * a.abs(),
        _ => a == b,
    };
    match trained.as_object() {
        None => trained == served,
        Some(trained) => trained.iter().all(|(key, value)| match (value.as_array(), served[key].as_array()) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b)),
            _ => close(value, &served[key]),
        }),
    }
}

fn tau(measured: &Value) -> String {
    measured["tau"].as_f64().map_or_else(|| "no".into(), |tau| format!("{tau:.4}"))
}

#[cfg(test)]
mod tests;
