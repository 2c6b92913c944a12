//! Tensor data: positioned reads and conversion.

use safetensors::Dtype;
use std::fs::File;

/// Converts 16-bit numbers, little-endian `f16` or else `bf16`, to `f32`.
pub(super) fn widen(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    use half::slice::HalfFloatSliceExt;
    match dtype {
        Dtype::F16 => {
            // The slice conversion uses the processor's own instructions where it has them.
            let mut block = [half::f16::ZERO; 256];
            for (out, bytes) in out.chunks_mut(256).zip(bytes.chunks(512)) {
                for (h, b) in block.iter_mut().zip(bytes.chunks_exact(2)) {
                    *h = half::f16::from_le_bytes([b[0], b[1]]);
                }
                block[..out.len()].convert_to_f32_slice(out);
            }
        }
        _ => {
            for (v, b) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                *v = f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16);
            }
        }
    }
}

/// Whether all numbers are finite, which have magnitudes below that of infinity: none of the differences is negative. A
/// loop of differences alone is one of vector instructions on any processor.
pub(super) fn all_finite(values: &[f32]) -> bool {
    let below = f32::INFINITY.to_bits() - 1;
    let signs = values.iter().fold(0u32, |signs, value| signs | below.wrapping_sub(value.to_bits() & 0x7fff_ffff));
    signs >> 31 == 0
}

/// [`all_finite`] of 16-bit numbers, with the bits of their infinity.
pub(super) fn all_finite_bits(values: &[u16], infinity: u16) -> bool {
    let signs = values.iter().fold(0u16, |signs, bits| signs | (infinity - 1).wrapping_sub(bits & 0x7fff));
    signs >> 15 == 0
}

/// Fills `bytes` from `offset` on.
#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Fills `bytes` from `offset` on.
#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_read(file, bytes, offset)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[n..];
        offset += n as u64;
    }
    Ok(())
}
