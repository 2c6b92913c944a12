//! Draft heads held against their format and config.

use super::config_hints::ConfigHints;
use super::head_spec::HeadSpec;
use super::heads_format::{HeadsFormat, HeadsMethod};
use super::recognise::{DetectError, recognise};
use super::tensor_index::{Report, TensorIndex, TensorInfo};
use super::{block, eagle, hydra, kangaroo, medusa, mtp, probes};

/// Recognised draft heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: HeadsFormat,
    /// Sizes and flags that the tensors tell.
    pub spec: HeadSpec,
    /// Everything that makes the heads load wrongly, here or in the engines the format belongs to: names that are
    /// missing or unexpected, wrong shapes and types, contradictions with the config. Heads with problems must not be
    /// loaded.
    pub problems: Vec<String>,
    /// Harmless oddities, such as configs that are known to miscount heads.
    pub notes: Vec<String>,
}

/// Recognises draft heads by the names of their tensors, and compares the tensors with the format and with the
/// `config.json` beside them, if there is one.
///
/// Everything passed in may be garbage: names, shapes and the config are only compared, never believed.
///
/// # Errors
/// When the names fit no known format, or two formats at once. Heads of a known format that are damaged are recognised;
/// see [`Detected::problems`].
pub fn detect(tensors: &[TensorInfo], config: Option<&serde_json::Value>) -> Result<Detected, DetectError> {
    let index = TensorIndex::new(tensors);
    let mut report = Report::default();
    let hints = ConfigHints::new(config, &mut report);
    let format = recognise(&index, &hints)?;
    index.report_duplicates(&mut report);
    check_method(format, &hints, &mut report);
    let spec = match format.method() {
        HeadsMethod::Medusa => HeadSpec::Medusa(medusa::check(format, &index, &hints, &mut report)),
        HeadsMethod::Hydra => HeadSpec::Hydra(hydra::check(format, &index, &hints, &mut report)),
        HeadsMethod::Eagle => HeadSpec::Eagle(eagle::check(format, &index, &hints, &mut report)),
        HeadsMethod::Mtp => HeadSpec::Mtp(mtp::check(&index, &hints, &mut report)),
        HeadsMethod::Block => HeadSpec::Block(block::check(format, &index, &hints, &mut report)),
        HeadsMethod::Probes(kind) => HeadSpec::Probes(probes::check(kind, &index, &hints, &mut report)),
        HeadsMethod::Kangaroo => HeadSpec::Kangaroo(kangaroo::check(&index, &hints, &mut report)),
    };
    Ok(Detected { format, spec, problems: report.problems, notes: report.notes })
}

/// Reports a config that was written for heads of another method.
fn check_method(format: HeadsFormat, hints: &ConfigHints<'_>, report: &mut Report) {
    if let Some((method, key)) = hints.method().filter(|(method, _)| *method != format.method().name()) {
        let found = format.method();
        report.problem(format!("config.json: {key} belongs to {method} heads, but the tensors are {found} heads"));
    }
}
