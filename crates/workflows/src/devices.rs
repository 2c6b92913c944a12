//! The devices that `--device` names.

use gorgon_model::device::{DeviceChoice, DeviceError, cuda_devices};
use std::str::FromStr;

/// One device, or several for a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Names, separated by commas: `cuda:0,cuda:1`, in short `cuda:0,1`; `cpu,cpu` are two replicas on the CPU;
    /// `cuda:0+1` is one device whose layers are split over two.
    Named(Vec<DeviceChoice>),
    /// `cuda:all`: all CUDA devices of this machine.
    AllCuda,
}

impl FromStr for Devices {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        if text == "cuda:all" {
            return Ok(Self::AllCuda);
        }
        let mut devices: Vec<DeviceChoice> = vec![];
        for part in text.split(',') {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let device = match devices.last() {
                Some(DeviceChoice::Cuda(_)) if is_number => format!("cuda:{part}").parse(),
                _ => part.parse(),
            };
            devices.push(device.map_err(|error| match error {
                DeviceError::Twice(_) => DeviceError::Twice(text.into()),
                _ => DeviceError::UnknownDevice(text.into()),
            })?);
        }
        if devices.len() > 1 && devices.iter().any(|device| matches!(device, DeviceChoice::CudaSplit(_))) {
            return Err(DeviceError::SplitReplicas(text.into()));
        }
        let kind = std::mem::discriminant(&devices[0]);
        let alike = devices.iter().all(|device| std::mem::discriminant(device) == kind);
        if devices.len() > 1 && (!alike || devices[0] == DeviceChoice::Auto) {
            return Err(DeviceError::Mixed(text.into()));
        }
        // Replicas on the CPU are for trying; a GPU twice would hold everything twice and be no faster.
        let again = devices.iter().enumerate().any(|(i, device)| devices[..i].contains(device));
        if again && devices[0] != DeviceChoice::Cpu {
            return Err(DeviceError::Twice(text.into()));
        }
        Ok(Self::Named(devices))
    }
}

impl std::fmt::Display for Devices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AllCuda => f.write_str("cuda:all"),
            Self::Named(devices) => {
                let names: Vec<String> = devices.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl Devices {
    /// The device, if only one is named.
    ///
    /// # Errors
    /// When several are.
    pub fn one(&self) -> Result<DeviceChoice, DeviceError> {
        match self {
            Self::Named(devices) if devices.len() == 1 => Ok(devices[0]),
            _ => Err(DeviceError::Several(self.to_string())),
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<DeviceChoice> {
        match self {
            Self::Named(devices) => devices.clone(),
            // Without any, the first one says what is missing.
            Self::AllCuda => (0..cuda_devices().max(1)).map(DeviceChoice::Cuda).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
