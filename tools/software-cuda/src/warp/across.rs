//! Operations across the threads of a warp.

use super::{Lanes, WIDTH, Warp, lanes};
use crate::block::Block;
use crate::ptx::{Op, Shuffle, Vote};

impl Warp {
    /// An instruction of the threads in `active` together.
    pub(super) fn together(&mut self, op: &Op, active: u32, block: &Block<'_>) -> Result<(), String> {
        match op {
            Op::Shuffle(kind, to, came, of) => self.shuffle(*kind, (*to, *came), *of, active),
            Op::Vote(kind, to, predicate, inverted) => {
                let flipped = u64::from(*inverted);
                let held = lanes(active).filter(|lane| (self.registers[*predicate][*lane] ^ flipped) & 1 == 1);
                let held: u32 = held.fold(0, |mask, lane| mask | 1 << lane);
                let told = u64::from(match kind {
                    Vote::All => u32::from(held == active),
                    Vote::Any => u32::from(held != 0),
                    Vote::Uniform => u32::from(held == 0 || held == active),
                    Vote::Ballot => held,
                });
                self.write(*to, active, |_| told);
            }
            Op::ActiveMask(to) => self.write(*to, active, |_| u64::from(active)),
            Op::Elect(to, chosen) => {
                let first = active.trailing_zeros() as usize;
                to.iter().for_each(|to| self.write(*to, active, |_| first as u64));
                self.write(*chosen, active, |lane| u64::from(lane == first));
            }
            Op::Reduce(to, f, of) => {
                let values = lanes(active).map(|lane| self.registers[*of][lane]);
                let Some(combined) = values.reduce(f) else { return Ok(()) };
                self.write(*to, active, |_| combined);
            }
            other => return self.matrices(other, active, block),
        }
        Ok(())
    }

    /// `shfl.sync`: the clamp names the last lane of a lane's segment, and which bits of lanes tell segments apart.
    fn shuffle(&mut self, kind: Shuffle, to: (Option<usize>, Option<usize>), of: [usize; 3], active: u32) {
        let [values, by, clamp]: [Lanes; 3] = of.map(|register| self.registers[register]);
        let source = |lane: usize| {
            let (by, clamp) = (by[lane] as usize & 31, clamp[lane] as usize);
            let segment = clamp >> 8 & 31;
            let last = (lane & segment) | (clamp & 31 & !segment);
            let (from, within) = match kind {
                Shuffle::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= last),
                Shuffle::Down => (lane + by, lane + by <= last),
                Shuffle::Butterfly => (lane ^ by, lane ^ by <= last),
                Shuffle::Index => {
                    let from = (lane & segment) | (by & !segment);
                    (from, from <= last)
                }
            };
            if within && from < WIDTH { (from, true) } else { (lane, false) }
        };
        let sources: [(usize, bool); WIDTH] = std::array::from_fn(source);
        to.0.iter().for_each(|to| self.write(*to, active, |lane| values[sources[lane].0]));
        to.1.iter().for_each(|to| self.write(*to, active, |lane| u64::from(sources[lane].1)));
    }
}
