//! Settings of every job: where it computes, its seed, and where it reports.

use crate::console::Console;
use crate::devices::Devices;
use crate::failure::Failure;
use gorgon_core::dist::Transform;
use gorgon_model::device::{Compute, DeviceChoice, DeviceError, FloatFormat, IntegerWeights, Products};
use gorgon_runs::provenance::Build;
use gorgon_text::variables::Variables;

/// Number formats, as they are requested.
#[derive(Clone, Copy, Debug)]
pub struct NumberFormats {
    /// Of weights and caches; the device's own if there is none.
    pub dtype: Option<FloatFormat>,
    /// Of the factors of the CPU's matmuls.
    pub compute_dtype: Products,
    /// Which weights the CPU holds in integers.
    pub integers: IntegerWeights,
}

/// Settings of a job.
#[derive(Clone)]
pub struct Settings {
    /// Seed of all randomness.
    pub seed: u64,
    /// The seed that was typed: it replaces that of a config.
    pub typed_seed: Option<u64>,
    /// Variables for the chat template.
    pub template: Variables,
    /// Whether the network is off limits.
    pub offline: bool,
    /// Positions of the key/value cache, if they are limited.
    pub context: Option<usize>,
    /// Where messages and progress go.
    pub console: Console,
    /// The program.
    pub build: Build,
    /// When the program was started.
    pub started: jiff::Timestamp,
    /// The devices that train together, this one among them; none unless made by [`Self::divided`].
    pub together: Vec<DeviceChoice>,
    /// The devices that were named.
    pub devices: Devices,
    /// The number formats that were named.
    pub formats: NumberFormats,
}

impl Settings {
    /// Settings for each of the devices that were named. The first of them reports.
    pub fn divided(&self) -> Vec<Self> {
        let devices = self.devices.all();
        let one = |(number, &device): (usize, &DeviceChoice)| Self {
            console: if number == 0 { self.console.clone() } else { Console::silent() },
            together: devices.clone(),
            devices: Devices::Named(vec![device]),
            ..self.clone()
        };
        devices.iter().enumerate().map(one).collect()
    }

    /// Copies that this machine's memory holds of everything that is fitted to: one for each replica on the CPU.
    pub fn copies(&self) -> usize {
        let on_host = |device: &&DeviceChoice| matches!(device, DeviceChoice::Cpu);
        self.together.iter().filter(on_host).count().max(1)
    }

    /// The device, or those that train together.
    ///
    /// # Errors
    /// As of [`Self::compute`].
    pub fn device_name(&self) -> Result<String, Failure> {
        match self.together.len() {
            0 | 1 => Ok(self.compute()?.choice().to_string()),
            _ => Ok(Devices::Named(self.together.clone()).to_string()),
        }
    }

    /// Warns of sampling options that change nothing.
    pub fn warn_without_effect(&self, transform: &Transform) {
        if let Some(words) = transform.without_effect() {
            self.console.say(format!("warning: {words}"));
        }
    }

    /// Fails where several devices are named.
    ///
    /// # Errors
    /// Then.
    pub fn check_one_device(&self) -> Result<DeviceChoice, DeviceError> {
        self.devices.one()
    }

    /// The options on devices and number formats that were given, as they are typed.
    pub fn number_formats(&self) -> Option<String> {
        let NumberFormats { dtype, compute_dtype, integers } = self.formats;
        let device =
            Some(&self.devices).filter(|device| !matches!(device.one(), Ok(DeviceChoice::Auto | DeviceChoice::Cpu)));
        let given = [
            device.map(|device| format!("--device {device}")),
            dtype.map(|dtype| format!("--dtype {}", dtype.name())),
            (compute_dtype == Products::Bf16).then(|| "--compute-dtype bf16".to_owned()),
        ];
        let given: Vec<String> = given.into_iter().flatten().chain(integers.options()).collect();
        (!given.is_empty()).then(|| given.join(" "))
    }

    /// The device and number format that were requested.
    ///
    /// # Errors
    /// When this binary or this machine lacks them, or several devices are named.
    pub fn compute(&self) -> Result<Compute, Failure> {
        let NumberFormats { dtype, compute_dtype, integers } = self.formats;
        let compute = Compute::resolve(self.check_one_device()?, dtype)?.with_integers(integers)?;
        let other = dtype.filter(|dtype| compute_dtype == Products::Bf16 && *dtype != FloatFormat::Bf16);
        if let Some(dtype) = other {
            let reason = format!("--dtype {}: weights are in bf16 then", dtype.name());
            return Err(DeviceError::Products(reason).into());
        }
        Ok(compute.with_products(compute_dtype)?)
    }
}

#[cfg(test)]
mod tests;
