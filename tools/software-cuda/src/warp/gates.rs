//! Barriers in shared memory that copies come to, and copies of tiles.

use super::{Warp, lanes, read, write};
use crate::block::Block;
use crate::ptx::number::Type;
use crate::ptx::{Address, GateOp};

const WORD: Type = Type::Unsigned(64);

/// Bits of a gate. NVIDIA does not document their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    /// Threads that come in every phase, 20 bits.
    wanted: u64,
    /// Of these, how many have not come, 20 bits.
    left: u64,
    /// Bytes that were announced and have not come; 23 bits with a sign, since bytes may come before they are announced.
    bytes: i64,
    /// The phase, one bit.
    phase: u64,
}

impl Gate {
    fn of(word: u64) -> Self {
        let low = |bits: u64, from: u32| word >> from & ((1 << bits) - 1);
        Self { wanted: low(20, 0), left: low(20, 20), phase: low(1, 40), bytes: word as i64 >> 41 }
    }

    /// As a word, the next phase begun if all have come.
    fn word(mut self) -> u64 {
        if self.left == 0 && self.bytes == 0 {
            (self.left, self.phase) = (self.wanted, self.phase ^ 1);
        }
        self.wanted | self.left << 20 | self.phase << 40 | (self.bytes as u64) << 41
    }
}

/// A tensor in memory, as `cuTensorMapEncodeTiled` describes it; the first dimension is the fastest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TensorMap {
    /// Where it begins.
    pub base: u64,
    /// Its sizes.
    pub sizes: [u64; 5],
    /// Bytes from one entry to the next one, of all dimensions but the first.
    pub strides: [u64; 4],
    /// Sizes of a tile.
    pub tile: [u32; 5],
    /// Bytes of an entry.
    pub entry: u32,
    /// Dimensions.
    pub rank: u32,
    /// How many bits of rows are mixed into those of columns, in shared memory.
    pub swizzle: u32,
    /// So that it is as large as NVIDIA's.
    pub unused: [u32; 3],
}

impl TensorMap {
    /// Bytes of a tile.
    fn tile_bytes(&self) -> usize {
        let entries: u32 = self.tile[..self.rank as usize].iter().product();
        (entries * self.entry) as usize
    }

    /// Where an entry of a tile is that begins at some coordinates; `None` outside the tensor.
    fn entry_at(&self, index: usize, places: &[i64]) -> Option<u64> {
        let (mut left, mut address) = (index as u64, self.base);
        for dimension in 0..self.rank as usize {
            let size = u64::from(self.tile[dimension]);
            let place = places.get(dimension)? + (left % size) as i64;
            left /= size;
            let place = u64::try_from(place).ok().filter(|place| *place < self.sizes[dimension])?;
            let stride = dimension.checked_sub(1).map_or(u64::from(self.entry), |above| self.strides[above]);
            address += place * stride;
        }
        Some(address)
    }

    /// Where a byte of a tile lies in shared memory, whose place it would be without mixing.
    fn mixed(&self, place: u64) -> u64 {
        place ^ (place >> 7 & ((1 << self.swizzle) - 1)) << 4
    }
}

impl Warp {
    /// Something of a gate; false if a thread asked in vain whether a phase is over.
    pub(super) fn gate(
        &mut self,
        op: GateOp,
        address: &Address,
        active: u32,
        block: &Block<'_>,
    ) -> Result<bool, String> {
        let mut over = true;
        for lane in lanes(active) {
            let at = self.locate(address, lane, WORD.bytes(), block)?;
            let of = |register: usize| self.registers[register][lane];
            let mut gate = Gate::of(read(at, WORD));
            let (told, phase) = match op {
                GateOp::Begin(wanted) => {
                    let wanted = u64::from(of(wanted) as u32);
                    write(at, WORD, wanted | wanted << 20);
                    continue;
                }
                GateOp::IsOver(answer, phase) => {
                    let is_over = gate.phase != of(phase) & 1;
                    self.registers[answer][lane] = u64::from(is_over);
                    over &= is_over;
                    continue;
                }
                GateOp::Arrive(told, count) => {
                    let came = count.map_or(1, |count| u64::from(of(count) as u32));
                    let phase = gate.phase;
                    gate.left = gate.left.checked_sub(came).ok_or("more come to a gate than it waits for")?;
                    (told, phase)
                }
                GateOp::Expect(told, bytes, comes) => {
                    let phase = gate.phase;
                    gate.bytes += i64::from(of(bytes) as u32);
                    gate.left =
                        gate.left.checked_sub(u64::from(comes)).ok_or("more come to a gate than it waits for")?;
                    (told, phase)
                }
            };
            write(at, WORD, gate.word());
            told.iter().for_each(|told| self.registers[*told][lane] = phase);
        }
        Ok(over)
    }

    /// Copies a tile to shared memory, zeros where there is no tensor, and tells its gate.
    pub(super) fn copy_tile(
        &mut self,
        to: &Address,
        map: usize,
        places: &[usize],
        gate: &Address,
        lane: usize,
        block: &Block<'_>,
    ) -> Result<(), String> {
        let (first, held) = block.params();
        let named = self.registers[map][lane];
        let map = if named < held { first + named } else { named };
        let map_bytes = size_of::<TensorMap>() as u64;
        if map < first || map + map_bytes > first + held || map % 8 != 0 {
            return Err("its map is no parameter".into());
        }
        // SAFETY: it lies within the parameters, and any bits are a map.
        let map = unsafe { std::ptr::read(map as *const TensorMap) };
        if map.rank as usize != places.len() {
            return Err("its map is of another tensor".into());
        }
        let places: Vec<i64> = places.iter().map(|place| i64::from(self.registers[*place][lane] as i32)).collect();
        let (bytes, entry) = (map.tile_bytes(), map.entry as usize);
        let named = self.registers[to.base][lane].wrapping_add_signed(to.offset) & u64::from(u32::MAX);
        let base = self.locate(to, lane, bytes, block)? - named;
        for index in 0..bytes / entry {
            let at = base + map.mixed(named + (index * entry) as u64);
            let ty = Type::Unsigned(8 * entry as u32);
            let value = match map.entry_at(index, &places) {
                Some(from) if !block.holds(from, entry as u64) => return Err("the tensor is no memory".into()),
                Some(from) => read(from, ty),
                None => 0,
            };
            write(at, ty, value);
        }
        let at = self.locate(gate, lane, WORD.bytes(), block)?;
        let mut gate = Gate::of(read(at, WORD));
        gate.bytes -= bytes as i64;
        write(at, WORD, gate.word());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
