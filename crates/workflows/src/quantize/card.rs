//! The model card of a quantised model. It names no path of the machine that it was written on.

use super::report::{Report, scales};
use crate::failure::Failure;
use std::path::Path;

/// Writes the card.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(report: &Report, path: &Path) -> Result<(), Failure> {
    gorgon_runs::atomic::write(path, |file| file.write_all(text(report).as_bytes()))
        .map_err(|error| Failure::io(path, &error))
}

fn text(report: &Report) -> String {
    let name = report.source.id.as_deref().unwrap_or(&report.source.name);
    let base = report.source.id.as_ref().map_or(String::new(), |id| format!("base_model: {id}\n"));
    let lines: Vec<String> = report.lines().iter().map(|line| format!("* {}", line.trim())).collect();
    format!(
        "---\n{base}tags:\n- compressed-tensors\n- {to}\n---\n\n# {name} in {to}\n\nThe linear layers of {name}, rounded \
         to nearest by gorgon {}. The scales come from {}. Activations are not quantised. The format is \
         compressed-tensors, `pack-quantized`; `quantize.json` has all numbers below.\n\n{}\n{}\n",
        report.build,
        scales(report.search),
        report.table().to_markdown(),
        lines.join("\n"),
        to = report.to,
    )
}
