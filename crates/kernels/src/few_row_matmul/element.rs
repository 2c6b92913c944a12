//! The numbers that panels are made of.

use super::PANEL;
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// Plain numbers: any bit pattern of their size is a value.
pub(super) trait Bits: Copy + Send + Sync + 'static {}
impl Bits for u16 {}
impl Bits for f32 {}
impl Bits for f16 {}
impl Bits for bf16 {}
impl Bits for [bf16; 2] {}

/// Element types of panels.
pub(super) trait Element: Bits {
    fn widen(self) -> f32;
    /// Converts a row of a panel; with vector instructions where the processor has them.
    fn narrow_row(values: &[f32; PANEL], out: &mut [Self]);
    /// Whether a finite value becomes infinite.
    fn clips(value: f32) -> bool;
}
impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    fn narrow_row(values: &[f32; PANEL], out: &mut [Self]) {
        out.copy_from_slice(values);
    }
    fn clips(_: f32) -> bool {
        false
    }
}
impl Element for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow_row(values: &[f32; PANEL], out: &mut [Self]) {
        out.convert_from_f32_slice(values);
    }
    fn clips(value: f32) -> bool {
        // Halfway between the largest finite f16 and the next power of two.
        value.abs() >= 65_520.0 && value.is_finite()
    }
}
impl Element for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    fn narrow_row(values: &[f32; PANEL], out: &mut [Self]) {
        out.convert_from_f32_slice(values);
    }
    fn clips(value: f32) -> bool {
        value.is_finite() && !bf16::from_f32(value).is_finite()
    }
}
