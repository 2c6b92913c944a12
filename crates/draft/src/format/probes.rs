//! Probes: one table of embeddings, whose name tells the method.

use super::config_hints::ConfigHints;
use super::head_spec::ProbeSpec;
use super::probe_kind::{MAX_MEMBERS, MAX_PLACES, ProbeKind};
use super::specs::{Size, Specs};
use super::tensor_index::{Report, TensorIndex, shown};

/// The kind of probes that a tensor's name is of.
pub(super) fn kind_of(name: &str) -> Option<ProbeKind> {
    ProbeKind::ALL.into_iter().find(|kind| kind.tensor() == name)
}

/// Compares probes of a kind with their config.
pub(super) fn check(
    kind: ProbeKind,
    index: &TensorIndex<'_>,
    hints: &ConfigHints<'_>,
    report: &mut Report,
) -> ProbeSpec {
    let mut specs = Specs::default();
    specs.matrix(kind.tensor(), Size::Probes, Size::Hidden);
    let named: Vec<_> = hints.size("hidden_size", Size::Hidden, report).into_iter().collect();
    let sizes = specs.sizes(index, &named);
    specs.check(index, &sizes, |_| false, report);
    sizes.check_hints(&named, report);
    if !hints.given() {
        report.problem("no config.json: the number of probes is unknown");
    }
    if let Some(found) = hints.text("model_type").filter(|found| *found != kind.name()) {
        report.problem(format!("config.json: model_type is {}, but the tensors are of {}", shown(found), kind.name()));
    }
    let places = hints.heads("num_probes", report);
    if hints.given() && hints.get("num_probes").is_none() {
        report.problem("config.json: num_probes is absent");
    }
    let members = hints.heads("ensemble", report).unwrap_or(1);
    if members > 1 && kind != ProbeKind::Ppd {
        report.problem(format!("config.json: ensemble is {members}, but {} has none", kind.name()));
    }
    let bounds = [("num_probes", places, MAX_PLACES), ("ensemble", Some(members), MAX_MEMBERS)];
    for (key, value, most) in bounds.map(|(key, value, most)| (key, value.unwrap_or(0), most)) {
        if value > most {
            report.problem(format!("config.json: {key} is {value}, at most {most}"));
        }
    }
    check_rows(kind, places.map(|places| places * members), sizes.get(Size::Probes), report);
    ProbeSpec {
        kind,
        places: places.unwrap_or(0),
        members,
        hidden_size: sizes.or_zero(Size::Hidden),
        vocab_size: hints.count("vocab_size", report),
        two_pass: hints.flag("two_pass", report).unwrap_or(false),
    }
}

/// One embedding for every member of every place, or one in all.
fn check_rows(kind: ProbeKind, expected: Option<usize>, found: Option<usize>, report: &mut Report) {
    let expected = if kind.is_shared() { Some(1) } else { expected };
    if let (Some(expected), Some(found)) = (expected, found)
        && expected != found
    {
        report.problem(format!("wrong shape: {} has {found} rows, not {expected}", kind.tensor()));
    }
}
