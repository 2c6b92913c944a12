//! Which vector instructions this processor has.

use std::sync::OnceLock;

/// An instruction set that this processor was found to have. All sets perform the same operations in the same order,
/// with fused multiply-add, so results are equal bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Kind);

/// The instruction sets the CPU kernels are compiled for. Only detection makes an [`Isa`] of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
pub(crate) enum Kind {
    /// 512-bit vectors: AVX-512 F, BW, DQ, VL.
    Avx512,
    /// 256-bit vectors: AVX2 with FMA and F16C.
    Avx2,
    /// Whatever the target guarantees (NEON on aarch64).
    Portable,
}

impl Isa {
    /// The best set this processor has, looked up once.
    pub fn detect() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| *Self::available().last().unwrap_or(&Isa(Kind::Portable)))
    }

    /// Every set this processor can run, worst first.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
        let mut found = vec![Isa(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 =
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
            if avx2 {
                found.push(Isa(Kind::Avx2));
            }
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                found.push(Isa(Kind::Avx512));
            }
        }
        found
    }

    /// Whether [`few_row_matmul`](crate::few_row_matmul) reaches the multiply-add peak with many rows.
    pub(crate) fn has_tall_tiles(self) -> bool {
        self.0 == Kind::Avx512
    }

    /// Whether the processor multiplies pairs of `bf16` numbers.
    pub fn has_pair_products(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.0 == Kind::Avx512 && is_x86_feature_detected!("avx512bf16")
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether the processor multiplies bytes four at a time.
    pub fn has_byte_products(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.0 == Kind::Avx512 && is_x86_feature_detected!("avx512vnni")
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Whether the processor has AMX instructions for bytes, and may use them.
    pub fn has_tiles(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            self.0 == Kind::Avx512 && crate::tiles::is_there()
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// The name printed by `gorgon doctor`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Avx512 => "AVX-512",
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "aarch64")]
            Kind::Portable if std::arch::is_aarch64_feature_detected!("dotprod") => "NEON with byte dot products",
            #[cfg(target_arch = "aarch64")]
            Kind::Portable => "NEON",
            #[cfg(not(target_arch = "aarch64"))]
            Kind::Portable => "portable",
        }
    }
}

/// Defines `fn name(isa: Isa, args…)` whose body is compiled once per instruction set. The body and everything it
/// calls must be `#[inline(always)]`, so that it is compiled with the features of the function it is inlined into.
macro_rules! per_isa {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$g:ident: $b:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$g: $b>)? (isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body $(<$g: $b>)? ($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx512 $(<$g: $b>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            fn avx2 $(<$g: $b>)? ($($arg: $ty),*) $(-> $ret)? { body($($arg),*) }
            match isa.kind() {
                // SAFETY: an `Isa` comes from `Isa::available`, which detected the features.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Kind::Avx2 => unsafe { avx2($($arg),*) },
                #[allow(unreachable_patterns)]
                _ => body($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
