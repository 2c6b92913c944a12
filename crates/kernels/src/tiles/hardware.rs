//! The processor's own tiles.

use super::{COLUMNS, Unit};
use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

/// The tiles of the core that runs this thread.
pub struct Hardware;

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row, by tile.
    bytes: [u16; 16],
    /// Rows, by tile.
    rows: [u8; 16],
}

/// Whether this processor and system have tiles of bytes, and the tiles say what vectors do. Asked once.
pub fn is_there() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| is_supported() && is_granted() && is_right())
}

/// Whether processor and system know tiles of bytes.
fn is_supported() -> bool {
    /// AMX-TILE and AMX-INT8 in EDX of leaf 7.
    const TILES: u32 = 1 << 24 | 1 << 25;
    /// Tile configuration and data in XCR0.
    const STATE: u64 = 1 << 17 | 1 << 18;
    if !is_x86_feature_detected!("xsave") || __cpuid_count(0, 0).eax < 7 || __cpuid_count(7, 0).edx & TILES != TILES {
        return false;
    }
    #[target_feature(enable = "xsave")]
    unsafe fn enabled() -> u64 {
        // SAFETY: the caller knows the instruction to be there.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: the processor was asked.
    unsafe { enabled() & STATE == STATE }
}

/// Asks Linux for the use of tile data, which it grants to processes that ask.
fn is_granted() -> bool {
    #[cfg(target_os = "linux")]
    {
        /// `arch_prctl`, `ARCH_REQ_XCOMP_PERM` and the number of the tile data.
        const CALL: (i64, u64, u64) = (158, 0x1023, 18);
        let result: i64;
        // SAFETY: the call reads no memory and changes nothing but the permission.
        unsafe {
            asm!("syscall", inout("rax") CALL.0 => result, in("rdi") CALL.1, in("rsi") CALL.2, out("rcx") _,
                out("r11") _, options(nostack));
        }
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Multiplies numbers of which the sums are known.
fn is_right() -> bool {
    const ROWS: usize = 5;
    const DEPTH: usize = 64;
    let inputs: [[i8; DEPTH]; ROWS] = std::array::from_fn(|r| std::array::from_fn(|k| (r * 67 + k * 31) as i8));
    let codes: [u8; DEPTH * COLUMNS] = std::array::from_fn(|i| (i * 37 + i / 251) as u8);
    let mut sums = [[0i32; COLUMNS]; ROWS];
    let mut unit = Hardware;
    // SAFETY: the processor was asked; rows, codes and sums are there.
    unsafe {
        unit.begin(ROWS, DEPTH);
        (0..2).for_each(|_| unit.add(inputs.as_ptr().cast(), DEPTH, codes.as_ptr()));
        unit.end(sums.as_mut_ptr().cast());
    }
    let code = |k: usize, column: usize| i32::from(codes[k / 4 * 4 * COLUMNS + 4 * column + k % 4]);
    let sum = |r: usize, column: usize| (0..DEPTH).map(|k| i32::from(inputs[r][k]) * code(k, column)).sum::<i32>();
    (0..ROWS).all(|r| (0..COLUMNS).all(|column| sums[r][column] == 2 * sum(r, column)))
}

/// Tiles 0 and 1 are the sums of 16 columns each, 2 is inputs, 3 and 4 are codes.
impl Unit for Hardware {
    unsafe fn begin(&mut self, rows: usize, depth: usize) {
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        for (tile, (height, bytes)) in
            [(rows, 64), (rows, 64), (rows, depth), (depth / 4, 64), (depth / 4, 64)].into_iter().enumerate()
        {
            (config.rows[tile], config.bytes[tile]) = (height as u8, bytes as u16);
        }
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ldtilecfg [{config}]", "tilezero tmm0", "tilezero tmm1", config = in(reg) &raw const config,
                options(nostack, preserves_flags));
        }
    }

    unsafe fn add(&mut self, inputs: *const u8, stride: usize, codes: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("tileloadd tmm2, [{inputs} + 1*{stride}]", "tileloadd tmm3, [{codes} + 1*{line}]",
                "tdpbsud tmm0, tmm2, tmm3", "tileloadd tmm4, [{codes} + 1*{line} + 64]", "tdpbsud tmm1, tmm2, tmm4",
                inputs = in(reg) inputs, stride = in(reg) stride, codes = in(reg) codes, line = in(reg) 4 * COLUMNS,
                options(nostack, preserves_flags, readonly));
        }
    }

    unsafe fn end(&mut self, sums: *mut i32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!("tilestored [{sums} + 1*{row}], tmm0", "tilestored [{sums} + 1*{row} + 64], tmm1", "tilerelease",
                sums = in(reg) sums, row = in(reg) size_of::<[i32; COLUMNS]>(), options(nostack, preserves_flags));
        }
    }
}
