//! Raw rows of a measurement, as a file.

use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use serde_json::Value;
use std::path::Path;

/// Writes everything to the file that was asked for.
///
/// # Errors
/// When it cannot be written.
pub fn store(path: Option<&Path>, document: &Value, settings: &Settings) -> Result<(), Failure> {
    if let Some(path) = path {
        gorgon_runs::atomic::write(path, |file| file.write_all(document.to_string().as_bytes()))
            .map_err(|error| Failure::io(path, &error))?;
        settings.console.say(format!("raw rows in {}", path.display()));
    }
    Ok(())
}
