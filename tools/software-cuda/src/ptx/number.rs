//! Types of PTX, and numbers in registers of 64 bits.
//!
//! A register holds a value of its type in its low bits; whatever is above them is not looked at, so every reader names
//! the type it reads.

use half::{bf16, f16};

/// A type as instructions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A truth value.
    Predicate,
    /// Bits without a meaning, or an unsigned integer.
    Unsigned(u32),
    /// A signed integer.
    Signed(u32),
    /// Half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Single precision.
    F32,
    /// Single precision of which products see 10 bits of the mantissa.
    Tf32,
    /// Double precision.
    F64,
    /// Two of half precision.
    F16x2,
    /// Two brain floats.
    Bf16x2,
}

impl Type {
    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Predicate,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            "tf32" => Self::Tf32,
            "f64" => Self::F64,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            _ => {
                let bits = name.get(1..)?.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits))?;
                match &name[..1] {
                    "b" | "u" => Self::Unsigned(bits),
                    "s" => Self::Signed(bits),
                    _ => return None,
                }
            }
        })
    }

    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::Unsigned(bits) | Self::Signed(bits) => bits,
            Self::F16 | Self::Bf16 => 16,
            Self::F32 | Self::Tf32 | Self::F16x2 | Self::Bf16x2 => 32,
            Self::F64 => 64,
        }
    }

    /// Bytes of a value in memory.
    pub fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// Whether it is a single floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::Tf32 | Self::F64)
    }

    /// Of which numbers it is a pair, if it is one.
    pub fn pair_of(self) -> Option<Self> {
        match self {
            Self::F16x2 => Some(Self::F16),
            Self::Bf16x2 => Some(Self::Bf16),
            _ => None,
        }
    }
}

/// How results that a type cannot hold are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to even.
    #[default]
    Nearest,
    /// Toward zero.
    Zero,
    /// Downward.
    Down,
    /// Upward.
    Up,
}

impl Rounding {
    /// The mode among the parts of an instruction's name; the second says whether it rounds to an integer.
    pub fn among(parts: &[&str]) -> (Self, bool) {
        for part in parts {
            let mode = match part.trim_end_matches('i') {
                "rn" | "rna" => Self::Nearest,
                "rz" => Self::Zero,
                "rm" => Self::Down,
                "rp" => Self::Up,
                _ => continue,
            };
            return (mode, part.len() == 3 && part.ends_with('i'));
        }
        (Self::default(), false)
    }

    /// The nearest integer in this direction.
    pub fn to_integer(self, value: f64) -> f64 {
        match self {
            Self::Nearest => value.round_ties_even(),
            Self::Zero => value.trunc(),
            Self::Down => value.floor(),
            Self::Up => value.ceil(),
        }
    }
}

/// The low bits of a register.
pub fn unsigned(ty: Type, register: u64) -> u64 {
    match ty.bits() {
        64 => register,
        bits => register & ((1 << bits) - 1),
    }
}

/// Value with the sign of the highest of them.
pub fn signed(ty: Type, register: u64) -> i64 {
    let above = 64 - ty.bits();
    ((register << above) as i64) >> above
}

/// An integer with or without a sign, as its type says.
pub fn integer(ty: Type, register: u64) -> i128 {
    match ty {
        Type::Signed(_) => i128::from(signed(ty, register)),
        _ => i128::from(unsigned(ty, register)),
    }
}

/// A floating-point number, exactly.
pub fn float(ty: Type, register: u64) -> f64 {
    match ty {
        Type::F16 => f16::from_bits(register as u16).to_f64(),
        Type::Bf16 => bf16::from_bits(register as u16).to_f64(),
        Type::Tf32 => f64::from(f32::from_bits(register as u32 & !0x1fff)),
        Type::F64 => f64::from_bits(register),
        _ => f64::from(f32::from_bits(register as u32)),
    }
}

/// The register of a number, rounded.
pub fn rounded(ty: Type, value: f64, mode: Rounding) -> u64 {
    match (ty, mode) {
        (Type::F16, Rounding::Nearest) => u64::from(f16::from_f64(value).to_bits()),
        (Type::Bf16, Rounding::Nearest) => u64::from(bf16::from_f64(value).to_bits()),
        (Type::F64, _) => value.to_bits(),
        (Type::F16 | Type::Bf16, _) => directed_half(ty, value, mode),
        (Type::Tf32, _) => {
            let bits = (value as f32).to_bits();
            u64::from((bits + 0x0fff + ((bits >> 13) & 1)) & !0x1fff)
        }
        _ => u64::from(directed(value, mode).to_bits()),
    }
}

/// To single precision.
fn directed(value: f64, mode: Rounding) -> f32 {
    let nearest = value as f32;
    let over = match f64::from(nearest).partial_cmp(&value) {
        Some(order) => order as i32,
        None => return nearest,
    };
    match mode {
        Rounding::Nearest => nearest,
        Rounding::Down if over > 0 => nearest.next_down(),
        Rounding::Up if over < 0 => nearest.next_up(),
        Rounding::Zero if over > 0 && value > 0.0 => nearest.next_down(),
        Rounding::Zero if over < 0 && value < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// To 16 bits in a direction: the neighbour on that side.
fn directed_half(ty: Type, value: f64, mode: Rounding) -> u64 {
    let nearest = rounded(ty, value, Rounding::Nearest);
    let found = float(ty, nearest);
    let wrong = match mode {
        Rounding::Nearest => false,
        Rounding::Down => found > value,
        Rounding::Up => found < value,
        Rounding::Zero => found.abs() > value.abs(),
    };
    // Magnitudes are ordered like their bits.
    let outward = (found > value) != (found < 0.0);
    match (wrong, outward) {
        (false, _) => nearest,
        (true, true) => nearest - 1,
        (true, false) => nearest + 1,
    }
}

/// Both halves of a register through the same function.
pub fn by_halves<const N: usize>(registers: [u64; N], each: impl Fn([u64; N]) -> u64) -> u64 {
    let low = each(registers) & 0xffff;
    let high = each(registers.map(|register| register >> 16)) & 0xffff;
    low | high << 16
}

#[cfg(test)]
mod tests;
