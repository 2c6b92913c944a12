//! Values in memory.

use crate::ptx::number::{Type, signed, unsigned};

/// A value in memory that was found to be some.
pub fn read(at: u64, ty: Type) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: callers looked the address up with this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), ty.bytes()) };
    let value = u64::from_le_bytes(bytes);
    if let Type::Signed(_) = ty { signed(ty, value) as u64 } else { value }
}

/// Writes a value to memory that was found to be some.
pub fn write(at: u64, ty: Type, value: u64) {
    let bytes = unsigned(ty, value).to_le_bytes();
    // SAFETY: callers looked the address up with this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, ty.bytes()) };
}
