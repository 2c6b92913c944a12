//! Runs the blocks of a launch, warp by warp.

use super::{Block, Fault, Launch};
use crate::memory::Memory;
use crate::ptx::{Kernel, SPECIAL};
use crate::warp::{Pause, WIDTH, Warp};
use std::sync::atomic::AtomicU64;

impl Block<'_> {
    /// The special register `number` of a thread of the block.
    fn special(&self, thread: usize, number: usize) -> u64 {
        let [x, y, _] = self.launch.threads.map(|threads| threads as usize);
        let lane = thread % WIDTH;
        let equal = 1u64 << lane;
        let places = [thread % x, thread / x % y, thread / (x * y)].map(|place| place as u64);
        let wide = |values: [u32; 3]| values.map(u64::from);
        match number {
            0..3 => places[number],
            3..6 => wide(self.launch.threads)[number - 3],
            6..9 => wide(self.index)[number - 6],
            9..12 => wide(self.launch.grid)[number - 9],
            _ => match SPECIAL[number] {
                "%laneid" => lane as u64,
                "%warpid" => (thread / WIDTH) as u64,
                "%lanemask_eq" => equal,
                "%lanemask_lt" => equal - 1,
                "%lanemask_le" => (equal - 1) | equal,
                "%lanemask_gt" => 0xffff_ffff & !((equal - 1) | equal),
                "%lanemask_ge" => 0xffff_ffff & !(equal - 1),
                _ => 0,
            },
        }
    }

    /// Runs all threads to their ends.
    fn run(&mut self) -> Result<(), Fault> {
        let threads: usize = self.launch.threads.iter().map(|threads| *threads as usize).product();
        let warp = |warp: usize| {
            let first = warp * WIDTH;
            Warp::new(self.kernel, threads - first, |lane, number| self.special(first + lane, number))
        };
        let mut warps: Vec<Warp> = (0..threads.div_ceil(WIDTH)).map(warp).collect();
        let mut pauses = vec![Pause::Turn; warps.len()];
        while pauses.iter().any(|pause| *pause != Pause::Done) {
            for (warp, pause) in warps.iter_mut().zip(&mut pauses) {
                if *pause == Pause::Turn {
                    *pause = warp.run(self)?;
                }
            }
            release(&mut pauses, threads);
        }
        Ok(())
    }
}

/// Lets the warps go on that wait at a barrier where all that are waited for have come.
fn release(pauses: &mut [Pause], threads: usize) {
    for id in 0..16 {
        let waits = |pause: &Pause| matches!(pause, Pause::Barrier(at, _) if *at == id);
        let waiting = pauses.iter().filter(|pause| waits(pause)).count();
        let ended = pauses.iter().filter(|pause| **pause == Pause::Done).count();
        let asked = pauses.iter().find_map(|pause| match pause {
            Pause::Barrier(at, threads) if *at == id => *threads,
            _ => None,
        });
        let wanted = match asked {
            Some(asked) => (asked as usize).div_ceil(WIDTH),
            None => threads.div_ceil(WIDTH) - ended,
        };
        if waiting > 0 && waiting >= wanted {
            pauses.iter_mut().filter(|pause| waits(pause)).for_each(|pause| *pause = Pause::Turn);
        }
    }
}

/// Runs a launch, one block after another.
///
/// # Errors
/// At the first thread that reads or writes what is no memory, or gives up.
pub fn run(kernel: &Kernel, launch: &Launch) -> Result<(), Fault> {
    let mut ranges = Memory::lock().ranges();
    ranges.extend(kernel.globals.ranges());
    ranges.sort_unstable();
    let words = (kernel.shared + launch.shared).div_ceil(16) + 1;
    let mut block =
        Block { kernel, launch, index: [0; 3], shared: vec![0; words], ranges: &ranges, last: AtomicU64::new(0) };
    let [width, height, depth] = launch.grid;
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                block.index = [x, y, z];
                block.run()?;
            }
        }
    }
    Ok(())
}
