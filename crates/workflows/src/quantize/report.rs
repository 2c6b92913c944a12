//! The report of a quantised model, for people and for programs.

use super::agreement::Agreement;
use super::options::Options;
use crate::failure::Failure;
use crate::units::{bytes, count, of};
use gorgon_kernels::quantised_matmul::ScaleSearch;
use gorgon_model::quantisation::{Plan, Written};
use gorgon_runs::provenance::Build;
use gorgon_runs::table::{Column, Table};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The model that is quantised.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its name, no path.
    pub name: String,
    /// Its id on the hub.
    pub id: Option<String>,
    /// Bytes of its tensors.
    pub bytes: usize,
}

/// The report.
pub(super) struct Report {
    pub source: Source,
    pub to: &'static str,
    pub search: ScaleSearch,
    /// Layers that stay as they are.
    pub ignored: Vec<String>,
    pub build: Build,
    /// Nothing yet in a dry run.
    pub written: Written,
    pub agreement: Option<Agreement>,
    /// Of the matrices as they are read back, if that was asked for.
    pub sha256: Option<BTreeMap<String, String>>,
    pub seconds: f64,
}

impl Report {
    pub fn new(args: &Options, source: Source, plan: &Plan, build: &Build) -> Self {
        Self {
            source,
            to: args.to.name(),
            search: args.search,
            ignored: plan.ignored.clone(),
            build: build.clone(),
            written: Written::default(),
            agreement: None,
            sha256: None,
            seconds: 0.0,
        }
    }

    /// Weights in integers.
    fn weights(&self) -> usize {
        self.written.kinds.values().map(|kind| kind.weights).sum()
    }

    /// Bits of a weight in integers, its share of scales counted.
    pub fn bits(&self) -> f64 {
        8.0 * self.written.quantised_bytes as f64 / self.weights().max(1) as f64
    }

    /// Everything, for programs.
    pub fn document(&self) -> Value {
        let kinds = self.written.kinds.iter().map(|((kind, group), errors)| {
            json!({
                "kind": kind, "group": group, "matrices": errors.matrices, "weights": errors.weights,
                "relative_rms_error": errors.relative(),
            })
        });
        json!({
            "gorgon": self.build.version, "commit": self.build.commit, "model": self.source.name, "base": self.source.id,
            "to": self.to, "format": "compressed-tensors pack-quantized", "scales": scales(self.search),
            "ignored": self.ignored, "kinds": kinds.collect::<Vec<_>>(), "weights_in_integers": self.weights(),
            "bits_per_weight": self.bits(), "bytes_before": self.source.bytes, "bytes_after": self.written.bytes,
            "files": self.written.files, "rounding_seconds": self.written.rounding_seconds, "seconds": self.seconds,
            "agreement": self.agreement.as_ref().map(Agreement::document), "sha256": self.sha256,
        })
    }

    /// Matrices by kind.
    pub fn table(&self) -> Table {
        let numbers = ["matrices", "weights", "inputs per scale", "relative error"].map(Column::number);
        let mut table = Table::new(std::iter::once(Column::text("kind")).chain(numbers));
        for ((kind, group), errors) in &self.written.kinds {
            let weights = count(errors.weights as u128);
            let error = format!("{:.4}", errors.relative());
            table.row([kind.clone(), errors.matrices.to_string(), weights, inputs(*group), error]);
        }
        table
    }

    /// Lines on sizes, agreement and time.
    pub fn lines(&self) -> Vec<String> {
        let (before, after) = (bytes(self.source.bytes as u64), bytes(self.written.bytes as u64));
        let weights = self.weights();
        let mut lines = vec![
            format!("stays as it is: {}", self.ignored.join(", ")),
            format!("size: {before} before, {after} after; {:.3} bits per weight in integers", self.bits()),
        ];
        if let Some(agreement) = &self.agreement {
            let (texts, positions) = (agreement.texts, agreement.exact.positions);
            lines.push(format!("compared at {positions} positions of {} of {}:", of(texts, "text"), agreement.prompts));
            for (name, found) in [("activations in f32", agreement.exact), ("activations in 8 bits", agreement.eight)] {
                let (kl, top1) = (found.mean(), 100.0 * found.top1());
                lines.push(format!("  {name}: mean KL {kl:.3e} nats per position, top-1 agreement {top1:.2} %"));
            }
        }
        let (rounding, each) =
            (self.written.rounding_seconds, 1e9 * self.written.rounding_seconds / weights.max(1) as f64);
        lines.push(format!("time: {:.1} s, {rounding:.2} s of it rounding ({each:.1} ns per weight)", self.seconds));
        lines
    }

    /// All of it, for people.
    pub fn text(&self) -> String {
        format!("{}{}\n", self.table().to_text(None), self.lines().join("\n"))
    }
}

/// The plan of a dry run.
pub(super) struct Preview<'a>(pub &'a Plan);

impl Preview<'_> {
    /// Weights by kind and size of group, in the order of a layer.
    fn sizes(&self) -> Vec<(&str, Option<usize>, usize)> {
        let mut sizes: Vec<(&str, Option<usize>, usize)> = vec![];
        for matrix in &self.0.matrices {
            match sizes.iter_mut().find(|(kind, group, _)| (*kind, *group) == (matrix.kind(), matrix.group)) {
                Some((_, _, weights)) => *weights += matrix.weights(),
                None => sizes.push((matrix.kind(), matrix.group, matrix.weights())),
            }
        }
        sizes
    }

    /// For programs.
    pub fn document(&self, to: &str) -> Value {
        let kind = |(kind, group, weights): (&str, Option<usize>, usize)| json!({"kind": kind, "group": group, "weights": weights});
        let kinds: Vec<Value> = self.sizes().into_iter().map(kind).collect();
        json!({
            "dry_run": true, "to": to, "scales": scales(self.0.scheme.search), "ignored": self.0.ignored, "kinds": kinds,
            "quantization_config": self.0.settings(),
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let headings = [Column::text("kind"), Column::number("weights"), Column::number("inputs per scale")];
        let mut table = Table::new(headings);
        for (kind, group, weights) in self.sizes() {
            table.row([kind.to_owned(), count(weights as u128), inputs(group)]);
        }
        format!("{}stays as it is: {}\n", table.to_text(None), self.0.ignored.join(", "))
    }
}

fn inputs(group: Option<usize>) -> String {
    group.map_or("a row".into(), |group| group.to_string())
}

/// How scales were chosen, for people.
pub(super) fn scales(search: ScaleSearch) -> &'static str {
    match search {
        ScaleSearch::Greatest => "the greatest weight of each group",
        ScaleSearch::Fitted => "fitted to the codes of each group",
        ScaleSearch::Clipped => "a clipping search in each group",
    }
}

/// The config of a model's folder.
pub(super) fn config(model: &Path) -> Result<Value, Failure> {
    const MOST: u64 = 16 << 20;
    let path = model.join("config.json");
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let bytes = gorgon_runs::file::read(&path, MOST).map_err(|error| wrong(&error))?;
    let config: Value = gorgon_runs::json::read(&bytes).map_err(|error| wrong(&error))?;
    if config.is_object() { Ok(config) } else { Err(wrong(&"not a JSON object")) }
}
