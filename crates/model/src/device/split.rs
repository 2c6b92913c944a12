//! Devices that share the layers of a model.

use super::error::DeviceError;
use burn::tensor::{Device, Tensor, TensorData};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// Fails where tensors do not arrive on other devices: without NCCL they do not, and no call says so.
///
/// # Errors
/// Then.
pub(super) fn check_moves(devices: &[Device], name: &str) -> Result<(), DeviceError> {
    const SENT: [f32; 3] = [1.0, -2.0, 3.0];
    let arrives = |from: &Device, to: &Device| {
        let sent = Tensor::<1>::from_data(TensorData::from(SENT), from);
        let read = || sent.to_device(to).into_data().convert::<f32>().try_into_vec::<f32>().ok();
        catch_unwind(AssertUnwindSafe(read)).ok().flatten().is_some_and(|found| found == SENT)
    };
    let onwards = devices.windows(2).all(|pair| arrives(&pair[0], &pair[1]));
    let back = || devices.first().zip(devices.last()).is_none_or(|(first, last)| arrives(last, first));
    if onwards && back() { Ok(()) } else { Err(DeviceError::Moves(name.into())) }
}
