//! `-v` and `GORGON_LOG`.

use crate::printer;
use crate::progress;
use std::io::{self, Write};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Logs to stderr: `GORGON_LOG` selects levels by crate (`debug`, `gorgon_model=trace,gorgon_hub=debug`); `-v` alone
/// logs what gorgon's own crates report at level `debug`.
pub fn set_up(verbose: bool) {
    let chosen = std::env::var("GORGON_LOG").ok().filter(|text| !text.is_empty());
    let targets = match wanted(verbose, chosen.as_deref()) {
        Ok(Some(targets)) => targets,
        Ok(None) => return,
        Err(error) => return printer::complain(&format!("warning: GORGON_LOG: {error}")),
    };
    let lines = fmt::layer().with_writer(AboveBars).with_ansi(false).with_timer(fmt::time::uptime());
    // Another subscriber cannot be there yet.
    let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
}

/// The levels to log, if any; `chosen` is the value of `GORGON_LOG`.
///
/// # Errors
/// When that selects nothing that can be read.
pub fn wanted(verbose: bool, chosen: Option<&str>) -> Result<Option<Targets>, ParseError> {
    match chosen {
        Some(chosen) => chosen.parse().map(Some),
        None => Ok(verbose.then(|| Targets::new().with_target("gorgon", LevelFilter::DEBUG))),
    }
}

/// Writes lines of the log above progress bars.
struct AboveBars;

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for AboveBars {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        progress::above_bars(|| printer::complain(text.trim_end_matches('\n')));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
