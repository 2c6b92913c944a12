//! Fitting Medusa heads on a GPU: with states that were kept, and after the backbone's pass.

use super::SuiteReport;
use super::gpu_step::{GpuOptions, HEADS};
use crate::BenchError;
use gorgon_kernels::TableFormat;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_train::head_step::{HeadStep, HeadStepOptions};
use gorgon_train::methods::Features;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Steps that are timed together: the device is waited for once.
const STEPS: usize = 4;
/// Rows of logits in memory at once, here and in the program beside.
const CHUNK_ROWS: usize = 1024;

/// Positions of a step and tokens of a conversation: a step of 8,192 tokens where the shape is a model's.
fn sizes(options: &GpuOptions) -> (usize, usize) {
    if options.shape.is_large() { (8192, 2048) } else { (256, 128) }
}

fn setting(options: &GpuOptions) -> HeadStepOptions {
    let format = match options.compute.format() {
        FloatFormat::Bf16 => TableFormat::Bf16,
        FloatFormat::F32 | FloatFormat::F16 => TableFormat::F32,
    };
    HeadStepOptions {
        hidden: options.shape.llama.hidden_size,
        vocab: options.shape.llama.vocab_size,
        heads: HEADS,
        positions: sizes(options).0,
        parts: 1,
        chunk_rows: CHUNK_ROWS,
        format,
        device: options.compute.device().clone(),
    }
}

/// Adds tokens per second of fitting four heads that share the LM head; the last loss goes into the rows.
pub(super) fn training(
    options: &GpuOptions,
    decoder: &Arc<Decoder>,
    report: &mut SuiteReport,
    observe: &mut dyn FnMut(&str),
) -> Result<(), BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Empty(format!("training: {error}"));
    let (positions, length) = sizes(options);
    let (setting, device) = (setting(options), options.compute.device());
    let format = setting.format;
    let features = Features { decoder: decoder.clone(), cache: None };
    let name = format!("{} {}", options.shape.name, options.compute.format().name());
    // 27,000 tokens a second are asked for of the whole step on 7B parameters.
    let target = (options.shape.name == super::Shape::VICUNA_7B.name).then_some((27_000.0, true));
    for (what, backbone, target) in [("states kept", None, None), ("with the backbone", Some(&features), target)] {
        let mut step = HeadStep::new(&setting).map_err(|error| failed(&error))?;
        let mut speeds = vec![];
        for round in 0..options.rounds + 1 {
            let (started, mut loss) = (Instant::now(), 0.0);
            for _ in 0..STEPS {
                loss = match backbone {
                    Some(features) => step.step_after(features, length).map_err(|error| failed(&error))?,
                    None => step.step(),
                };
            }
            device.sync().map_err(|error| failed(&format!("{error:?}")))?;
            let speed = (STEPS * positions) as f64 / started.elapsed().as_secs_f64();
            observe(&format!("round {round}, {what}: {speed:.0} tokens/s"));
            // The first round compiles.
            if round > 0 {
                speeds.push(speed);
            }
            report.rows.push(json!({
                "what": "training", "states": what, "round": round, "positions": positions, "heads": HEADS,
                "lm_head": format!("{format:?}"), "tokens_per_second": speed, "loss": loss,
            }));
        }
        report.add(&format!("Medusa-1 training ({what}), tokens/s"), &name, speeds, target);
    }
    Ok(())
}
