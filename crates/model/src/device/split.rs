//! Devices that share the layers of a model.

use super::{Compute, DeviceError};
use burn::tensor::Device;
use std::str::FromStr;

/// Most devices that share a model.
const MOST: usize = 16;

/// CUDA devices that share the layers of a model, in the order of the layers: `0+1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSplit {
    indices: [u16; MOST],
    count: usize,
}

impl CudaSplit {
    /// The devices.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.indices.into_iter().take(self.count).map(usize::from)
    }
}

impl FromStr for CudaSplit {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let wrong = || DeviceError::UnknownDevice(format!("cuda:{text}"));
        let mut split = Self { indices: [0; MOST], count: 0 };
        for part in text.split('+') {
            let index = part.parse::<u16>().map_err(|_| wrong())?;
            if split.indices().any(|other| other == usize::from(index)) {
                return Err(DeviceError::Twice(format!("cuda:{text}")));
            }
            *split.indices.get_mut(split.count).ok_or_else(wrong)? = index;
            split.count += 1;
        }
        if split.count < 2 { Err(wrong()) } else { Ok(split) }
    }
}

impl std::fmt::Display for CudaSplit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indices: Vec<String> = self.indices().map(|index| index.to_string()).collect();
        write!(f, "cuda:{}", indices.join("+"))
    }
}

impl Compute {
    /// The devices that share the layers of a model, in the order of the layers.
    pub fn devices(&self) -> Vec<Device> {
        std::iter::once(&self.device).chain(self.others.iter()).cloned().collect()
    }

    /// Whether layers are split over several devices.
    pub fn is_split(&self) -> bool {
        !self.others.is_empty()
    }

    /// Copy that computes on one device of its kind alone.
    #[must_use]
    pub fn on(&self, device: &Device) -> Self {
        Self { device: device.clone(), others: [].into(), ..self.clone() }
    }

    /// Copy in which `stages` parts of the layers are on devices of their own, all of which are this one: it runs what
    /// several devices run, and is for trying that without them.
    #[must_use]
    pub fn in_stages(&self, stages: usize) -> Self {
        Self { others: vec![self.device.clone(); stages.saturating_sub(1)].into(), ..self.clone() }
    }

    /// Fails where layers are split, for what cannot be.
    ///
    /// # Errors
    /// Then.
    pub fn check_whole(&self, job: &'static str) -> Result<(), DeviceError> {
        match self.is_split() {
            true => Err(DeviceError::Whole { device: self.choice.to_string(), job }),
            false => Ok(()),
        }
    }
}
