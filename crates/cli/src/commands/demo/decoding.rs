//! Parts that the demo runs in both bodies.

use crate::commands::verify;
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::measure::Summary;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::demo;
use gorgon_workflows::drafting::DrafterChoice;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::{self, side_by_side};
use gorgon_workflows::settings::NumberFormats;
use gorgon_workflows::units::count;
use std::path::Path;

/// Begins a part.
pub fn heading(text: &str, settings: &Settings) {
    settings.console.say(format!("\n== {text}"));
}

/// Plain and drafted decoding of a model, and how many texts were equal.
pub struct Decoded {
    pub formats: NumberFormats,
    pub summary: Summary,
    pub counts: Counts,
}

impl Decoded {
    pub fn new(measured: &side_by_side::Measured, counts: Counts, settings: &Settings) -> Self {
        Self { formats: settings.formats, summary: measured.summary.clone(), counts }
    }
}

/// Answers that were compared.
#[derive(Clone, Copy)]
pub struct Counts {
    /// With the same text.
    pub same: usize,
    pub compared: usize,
}

impl Counts {
    pub fn all(self) -> bool {
        self.same == self.compared
    }
}

/// Whether drafted text equals plain text.
pub fn compare(options: &measuring::Options, settings: &Settings) -> Result<Counts, Failure> {
    heading("is the text the same?", settings);
    let (comparisons, ..) = verify::execute(options, settings)?;
    let same = comparisons.iter().filter(|c| c.divergence.is_none()).count();
    let counts = Counts { same, compared: comparisons.len() };
    if !settings.json {
        printer::line(&format!("{same} of {} answers have the same text with and without heads", counts.compared));
    }
    Ok(counts)
}

pub fn measured_on(model: &str, heads: &Path, prompts: &Path) -> measuring::Options {
    measuring::Options {
        model: model.to_owned(),
        heads: Some(heads.into()),
        drafter: DrafterChoice::Auto,
        tree: None,
        prompts: prompts.into(),
        turns: 1,
        limit: demo::HELD_OUT as usize,
        max_new_tokens: 128,
        accept: RuleChoice::Auto,
        transform: Transform::GREEDY,
        ignore_eos: false,
    }
}

/// Both bodies in one table.
pub fn print_bodies(rows: [(&str, u128, &str, &Decoded); 2]) {
    let columns = ["plain", "drafted", "speed-up", "tokens/step", "same text"].map(Column::number);
    let first = [Column::text("body"), Column::number("parameters"), Column::text("format")];
    let mut table = Table::new(first.into_iter().chain(columns));
    for (name, parameters, format, Decoded { summary, counts, .. }) in rows {
        let Summary { plain_tokens_per_second, drafted_tokens_per_second, speedup, speedup_range: (low, high), .. } =
            summary;
        table.row([
            name.to_owned(),
            count(parameters),
            format.to_owned(),
            format!("{plain_tokens_per_second:.1}"),
            format!("{drafted_tokens_per_second:.1}"),
            format!("{speedup:.2} ({low:.2}-{high:.2})"),
            format!("{:.2}", summary.tokens_per_step),
            format!("{}/{}", counts.same, counts.compared),
        ]);
    }
    printer::table(&table);
}
