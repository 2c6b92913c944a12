//! What the typed options mean on this machine.

use crate::args::Global;
use crate::error::Failure;
use crate::printer::Talk;
use gorgon_model::device::{Compute, DeviceError, FloatFormat, Products};
use gorgon_train::world::World;
use std::io::IsTerminal;

/// Settings of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    pub json: bool,
    pub offline: bool,
    pub talk: Talk,
    /// Whether progress bars are wanted and can be seen.
    pub progress: bool,
    /// When the program was started.
    pub started: jiff::Timestamp,
    global: Global,
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
        // Of several processes that fit together, one speaks.
        let mut global = global;
        if !World::current().is_root() {
            (global.quiet, global.verbose, global.json) = (true, false, false);
        }
        Ok(Self {
            seed: global.seed,
            json: global.json,
            offline: global.offline,
            started: jiff::Timestamp::now(),
            talk: Talk::new(global.quiet, global.verbose),
            progress: !global.no_progress && !global.quiet && !global.json && std::io::stderr().is_terminal(),
            global,
        })
    }

    /// The same, but for a job that is a part of another one: what it would print as JSON is left to that.
    pub fn quiet_json(&self) -> Self {
        Self { json: false, ..self.clone() }
    }

    /// The device and number format asked for.
    ///
    /// # Errors
    /// When this binary or this machine lacks them.
    pub fn compute(&self) -> Result<Compute, Failure> {
        let global = &self.global;
        let compute = Compute::resolve(global.device, global.dtype)?.with_int8(global.int8)?;
        if let Some(dtype) =
            global.dtype.filter(|dtype| global.compute_dtype == Products::Bf16 && *dtype != FloatFormat::Bf16)
        {
            let reason = format!("--dtype {}: weights are in bf16 then", dtype.name());
            return Err(DeviceError::Products(reason).into());
        }
        Ok(compute.with_products(global.compute_dtype)?)
    }
}

/// Parses `1,2,3`.
///
/// # Errors
/// When the list is empty or an entry is no token id.
pub fn token_ids(text: &str) -> Result<Vec<u32>, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::input("--ids is empty: at least one token id is needed"));
    }
    let one = |part: &str| {
        // `parse` would take a plus sign.
        let digits = Some(part.trim()).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        digits
            .and_then(|digits| digits.parse::<u32>().ok())
            .ok_or_else(|| Failure::input(format!("--ids: \"{part}\" is no token id")))
    };
    text.split(',').map(one).collect()
}
