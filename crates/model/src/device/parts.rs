//! Layers split over the devices of a [`Compute`].

use super::{Compute, DeviceError};
use burn::tensor::Device;

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
