//! The processor's own tiles.

use super::{COLUMNS, DEPTH, Unit};
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
    const BLOCKS: usize = 2;
    const WIDTH: usize = BLOCKS * DEPTH;
    let inputs: [[i8; WIDTH]; 16] = std::array::from_fn(|r| std::array::from_fn(|k| (r * 67 + k * 31 + k / 8) as i8));
    let codes: [u8; WIDTH * COLUMNS] = std::array::from_fn(|i| (i * 37 + i / 251) as u8);
    let code = |k: usize, column: usize| i32::from(codes[k / 4 * 4 * COLUMNS + 4 * column + k % 4]);
    let sum = |r: usize, column: usize| (0..WIDTH).map(|k| i32::from(inputs[r][k]) * code(k, column)).sum::<i32>();
    let mut unit = Hardware;
    [1, 5, 14, 16].into_iter().all(|rows| {
        let mut sums = [[0i32; COLUMNS]; 16];
        // SAFETY: the processor was asked; rows, codes and sums are there.
        unsafe {
            unit.begin(rows);
            unit.multiply(inputs.as_ptr().cast(), WIDTH, codes.as_ptr(), BLOCKS, sums.as_mut_ptr().cast());
            unit.end();
        }
        let expected = |r: usize, column: usize| if r < rows { sum(r, column) } else { 0 };
        (0..16).all(|r| (0..COLUMNS).all(|column| sums[r][column] == expected(r, column)))
    })
}

/// Tiles 0 and 1 are the sums of 16 columns each, 2 is inputs, 3 and 4 are codes.
impl Unit for Hardware {
    #[inline(always)]
    unsafe fn begin(&mut self, rows: usize) {
        let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        config.bytes[..5].fill(64);
        config.rows[..3].fill(rows as u8);
        config.rows[3..5].fill((DEPTH / 4) as u8);
        // SAFETY: the caller's promise.
        unsafe {
            asm!("ldtilecfg [{config}]", config = in(reg) &raw const config, out("tmm0") _, out("tmm1") _, out("tmm2") _,
                out("tmm3") _, out("tmm4") _, options(nostack, readonly, preserves_flags));
        }
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, inputs: *const u8, stride: usize, codes: *const u8, blocks: usize, sums: *mut i32) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "2:",
                "tileloadd tmm2, [{inputs} + 1*{stride}]",
                "tileloadd tmm3, [{codes} + 1*{line}]",
                "tdpbsud tmm0, tmm2, tmm3",
                "tileloadd tmm4, [{codes} + 1*{line} + 64]",
                "tdpbsud tmm1, tmm2, tmm4",
                "add {inputs}, {depth}",
                "add {codes}, {depth} * {columns}",
                "dec {blocks}",
                "jnz 2b",
                "tilestored [{sums} + 1*{line}], tmm0",
                "tilestored [{sums} + 1*{line} + 64], tmm1",
                inputs = inout(reg) inputs => _, stride = in(reg) stride, codes = inout(reg) codes => _,
                line = in(reg) 4 * COLUMNS, blocks = inout(reg) blocks => _, sums = in(reg) sums,
                depth = const DEPTH, columns = const COLUMNS, out("tmm0") _, out("tmm1") _, out("tmm2") _,
                out("tmm3") _, out("tmm4") _, options(nostack),
            );
        }
    }

    #[inline(always)]
    fn end(&mut self) {
        // SAFETY: tiles are there, since something was begun.
        unsafe {
            asm!("tilerelease", out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _,
                options(nostack, nomem, preserves_flags));
        }
    }
}
