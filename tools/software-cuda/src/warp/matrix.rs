//! Products of small matrices that lie in the registers of a warp.

use super::{WIDTH, Warp, read, write};
use crate::block::Block;
use crate::ptx::number::{Rounding, Type, float, rounded, unsigned};
use crate::ptx::{Address, Fragment, Op};

/// Rows and columns of the matrices that `ldmatrix` reads.
const ROWS: usize = 8;
/// Bytes of one of their rows.
const ROW_BYTES: usize = 16;

impl Warp {
    pub(super) fn matrices(&mut self, op: &Op, active: u32, block: &Block<'_>) -> Result<(), String> {
        if active != u32::MAX {
            return Err("only some threads of a warp take part".into());
        }
        match op {
            Op::Multiply(fragments) => self.multiply(fragments),
            Op::LoadFragment(fragment, address, stride, by_columns) => {
                for (lane, slot, at) in self.places(fragment, address, *stride, *by_columns, block)? {
                    self.put(fragment, lane, slot, read(at, fragment.ty));
                }
            }
            Op::StoreFragment(fragment, address, stride, by_columns) => {
                for (lane, slot, at) in self.places(fragment, address, *stride, *by_columns, block)? {
                    write(at, fragment.ty, self.get(fragment, lane, slot));
                }
            }
            Op::LoadRows(registers, address, transposed) => {
                for (register, lane, half, at) in self.rows(registers, address, *transposed, block)? {
                    let value = &mut self.registers[register][lane];
                    *value = *value & !(0xffff << (16 * half)) | read(at, Type::F16) << (16 * half);
                }
            }
            Op::StoreRows(registers, address, transposed) => {
                for (register, lane, half, at) in self.rows(registers, address, *transposed, block)? {
                    write(at, Type::F16, self.registers[register][lane] >> (16 * half));
                }
            }
            _ => return Err("it is not known".into()),
        }
        Ok(())
    }

    /// A number of a lane.
    fn get(&self, fragment: &Fragment, lane: usize, slot: usize) -> u64 {
        let each = 32 / fragment.ty.bits() as usize;
        let register = self.registers[fragment.registers[slot / each]][lane];
        unsigned(fragment.ty, register >> (slot % each * fragment.ty.bits() as usize))
    }

    fn put(&mut self, fragment: &Fragment, lane: usize, slot: usize, value: u64) {
        let (each, bits) = (32 / fragment.ty.bits() as usize, fragment.ty.bits() as usize);
        let by = slot % each * bits;
        let register = &mut self.registers[fragment.registers[slot / each]][lane];
        let mask = (u64::from(u32::MAX) >> (32 - bits)) << by;
        *register = (*register & !mask) | (unsigned(fragment.ty, value) << by);
    }

    /// All numbers of a matrix.
    fn gather(&self, fragment: &Fragment) -> Vec<f32> {
        let [rows, columns] = fragment.shape;
        let mut values = vec![0.0; rows * columns];
        for lane in 0..WIDTH {
            for slot in 0..fragment.held() {
                let (row, column) = fragment.place(lane, slot);
                values[row * columns + column] = float(fragment.ty, self.get(fragment, lane, slot)) as f32;
            }
        }
        values
    }

    fn multiply(&mut self, [d, a, b, c]: &[Fragment; 4]) {
        let ([rows, inner], columns) = (a.shape, b.shape[1]);
        let (left, right, mut sums) = (self.gather(a), self.gather(b), self.gather(c));
        for row in 0..rows {
            for k in 0..inner {
                let factor = left[row * inner + k];
                let products = right[k * columns..(k + 1) * columns].iter().map(|value| factor * value);
                sums[row * columns..(row + 1) * columns]
                    .iter_mut()
                    .zip(products)
                    .for_each(|(sum, product)| *sum += product);
            }
        }
        for lane in 0..WIDTH {
            for slot in 0..d.held() {
                let (row, column) = d.place(lane, slot);
                let value = f64::from(sums[row * columns + column]);
                self.put(d, lane, slot, rounded(d.ty, value, Rounding::Nearest));
            }
        }
    }

    /// Lane, slot and address of every number of a matrix in memory.
    fn places(
        &self,
        fragment: &Fragment,
        address: &Address,
        stride: usize,
        by_columns: bool,
        block: &Block<'_>,
    ) -> Result<Vec<(usize, usize, u64)>, String> {
        let stride = i64::from(self.registers[stride][0] as u32);
        let mut places = vec![];
        for lane in 0..WIDTH {
            for slot in 0..fragment.held() {
                let (row, column) = fragment.place(lane, slot);
                let (major, minor) = if by_columns { (column, row) } else { (row, column) };
                let offset = (major as i64 * stride + minor as i64) * fragment.ty.bytes() as i64;
                let address = Address { offset: address.offset + offset, ..*address };
                places.push((lane, slot, self.locate(&address, lane, fragment.ty.bytes(), block)?));
            }
        }
        Ok(places)
    }

    /// Register, lane, half and address of every number of `ldmatrix`. The rows of matrix `i` are where lanes `8 i` to
    /// `8 i + 7` say.
    fn rows(
        &self,
        registers: &[usize],
        address: &Address,
        transposed: bool,
        block: &Block<'_>,
    ) -> Result<Vec<(usize, usize, usize, u64)>, String> {
        let mut places = vec![];
        for (matrix, register) in registers.iter().enumerate() {
            let row = |row: usize| self.locate(address, matrix * ROWS + row, ROW_BYTES, block);
            let rows = (0..ROWS).map(row).collect::<Result<Vec<u64>, String>>()?;
            for lane in 0..WIDTH {
                for half in 0..2 {
                    let (row, column) = (lane / 4, lane % 4 * 2 + half);
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    places.push((*register, lane, half, rows[row] + 2 * column as u64));
                }
            }
        }
        Ok(places)
    }
}
