//! What the typed options mean on this machine.

use crate::args::{Devices, Global};
use crate::error::Failure;
use crate::printer::Talk;
use gorgon_model::device::{Compute, DeviceChoice, DeviceError, FloatFormat, Int8, Products};
use gorgon_train::process_group::ProcessGroup;
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
    /// The devices that fit together, this one among them; one unless made by [`Self::divided`].
    pub together: Vec<DeviceChoice>,
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
        if !ProcessGroup::current().is_root() {
            (global.quiet, global.verbose, global.json) = (true, false, false);
        }
        Ok(Self {
            seed: global.seed,
            json: global.json,
            offline: global.offline,
            started: jiff::Timestamp::now(),
            together: vec![],
            talk: Talk::new(global.quiet, global.verbose),
            progress: !global.no_progress && !global.quiet && !global.json && std::io::stderr().is_terminal(),
            global,
        })
    }

    /// Settings for each of the devices that `--device` names. The first of them speaks.
    pub fn divided(&self) -> Vec<Self> {
        let devices = self.global.device.all();
        let one = |(number, &device): (usize, &DeviceChoice)| {
            let speaks = number == 0;
            Self {
                json: self.json && speaks,
                talk: if speaks { self.talk } else { Talk::new(true, false) },
                progress: self.progress && speaks,
                together: devices.clone(),
                global: Global { device: Devices::Named(vec![device]), ..self.global.clone() },
                ..self.clone()
            }
        };
        devices.iter().enumerate().map(one).collect()
    }

    /// Copies that this machine's memory holds of everything that is fitted to: one for each replica on the CPU.
    pub fn copies(&self) -> usize {
        let on_host = |device: &&DeviceChoice| matches!(device, DeviceChoice::Cpu);
        self.together.iter().filter(on_host).count().max(1)
    }

    /// The device, or those that fit together.
    ///
    /// # Errors
    /// As of [`Self::compute`].
    pub fn device_name(&self) -> Result<String, Failure> {
        match self.together.len() {
            0 | 1 => Ok(self.compute()?.choice().to_string()),
            _ => Ok(Devices::Named(self.together.clone()).to_string()),
        }
    }

    /// Fails where several devices are named.
    ///
    /// # Errors
    /// Then.
    pub fn check_one_device(&self) -> Result<DeviceChoice, DeviceError> {
        self.global.device.one()
    }

    /// The options on devices and number formats that were given, as they are typed.
    pub fn number_formats(&self) -> Option<String> {
        let global = &self.global;
        let device =
            Some(&global.device).filter(|device| !matches!(device.one(), Ok(DeviceChoice::Auto | DeviceChoice::Cpu)));
        let given = [
            device.map(|device| format!("--device {device}")),
            global.dtype.map(|dtype| format!("--dtype {}", dtype.name())),
            (global.compute_dtype == Products::Bf16).then(|| "--compute-dtype bf16".to_owned()),
            match global.int8 {
                Int8::Off => None,
                Int8::Drafts => Some("--int8 drafts".to_owned()),
                Int8::All => Some("--int8 all".to_owned()),
            },
        ];
        let given: Vec<String> = given.into_iter().flatten().collect();
        (!given.is_empty()).then(|| given.join(" "))
    }

    /// The same, but for a job that is a part of another one: what it would print as JSON is left to that.
    pub fn quiet_json(&self) -> Self {
        Self { json: false, ..self.clone() }
    }

    /// The device and number format asked for.
    ///
    /// # Errors
    /// When this binary or this machine lacks them, or several devices are named.
    pub fn compute(&self) -> Result<Compute, Failure> {
        let global = &self.global;
        let compute = Compute::resolve(self.check_one_device()?, global.dtype)?.with_int8(global.int8)?;
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

#[cfg(test)]
mod tests;
