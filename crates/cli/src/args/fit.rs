//! Options of the long jobs.

use clap::Args;
use gorgon_workflows::config::{Given, Resume};
use gorgon_workflows::settings::Settings;
use std::path::PathBuf;

/// Options of `train`, `compare` and `dev pretrain`.
#[derive(Debug, Args)]
pub struct Fit {
    /// The config file [default with --resume: the run's own].
    #[arg(short, long, value_name = "C", required_unless_present = "resume")]
    pub config: Option<PathBuf>,
    /// Config keys to override.
    #[arg(value_name = "KEY.PATH=VALUE")]
    pub overrides: Vec<String>,
    /// Resume the run in this folder, with its own config.
    #[arg(long, value_name = "RUN")]
    pub resume: Option<PathBuf>,
    /// Let this key have another value than the run's config from here on (repeatable). The change is recorded.
    #[arg(long, value_name = "KEY", requires = "resume")]
    pub allow_change: Vec<String>,
    /// Report the plan, and with --resume what resuming would do, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print the resolved config as TOML, and do nothing.
    #[arg(long, conflicts_with = "dry_run")]
    pub print_config: bool,
}

impl Fit {
    /// The config that the options name.
    pub fn given<'a>(&'a self, settings: &'a Settings) -> Given<'a> {
        Given { file: self.config.as_deref(), overrides: &self.overrides, settings, resume: self.run() }
    }

    /// The run to resume.
    pub fn run(&self) -> Option<Resume<'_>> {
        self.resume.as_deref().map(|run| Resume { run, allow_change: &self.allow_change })
    }
}

/// Options of `gorgon train`.
#[derive(Debug, Args)]
#[command(after_help = "GORGON_SUMS says how gradients of several GPUs are summed: nccl or host [default: nccl if it \
                        is found].")]
pub struct Train {
    #[command(flatten)]
    pub fit: Fit,
    /// With --dry-run and before there is data: plan for this many tokens of it.
    #[arg(long, value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u64).range(1..))]
    pub assume_tokens: Option<u64>,
    /// With --dry-run and before there is data or a model: predict hours for a device of this rate, in 10^12
    /// floating-point operations per second.
    #[arg(long, value_name = "RATE", requires = "dry_run", value_parser = positive)]
    pub assume_tflops: Option<f64>,
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate > 0.0);
    number.ok_or_else(|| "expected a number above 0".into())
}
