//! Thirty-two threads that run together.
//!
//! Of the threads' places the lowest goes first, with all threads that are there, so that those that took different
//! branches meet again behind them. Where an instruction is for several threads together, those that come early wait.

mod across;
mod gates;
mod matrix;
mod memory;
mod value;

pub use gates::TensorMap;
pub use value::{read, write};

use crate::block::{Block, Fault};
use crate::ptx::arithmetic;
use crate::ptx::{Address, Compute, Instruction, Kernel, Op, Source, Space, With};

/// Threads of a warp.
pub const WIDTH: usize = 32;
/// Instructions that a warp runs before others have their turn: one may wait for what another writes.
const TURN: usize = 100_000;

/// A register of all threads.
pub type Lanes = [u64; WIDTH];

/// Why a warp stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// All its threads ended.
    Done,
    /// It waits at a barrier, for so many threads if not all of the block.
    Barrier(u64, Option<u64>),
    /// Its turn is over.
    Turn,
}

/// A warp.
#[derive(Debug)]
pub struct Warp {
    registers: Vec<Lanes>,
    /// Where each thread is.
    places: [usize; WIDTH],
    /// Threads that have not ended.
    alive: u32,
    /// Those of them that wait for others of the warp.
    waiting: u32,
    /// Those that asked in vain whether something is over. They ask again when no others can go on.
    resting: u32,
    /// Local memory, thread after thread.
    local: Vec<u8>,
}

/// The threads of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..WIDTH).filter(move |lane| mask >> lane & 1 == 1)
}

impl Warp {
    /// A warp whose special registers `special` tells by thread and number.
    pub fn new(kernel: &Kernel, threads: usize, special: impl Fn(usize, usize) -> u64) -> Self {
        let mut registers: Vec<Lanes> = kernel.registers.iter().map(|value| [*value; WIDTH]).collect();
        for (number, register) in registers.iter_mut().enumerate().take(crate::ptx::SPECIAL.len()) {
            (0..WIDTH).for_each(|lane| register[lane] = special(lane, number));
        }
        let alive = if threads >= WIDTH { u32::MAX } else { (1 << threads) - 1 };
        Self { registers, places: [0; WIDTH], alive, waiting: 0, resting: 0, local: vec![0; kernel.local * WIDTH] }
    }

    /// The threads of a mask at a place.
    fn at(&self, place: usize, mask: u32) -> u32 {
        lanes(mask).filter(|lane| self.places[*lane] == place).fold(0, |found, lane| found | 1 << lane)
    }

    /// Where the threads of a mask are that are furthest back.
    fn furthest_back(&self, mask: u32) -> Option<usize> {
        lanes(mask).map(|lane| self.places[lane]).min()
    }

    /// The threads that go next, and where they are. Where all wait for each other, those that are furthest back do not
    /// wait any longer.
    fn next(&mut self) -> Option<(usize, u32)> {
        let ready = self.alive & !self.waiting & !self.resting;
        let first = [ready, self.alive & self.resting, self.alive].into_iter().find(|mask| *mask != 0)?;
        let place = self.furthest_back(first)?;
        Some((place, self.at(place, self.alive)))
    }

    /// Whether the threads that are `here` have to wait for others before an instruction that is run together.
    fn must_wait(&self, instruction: &Instruction, active: u32, here: u32) -> bool {
        let wanted = match instruction.with {
            With::Alone => return false,
            With::All => self.alive,
            With::Mask(_) if active == 0 => return false,
            With::Mask(mask) => self.registers[mask][active.trailing_zeros() as usize] as u32 & self.alive,
        };
        wanted & !here & !self.waiting != 0
    }

    /// Runs until all threads ended or wait.
    ///
    /// # Errors
    /// When a thread reads or writes what is no memory, or gives up.
    pub fn run(&mut self, block: &mut Block<'_>) -> Result<Pause, Fault> {
        let mut left = TURN;
        while let Some((mut place, here)) = self.next() {
            self.waiting &= !here;
            self.resting &= !here;
            // Where others are, those meet again.
            let others: Vec<usize> = lanes(self.alive & !here).map(|lane| self.places[lane]).collect();
            loop {
                let Some(instruction) = block.kernel.code.get(place) else {
                    self.alive &= !here;
                    break;
                };
                let active = here & self.guarded(instruction, here);
                if self.must_wait(instruction, active, here) {
                    lanes(here).for_each(|lane| self.places[lane] = place);
                    self.waiting |= here;
                    break;
                }
                place += 1;
                left -= 1;
                if let Some(pause) = self.step(instruction, active, here, place, block)? {
                    return Ok(pause);
                }
                let leaves = matches!(instruction.op, Op::Branch(_) | Op::BranchTo(..) | Op::Exit);
                if leaves || here & self.resting != 0 {
                    break;
                }
                if others.contains(&place) || left == 0 {
                    lanes(here).for_each(|lane| self.places[lane] = place);
                    break;
                }
            }
            if left == 0 {
                return Ok(Pause::Turn);
            }
        }
        Ok(Pause::Done)
    }

    /// The threads whose predicate lets an instruction run.
    fn guarded(&self, instruction: &Instruction, here: u32) -> u32 {
        match instruction.guard {
            None => u32::MAX,
            Some((register, told)) => {
                let predicate = &self.registers[register];
                lanes(here).filter(|lane| (predicate[*lane] & 1 == 1) == told).fold(0, |mask, lane| mask | 1 << lane)
            }
        }
    }

    /// One instruction of the threads in `active`, of those `here`; what comes after it is `next`.
    fn step(
        &mut self,
        instruction: &Instruction,
        active: u32,
        here: u32,
        next: usize,
        block: &mut Block<'_>,
    ) -> Result<Option<Pause>, Fault> {
        match &instruction.op {
            Op::Branch(to) => {
                lanes(here).for_each(|lane| self.places[lane] = if active >> lane & 1 == 1 { *to } else { next });
            }
            Op::BranchTo(index, places) => {
                for lane in lanes(here) {
                    let taken = Some(self.registers[*index][lane] as u32 as usize).filter(|_| active >> lane & 1 == 1);
                    self.places[lane] = taken.and_then(|taken| places.get(taken)).copied().unwrap_or(next);
                }
            }
            Op::Exit => {
                self.alive &= !active;
                lanes(here).for_each(|lane| self.places[lane] = next);
            }
            Op::Barrier(id, threads) if active != 0 => {
                lanes(here).for_each(|lane| self.places[lane] = next);
                self.leave_barriers(block.kernel);
                let first = active.trailing_zeros() as usize;
                let of = |register: usize| u64::from(self.registers[register][first] as u32);
                return Ok(Some(Pause::Barrier(of(*id), threads.map(of))));
            }
            Op::Gate(op, address) if active != 0 => {
                let over = self.gate(*op, address, active, block).map_err(|reason| block.fault(instruction, reason))?;
                if !over {
                    lanes(here).for_each(|lane| self.places[lane] = next);
                    self.resting |= here;
                    let others = self.alive & !self.waiting & !self.resting;
                    return Ok((others == 0).then_some(Pause::Turn));
                }
            }
            Op::Trap if active != 0 => return Err(block.fault(instruction, "a thread gave up".into())),
            Op::Nothing | Op::Barrier(..) | Op::Trap | Op::Gate(..) => {}
            _ => {
                self.plain(instruction, active, block).map_err(|reason| block.fault(instruction, reason))?;
            }
        }
        Ok(None)
    }

    /// Threads that wait at a barrier elsewhere in the code have come to it, too.
    fn leave_barriers(&mut self, kernel: &Kernel) {
        for lane in lanes(self.waiting) {
            if kernel.code.get(self.places[lane]).is_some_and(|other| matches!(other.op, Op::Barrier(..))) {
                self.places[lane] += 1;
                self.waiting &= !(1 << lane);
            }
        }
    }

    /// An instruction that goes on to the next one.
    fn plain(&mut self, instruction: &Instruction, active: u32, block: &mut Block<'_>) -> Result<(), String> {
        match &instruction.op {
            Op::Compute(to, compute) => self.compute(*to, compute, active),
            Op::Load(access) => self.load(access, active, block)?,
            Op::Store(access) => self.store(access, active, block)?,
            Op::Compare { test, of, with, to, opposite } => {
                let [a, b] = of.map(|register| self.registers[register]);
                let third = with.as_ref().map(|(f, with, inverted)| (f, self.registers[*with], u64::from(*inverted)));
                let combined = |lane: usize, found: bool| match &third {
                    Some((f, with, inverted)) => f(u64::from(found), with[lane] ^ inverted) & 1,
                    None => u64::from(found),
                };
                let found: [bool; WIDTH] = std::array::from_fn(|lane| test(a[lane], b[lane]));
                to.iter().for_each(|to| self.write(*to, active, |lane| combined(lane, found[lane])));
                opposite.iter().for_each(|to| self.write(*to, active, |lane| combined(lane, !found[lane])));
            }
            Op::Pack(to, parts, bits) => {
                let low = u64::MAX >> (64 - bits);
                let packed: Lanes = std::array::from_fn(|lane| {
                    let values = parts.iter().map(|part| self.registers[*part][lane] & low).enumerate();
                    values.fold(0, |all, (i, value)| all | value << (i as u32 * bits))
                });
                self.write(*to, active, |lane| packed[lane]);
            }
            Op::Unpack(parts, from, bits) => {
                let value = self.registers[*from];
                for (i, part) in parts.iter().enumerate() {
                    let cut = |lane: usize| value[lane] >> (i as u32 * bits) & (u64::MAX >> (64 - bits));
                    part.iter().for_each(|part| self.write(*part, active, cut));
                }
            }
            other => return self.with_memory(other, active, block),
        }
        Ok(())
    }

    /// An instruction that has to do with where things are.
    fn with_memory(&mut self, op: &Op, active: u32, block: &Block<'_>) -> Result<(), String> {
        match op {
            Op::ToGeneric(to, from, space) => self.shift(*to, *from, *space, active, block, u64::wrapping_add),
            Op::FromGeneric(to, from, space) => self.shift(*to, *from, *space, active, block, u64::wrapping_sub),
            Op::IsOf(to, from, space) => {
                let value = self.registers[*from];
                let held: Lanes = std::array::from_fn(|lane| {
                    let (first, bytes) = self.extent(*space, lane, block);
                    u64::from((first..first + bytes).contains(&value[lane]))
                });
                self.write(*to, active, |lane| held[lane]);
            }
            Op::Atomic(access, f, operands, to) => {
                for lane in lanes(active) {
                    let at = self.locate(&access.address, lane, access.ty.bytes(), block)?;
                    let old = read(at, access.ty);
                    let [a, b] = operands.map(|register| self.registers[register][lane]);
                    write(at, access.ty, f(old, a, b));
                    to.iter().for_each(|to| self.registers[*to][lane] = old);
                }
            }
            Op::Copy(to, source) => {
                for lane in lanes(active) {
                    self.copy(to, source, lane, block)?;
                }
            }
            Op::CopyTile(to, map, places, gate) => {
                for lane in lanes(active) {
                    self.copy_tile(to, *map, places, gate, lane, block)?;
                }
            }
            other => return self.together(other, active, block),
        }
        Ok(())
    }

    /// Between addresses of a kind of memory and those of any.
    fn shift(
        &mut self,
        to: usize,
        from: usize,
        space: Space,
        active: u32,
        block: &Block<'_>,
        by: impl Fn(u64, u64) -> u64,
    ) {
        let value = self.registers[from];
        let base: Lanes = std::array::from_fn(|lane| self.extent(space, lane, block).0);
        self.write(to, active, |lane| by(value[lane], base[lane]));
    }

    fn copy(&self, to: &Address, source: &Source, lane: usize, block: &Block<'_>) -> Result<(), String> {
        let read = source.read.map_or(source.bytes, |read| self.registers[read][lane] as u32 as usize);
        let read = read.min(source.bytes);
        let to = self.locate(to, lane, source.bytes, block)?;
        let from = if read > 0 { self.locate(&source.from, lane, read, block)? } else { to };
        // SAFETY: both were found to be memory of so many bytes.
        unsafe {
            std::ptr::copy(from as *const u8, to as *mut u8, read);
            std::ptr::write_bytes((to as *mut u8).add(read), 0, source.bytes - read);
        }
        Ok(())
    }

    fn compute(&mut self, to: usize, compute: &Compute, active: u32) {
        match compute {
            Compute::One(f, a) => {
                let a = self.registers[*a];
                self.write(to, active, |lane| f(a[lane]));
            }
            Compute::Two(f, of) => {
                let [a, b] = of.map(|register| self.registers[register]);
                self.write(to, active, |lane| f(a[lane], b[lane]));
            }
            Compute::Three(f, of) => {
                let [a, b, c] = of.map(|register| self.registers[register]);
                self.write(to, active, |lane| f(a[lane], b[lane], c[lane]));
            }
            Compute::Insert(ty, of) => {
                let [a, b, c, d] = of.map(|register| self.registers[register]);
                self.write(to, active, |lane| arithmetic::inserted(*ty, a[lane], b[lane], c[lane], d[lane]));
            }
        }
    }

    fn write(&mut self, to: usize, active: u32, value: impl Fn(usize) -> u64) {
        let register = &mut self.registers[to];
        if active == u32::MAX {
            register.iter_mut().enumerate().for_each(|(lane, to)| *to = value(lane));
        } else {
            lanes(active).for_each(|lane| register[lane] = value(lane));
        }
    }
}
