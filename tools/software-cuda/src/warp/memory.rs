//! Memory that threads name.

use super::{WIDTH, Warp, lanes, read, write};
use crate::block::Block;
use crate::ptx::{Access, Address, Space};

impl Warp {
    /// First address and bytes of a thread's memory of a kind.
    pub(super) fn extent(&self, space: Space, lane: usize, block: &Block<'_>) -> (u64, u64) {
        let each = self.local.len() / WIDTH;
        match space {
            Space::Generic => (0, u64::MAX),
            Space::Shared => block.shared(),
            Space::Parameters => block.params(),
            Space::Local => (self.local.as_ptr() as u64 + (lane * each) as u64, each as u64),
        }
    }

    /// Where some bytes are that a thread names.
    pub(super) fn locate(
        &self,
        address: &Address,
        lane: usize,
        bytes: usize,
        block: &Block<'_>,
    ) -> Result<u64, String> {
        let register = self.registers[address.base][lane];
        // Addresses of a block's memory are as often in registers of 32 bits as in those of 64.
        let narrow = if address.space == Space::Shared { u64::from(register as u32) } else { register };
        let named = narrow.wrapping_add_signed(address.offset);
        let (first, held) = self.extent(address.space, lane, block);
        let outside = || format!("thread {lane} of its warp asks for {bytes} bytes at {named:#x}");
        if named % bytes.next_power_of_two().min(16) as u64 != 0 {
            return Err(format!("{}, which is not aligned", outside()));
        }
        let own = self.local.as_ptr() as u64;
        let found = match address.space {
            Space::Generic => {
                let local = (own..own + self.local.len() as u64).contains(&named);
                local || block.holds(named, bytes as u64)
            }
            _ => named.checked_add(bytes as u64).is_some_and(|end| end <= held),
        };
        let base = if address.space == Space::Generic { 0 } else { first };
        if found { Ok(base + named) } else { Err(format!("{}, where there is no memory", outside())) }
    }

    pub(super) fn load(&mut self, access: &Access, active: u32, block: &Block<'_>) -> Result<(), String> {
        let (bytes, count) = (access.ty.bytes(), access.registers.len());
        for lane in lanes(active) {
            let at = self.locate(&access.address, lane, bytes * count, block)?;
            for (i, register) in access.registers.iter().enumerate() {
                self.registers[*register][lane] = read(at + (i * bytes) as u64, access.ty);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, access: &Access, active: u32, block: &Block<'_>) -> Result<(), String> {
        let (bytes, count) = (access.ty.bytes(), access.registers.len());
        for lane in lanes(active) {
            let at = self.locate(&access.address, lane, bytes * count, block)?;
            for (i, register) in access.registers.iter().enumerate() {
                write(at + (i * bytes) as u64, access.ty, self.registers[*register][lane]);
            }
        }
        Ok(())
    }
}
