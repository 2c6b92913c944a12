//! Memory that this process and a GPU's pool come to use.

use gorgon_model::device::Compute;

/// The size of a GPU's memory pool, over some time.
#[derive(Clone, Debug)]
pub struct Pool {
    compute: Compute,
    /// Bytes that it held when this began.
    before: u64,
}

impl Pool {
    /// From now on; `None` on the CPU.
    pub fn of(compute: &Compute) -> Option<Self> {
        compute.pool_bytes().map(|before| Self { compute: compute.clone(), before })
    }

    /// Its bytes beyond those that it held when this began: a pool keeps what it was given, so that is the most that
    /// was needed since, unless it was made to give something back.
    pub fn grown(&self) -> u64 {
        self.compute.pool_bytes().unwrap_or(0).saturating_sub(self.before)
    }

    /// Has it give back what nobody uses.
    pub fn shrink(&self) {
        self.compute.shrink_pool();
    }
}

/// This process's memory, over some time.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Bytes that were resident when it began.
    before: Option<u64>,
}

impl Watch {
    /// From now on.
    pub fn start() -> Self {
        gorgon_bench::allocations::hand_back();
        // 5 asks the system to forget the peak so far. Where it cannot, there is nothing to compare with.
        let forgotten = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        Self { before: resident("VmRSS:").filter(|_| forgotten) }
    }

    /// Forgets the peak so far, and what it left: what was resident when it began stays what it compares with.
    pub fn forget_peak(&self) {
        Self::start();
    }

    /// Resident bytes beyond those when it began.
    pub fn grown(&self) -> Option<u64> {
        gorgon_bench::allocations::hand_back();
        Some(resident("VmRSS:")?.saturating_sub(self.before?))
    }

    /// Resident bytes when it began.
    pub fn before(&self) -> Option<u64> {
        self.before
    }

    /// The highest resident size since, beyond that at the beginning.
    pub fn peak(&self) -> Option<u64> {
        Some(resident("VmHWM:")?.saturating_sub(self.before?))
    }
}

/// A line of what the system says of this process, in bytes.
fn resident(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests;
