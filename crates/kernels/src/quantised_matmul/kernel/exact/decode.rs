//! How codes become numbers, a vector of columns at a time.

use crate::quantised_matmul::CodeBits;

/// Makes numbers of codes.
///
/// Codes come as words shifted so that the lowest bits are the code; other codes may stand above them.
pub(super) trait Decode: Copy {
    /// Size of a code.
    const BITS: CodeBits;

    /// The number of each column.
    fn numbers<const N: usize>(self, codes: [u32; N], zeros: &[i32; N]) -> [f32; N];
}

/// The lowest bits that are a code.
const fn mask(bits: CodeBits) -> u32 {
    match bits {
        CodeBits::Four => 15,
        CodeBits::Eight => 255,
    }
}

/// `code - zero`.
#[derive(Clone, Copy)]
pub(super) struct Integers<const FOUR: bool>;

impl<const FOUR: bool> Decode for Integers<FOUR> {
    const BITS: CodeBits = if FOUR { CodeBits::Four } else { CodeBits::Eight };

    #[inline(always)]
    fn numbers<const N: usize>(self, codes: [u32; N], zeros: &[i32; N]) -> [f32; N] {
        let mut numbers = [0f32; N];
        for lane in 0..N {
            numbers[lane] = ((codes[lane] & mask(Self::BITS)) as i32 - zeros[lane]) as f32;
        }
        numbers
    }
}

/// `number[code]` of any table.
#[derive(Clone, Copy)]
pub(super) struct Table<'a, const FOUR: bool>(pub &'a [f32; 256]);

impl<const FOUR: bool> Decode for Table<'_, FOUR> {
    const BITS: CodeBits = if FOUR { CodeBits::Four } else { CodeBits::Eight };

    #[inline(always)]
    fn numbers<const N: usize>(self, codes: [u32; N], _zeros: &[i32; N]) -> [f32; N] {
        let mut numbers = [0f32; N];
        for lane in 0..N {
            numbers[lane] = self.0[(codes[lane] & mask(Self::BITS)) as usize];
        }
        numbers
    }
}

/// 8-bit floats with a sign, 4 bits of exponent with bias 7 and 3 of mantissa, none of them NaN: a few integer
/// operations for a whole vector, where a table is read lane by lane.
#[derive(Clone, Copy)]
pub(in crate::quantised_matmul) struct E4m3;

impl E4m3 {
    /// The number of a code below 256 that is not NaN.
    #[inline(always)]
    pub fn number(code: u32) -> f32 {
        let magnitude = code & 127;
        // The exponent moves to bias 127. Below exponent 1 the mantissa counts in steps of 2^-9.
        let normal = (magnitude << 20) + (120 << 23);
        let small = (magnitude as i32 as f32 * (1.0 / 512.0)).to_bits();
        f32::from_bits(if magnitude < 8 { small } else { normal } | (code & 128) << 24)
    }

    /// Whether a code is NaN.
    pub fn is_nan(code: u8) -> bool {
        code & 127 == 127
    }

    /// Whether a table holds these numbers.
    pub fn is_table(numbers: &[f32; 256]) -> bool {
        (0..=255u8).zip(numbers).all(|(code, number)| {
            if Self::is_nan(code) { number.is_nan() } else { number.to_bits() == Self::number(code.into()).to_bits() }
        })
    }
}

impl Decode for E4m3 {
    const BITS: CodeBits = CodeBits::Eight;

    #[inline(always)]
    fn numbers<const N: usize>(self, codes: [u32; N], _zeros: &[i32; N]) -> [f32; N] {
        let mut numbers = [0f32; N];
        for lane in 0..N {
            numbers[lane] = Self::number(codes[lane] & 255);
        }
        numbers
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::{CodeBits, Decode};
    use std::arch::x86_64::*;

    /// `number[code]` of 16 numbers, which one instruction looks up for 16 columns. Only for functions with AVX-512.
    #[derive(Clone, Copy)]
    pub struct Sixteen512<'a>(&'a [f32; 16]);

    impl<'a> Sixteen512<'a> {
        /// The first 16 numbers of a table.
        ///
        /// # Safety
        /// The processor has AVX-512 F.
        pub unsafe fn new(numbers: &'a [f32; 256]) -> Self {
            Self(first(numbers))
        }
    }

    impl Decode for Sixteen512<'_> {
        const BITS: CodeBits = CodeBits::Four;

        #[inline(always)]
        fn numbers<const N: usize>(self, codes: [u32; N], _zeros: &[i32; N]) -> [f32; N] {
            let mut numbers = [0f32; N];
            // SAFETY: whoever made this knows the processor; each chunk has 16 values.
            unsafe {
                let table = _mm512_loadu_ps(self.0.as_ptr());
                for (to, codes) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0) {
                    // Only the lowest four bits of an index count.
                    let found = _mm512_permutexvar_ps(_mm512_loadu_si512(codes.as_ptr().cast()), table);
                    _mm512_storeu_ps(to.as_mut_ptr(), found);
                }
            }
            numbers
        }
    }

    /// [`Sixteen512`] for eight columns at a time, from the two halves of the table. Only for functions with AVX2.
    #[derive(Clone, Copy)]
    pub struct Sixteen256<'a>(&'a [f32; 16]);

    impl<'a> Sixteen256<'a> {
        /// The first 16 numbers of a table.
        ///
        /// # Safety
        /// The processor has AVX2.
        pub unsafe fn new(numbers: &'a [f32; 256]) -> Self {
            Self(first(numbers))
        }
    }

    impl Decode for Sixteen256<'_> {
        const BITS: CodeBits = CodeBits::Four;

        #[inline(always)]
        fn numbers<const N: usize>(self, codes: [u32; N], _zeros: &[i32; N]) -> [f32; N] {
            let mut numbers = [0f32; N];
            // SAFETY: whoever made this knows the processor; each chunk has eight values.
            unsafe {
                let [low, high] = [0, 8].map(|half| _mm256_loadu_ps(self.0.as_ptr().add(half)));
                for (to, codes) in numbers.as_chunks_mut::<8>().0.iter_mut().zip(codes.as_chunks::<8>().0) {
                    let codes = _mm256_loadu_si256(codes.as_ptr().cast());
                    let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
                    let found = [low, high].map(|half| _mm256_permutevar8x32_ps(half, codes));
                    // The sign of `upper` is the fourth bit of the code.
                    _mm256_storeu_ps(to.as_mut_ptr(), _mm256_blendv_ps(found[0], found[1], upper));
                }
            }
            numbers
        }
    }

    /// [`E4m3`](super::E4m3) by the conversion of 16-bit floats, which have one more bit of exponent. Only for functions
    /// with AVX-512.
    #[derive(Clone, Copy)]
    pub struct E4m3Halves(());

    impl E4m3Halves {
        /// # Safety
        /// The processor has AVX-512 F.
        pub unsafe fn new() -> Self {
            Self(())
        }
    }

    impl Decode for E4m3Halves {
        const BITS: CodeBits = CodeBits::Eight;

        #[inline(always)]
        fn numbers<const N: usize>(self, codes: [u32; N], _zeros: &[i32; N]) -> [f32; N] {
            /// `a ? b : c`, bit by bit.
            const SELECT: i32 = 0xca;
            let mut numbers = [0f32; N];
            // SAFETY: whoever made this knows the processor; each chunk has 16 values.
            unsafe {
                let (sign, magnitude) = (_mm512_set1_epi32(0x8000), _mm512_set1_epi32(0x3f80));
                for (to, codes) in numbers.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0) {
                    let codes = _mm512_loadu_si512(codes.as_ptr().cast());
                    let rest = _mm512_and_si512(_mm512_slli_epi32::<7>(codes), magnitude);
                    let halves = _mm512_ternarylogic_epi32::<SELECT>(sign, _mm512_slli_epi32::<8>(codes), rest);
                    let found = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves));
                    // The bias of 16-bit floats is 15, not 7.
                    _mm512_storeu_ps(to.as_mut_ptr(), _mm512_mul_ps(found, _mm512_set1_ps(256.0)));
                }
            }
            numbers
        }
    }

    fn first(numbers: &[f32; 256]) -> &[f32; 16] {
        &numbers.as_chunks::<16>().0[0]
    }
}
