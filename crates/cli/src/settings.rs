//! The typed options, resolved for this machine.

use crate::args::Global;
use crate::console::Terminal;
use gorgon_model::device::IntegerWeights;
use gorgon_runs::provenance::Build;
use gorgon_text::variables::Variables;
use gorgon_train::process_group::ProcessGroup;
use gorgon_workflows::console::Console;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::settings::{self, NumberFormats};
use std::io::IsTerminal;
use std::ops::Deref;
use std::sync::Arc;

/// Settings of one run of the program: those of its job, and how results are printed.
#[derive(Clone)]
pub struct Settings {
    job: settings::Settings,
    /// Whether results are one JSON document.
    pub json: bool,
    /// Whether progress bars are wanted and can be seen.
    pub progress: bool,
    /// Whether nothing but results and errors is printed.
    pub quiet: bool,
}

impl Deref for Settings {
    type Target = settings::Settings;

    fn deref(&self) -> &settings::Settings {
        &self.job
    }
}

impl Settings {
    /// Resolves the options and sizes the thread pool.
    ///
    /// # Errors
    /// When the thread pool cannot be built.
    pub fn new(global: Global) -> Result<Self, Failure> {
        if let Some(threads) = global.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build_global();
            pool.map_err(|error| Failure::run(format!("--threads {threads}: {error}")))?;
        }
        // Of several processes that train together, one reports.
        let speaks = ProcessGroup::current().is_root();
        let json = global.json && speaks;
        let quiet = global.quiet || !speaks;
        let progress = Self::wants_progress(&global) && speaks && std::io::stderr().is_terminal();
        let terminal = Terminal { quiet, json, progress };
        let console = Console::new(Arc::new(terminal));
        let job = settings::Settings {
            seed: global.seed.unwrap_or(0),
            typed_seed: global.seed,
            template: global.template_var.into_iter().collect(),
            offline: global.offline,
            context: global.context.map(|context| context as usize),
            console,
            build: build(),
            started: jiff::Timestamp::now(),
            together: vec![],
            devices: global.device,
            formats: NumberFormats {
                dtype: global.dtype,
                compute_dtype: global.compute_dtype,
                integers: IntegerWeights {
                    weights: global.weights,
                    draft_weights: global.draft_weights,
                    activation_bits: global.activation_bits,
                },
            },
        };
        Ok(Self { job, json, progress, quiet })
    }

    /// Whether progress bars are wanted.
    pub fn wants_progress(global: &Global) -> bool {
        !global.no_progress && !global.quiet && !global.json
    }

    /// These settings with the variables of a config.
    pub fn with_template(&self, template: &Variables) -> Self {
        let job = settings::Settings { template: template.clone(), ..self.job.clone() };
        Self { job, ..self.clone() }
    }

    /// These settings with other number formats.
    pub fn with_formats(&self, formats: NumberFormats) -> Self {
        let job = settings::Settings { formats, ..self.job.clone() };
        Self { job, ..self.clone() }
    }
}

/// The version, commit and features of this program.
pub fn build() -> Build {
    let optional = [("cuda", cfg!(feature = "cuda")), ("wgpu", cfg!(feature = "wgpu")), ("mpi", cfg!(feature = "mpi"))];
    let built = optional.into_iter().filter(|(_, built)| *built).map(|(name, _)| name);
    Build {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("GORGON_COMMIT").into(),
        features: std::iter::once("cpu").chain(built).map(String::from).collect(),
    }
}

/// Parses `1,2,3`.
///
/// # Errors
/// When the list is empty or an entry is no token id.
pub fn token_ids(option: &str, text: &str) -> Result<Vec<u32>, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::input(format!("{option} is empty: at least one token id is needed")));
    }
    let one = |part: &str| {
        // `parse` would take a plus sign.
        let digits = Some(part.trim()).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        digits
            .and_then(|digits| digits.parse::<u32>().ok())
            .ok_or_else(|| Failure::input(format!("{option}: \"{part}\" is no token id")))
    };
    text.split(',').map(one).collect()
}
