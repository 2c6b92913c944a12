//! Memory that a GPU still has.

use super::{Compute, DeviceChoice};
use burn::tensor::Device;

/// Mebibytes that a GPU is taken to have, for devices that do not say, or to leave some of it to others.
const GRANTED: &str = "GORGON_DEVICE_MEMORY_MIB";

impl Compute {
    /// Bytes that tensors on a GPU can still take: [`GRANTED`] or else what the driver says is free, and what the
    /// memory pool has reserved without using it. If layers are split, the least of any device, times their number.
    /// `None` on the CPU and where nobody says.
    pub fn free_bytes(&self) -> Option<u64> {
        if self.is_host() {
            return None;
        }
        let granted = std::env::var(GRANTED).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let devices = self.devices();
        let of = |(number, device): (usize, &Device)| {
            let pool = device.memory_pool_usage();
            let (reserved, used) = pool.map_or((0, 0), |usage| (usage.bytes_reserved, usage.bytes_in_use));
            match granted {
                Some(mib) => Some((mib << 20).saturating_sub(used)),
                None => Some(driver_free(self.index(number)?)? + reserved.saturating_sub(used)),
            }
        };
        let free: Option<Vec<u64>> = devices.iter().enumerate().map(of).collect();
        Some(free?.into_iter().min()? * devices.len() as u64)
    }

    /// The CUDA index of one of the devices.
    fn index(&self, number: usize) -> Option<usize> {
        match self.choice() {
            DeviceChoice::Cuda(index) => Some(index),
            DeviceChoice::CudaSplit(split) => split.indices().nth(number),
            DeviceChoice::Auto | DeviceChoice::Cpu | DeviceChoice::Wgpu => None,
        }
    }
}

/// Bytes that the driver has left on a CUDA device.
#[cfg(feature = "cuda")]
fn driver_free(index: usize) -> Option<u64> {
    use cudarc::driver::result::{ctx, device, init, mem_get_info, primary_ctx};
    let ask = move || {
        init().ok()?;
        let device = device::get(i32::try_from(index).ok()?).ok()?;
        // SAFETY: the device is one that the driver named. Its primary context is kept as long as it is asked, and was
        // set for this thread alone, which ends with this.
        unsafe {
            ctx::set_current(primary_ctx::retain(device).ok()?).ok()?;
            let free = mem_get_info().ok().map(|(free, _)| free as u64);
            primary_ctx::release(device).ok()?;
            free
        }
    };
    // Contexts are set by thread, and the caller's stays as it is.
    std::thread::spawn(ask).join().ok()?
}

#[cfg(not(feature = "cuda"))]
fn driver_free(_: usize) -> Option<u64> {
    None
}
