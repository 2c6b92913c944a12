//! Is what was trained what will be served? Heads are read back from where they will be looked for, loaded as any
//! user's are, and decode the held-out prompts of the evaluation once more: every acceptance length has to be the same.

use crate::drafting::Drafting;
use crate::failure::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_runs::metrics::{self, Metrics};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters};
use gorgon_train::evaluation::Decoded;
use gorgon_train::methods::OnBackbone;
use serde_json::{Map, Value, json};
use std::path::Path;

/// How far two acceptance lengths may differ on a device whose sums have no fixed order, as a share. On the CPU they
/// are equal.
const TOLERANCE: f64 = 0.02;

/// Compares what the heads in `heads` do with what was measured of checkpoint `best` while training. The comparison
/// goes into the metrics.
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
    let drafting = Drafting::unmeasured(heads)?;
    let served = objective.served(run.path()).map_err(Failure::training)?;
    let data = served.as_ref().unwrap_or(objective.data());
    let decoder = &data.features.decoder;
    let mut loaded = drafting.load(decoder, settings.seed)?;
    let served = data.decode_with(loaded.drafter(), drafting.builder.as_ref()).map_err(Failure::training)?;
    let trained = trained(objective, run, best)?;
    let exact = gorgon_kernels::host::is_host(decoder.compute().device());
    let served = served.as_ref().map_or(Value::Null, document);
    let same = is_same(&trained, &served, if exact { 0.0 } else { TOLERANCE });
    let record = json!({"step": best, "parity": {"trained": trained, "served": served, "same": same}});
    let known = metrics::read(&run.metrics())?.into_iter().rev().find(|known| known.get("parity").is_some());
    if known.as_ref() != Some(&record) {
        let mut file = Metrics::append(&run.metrics())?;
        file.record(&record)?;
        file.sync()?;
    }
    let (before, after) = (tau(&trained), tau(&served));
    if !same {
        let message = format!(
            "{}: these heads are not what was trained: {before} tokens per step in training, {after} as they are loaded",
            heads.display()
        );
        return Err(Failure::run(message).hint("was an evaluation setting changed since the run's last evaluation?"));
    }
    settings.console.say(match trained.is_null() {
        true => "train and serve: not compared, since no held-out prompt is decoded".into(),
        false => format!("train and serve agree: {after} tokens per step with the heads read back from disk"),
    });
    Ok(())
}

/// What was measured of a checkpoint while training; measured now where it was not.
fn trained<F: OnBackbone>(objective: &F, run: &RunDir, best: u64) -> Result<Value, Failure> {
    let records = metrics::read(&run.metrics())?;
    let recorded = records.iter().rev().find(|r| r["step"] == best && r.get("evaluation").is_some());
    let measured = match recorded.and_then(|record| record["evaluation"].as_object()) {
        Some(evaluation) => evaluation.clone(),
        None => {
            let mut parameters = objective.parameters(0);
            read_parameters(&run.step(best).join(MODEL_FILE), &mut parameters, &objective.constants())
                .map_err(Failure::training)?;
            let evaluation = objective.evaluate(&parameters).map_err(Failure::training)?;
            fitting::fields(&evaluation.metrics)
        }
    };
    let kept =
        ["tau", "accepted_by_depth"].into_iter().filter_map(|key| Some((key.into(), measured.get(key)?.clone())));
    let kept: Map<String, Value> = kept.collect();
    Ok(if kept.is_empty() { Value::Null } else { Value::Object(kept) })
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
