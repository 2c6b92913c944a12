//! Arithmetic of instructions on registers, lane by lane.

use super::number::{Rounding, Type, by_halves, float, integer, rounded, signed, unsigned};
use std::cmp::Ordering;

/// A function of one register.
pub type Unary = Box<dyn Fn(u64) -> u64 + Send + Sync>;
/// A function of two registers.
pub type Binary = Box<dyn Fn(u64, u64) -> u64 + Send + Sync>;
/// A function of three registers.
pub type Ternary = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

/// The parts of an instruction's name: `fma.rn.f32` is `["fma", "rn", "f32"]`.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a>(pub &'a [&'a str]);

impl Name<'_> {
    /// Whether there is such a part.
    pub fn has(self, part: &str) -> bool {
        self.0[1..].contains(&part)
    }

    /// The last part that names a type.
    pub fn ty(self) -> Option<Type> {
        self.0.iter().rev().find_map(|part| Type::named(part))
    }

    fn rounding(self) -> Rounding {
        Rounding::among(self.0).0
    }
}

/// Functions of one register.
pub fn unary(name: Name<'_>) -> Option<Unary> {
    if name.0[0] == "cvt" {
        return convert(name);
    }
    let ty = name.ty()?;
    if let Some(half) = ty.pair_of() {
        let parts: Vec<&str> = name.0[..name.0.len() - 1].iter().copied().chain([spelled(half)]).collect();
        let each = unary(Name(&parts))?;
        return Some(Box::new(move |a| by_halves([a], |[a]| each(a))));
    }
    match name.0[0] {
        "mov" => Some(Box::new(|a| a)),
        _ if ty.is_float() => of_float(name, ty),
        _ => of_integer(name, ty),
    }
}

fn of_float(name: Name<'_>, ty: Type) -> Option<Unary> {
    let mode = name.rounding();
    let f: fn(f64) -> f64 = match name.0[0] {
        "neg" => |a| -a,
        "abs" => f64::abs,
        "sqrt" => f64::sqrt,
        "rcp" => |a| 1.0 / a,
        "rsqrt" => |a| 1.0 / a.sqrt(),
        "sin" => f64::sin,
        "cos" => f64::cos,
        "ex2" => f64::exp2,
        "lg2" => f64::log2,
        "tanh" => f64::tanh,
        _ => return None,
    };
    Some(Box::new(move |a| rounded(ty, f(float(ty, a)), mode)))
}

fn of_integer(name: Name<'_>, ty: Type) -> Option<Unary> {
    let bits = ty.bits();
    Some(match name.0[0] {
        "neg" => Box::new(u64::wrapping_neg),
        "abs" => Box::new(move |a| signed(ty, a).unsigned_abs()),
        "not" if ty == Type::Predicate => Box::new(|a| a ^ 1),
        "not" => Box::new(|a| !a),
        "cnot" => Box::new(move |a| u64::from(unsigned(ty, a) == 0)),
        "popc" => Box::new(move |a| u64::from(unsigned(ty, a).count_ones())),
        "clz" => Box::new(move |a| u64::from(unsigned(ty, a).leading_zeros() - (64 - bits))),
        "brev" => Box::new(move |a| unsigned(ty, a).reverse_bits() >> (64 - bits)),
        "bfind" => {
            let shifted = name.has("shiftamt");
            Box::new(move |a| {
                let magnitude = if matches!(ty, Type::Signed(_)) && signed(ty, a) < 0 { !a } else { a };
                match unsigned(ty, magnitude).checked_ilog2() {
                    Some(place) => u64::from(if shifted { bits - 1 - place } else { place }),
                    None => u64::from(u32::MAX),
                }
            })
        }
        _ => return None,
    })
}

fn spelled(half: Type) -> &'static str {
    if half == Type::F16 { "f16" } else { "bf16" }
}

/// Functions of two registers.
pub fn binary(name: Name<'_>) -> Option<Binary> {
    if name.0[0] == "cvt" {
        return pair_converted(name);
    }
    let ty = name.ty()?;
    if let Some(half) = ty.pair_of() {
        let parts: Vec<&str> = name.0[..name.0.len() - 1].iter().copied().chain([spelled(half)]).collect();
        let each = binary(Name(&parts))?;
        return Some(Box::new(move |a, b| by_halves([a, b], |[a, b]| each(a, b))));
    }
    if ty.is_float() {
        return of_floats(name, ty);
    }
    if name.0[0] == "mul" {
        return product(name, ty);
    }
    let two =
        move |f: fn(i128, i128) -> i128| -> Binary { Box::new(move |a, b| f(integer(ty, a), integer(ty, b)) as u64) };
    Some(match name.0[0] {
        "add" => Box::new(u64::wrapping_add),
        "sub" => Box::new(u64::wrapping_sub),
        "and" => Box::new(|a, b| a & b),
        "or" => Box::new(|a, b| a | b),
        "xor" => Box::new(|a, b| a ^ b),
        "min" => two(Ord::min),
        "max" => two(Ord::max),
        // The result of a division by zero is not defined.
        "div" => two(|a, b| a.checked_div(b).unwrap_or(-1)),
        "rem" => two(|a, b| a.checked_rem(b).unwrap_or(-1)),
        "shl" => Box::new(move |a, b| {
            let by = b as u32;
            if by >= ty.bits() { 0 } else { a << by }
        }),
        "shr" => Box::new(move |a, b| (integer(ty, a) >> (b as u32).min(64)) as u64),
        _ => return None,
    })
}

fn of_floats(name: Name<'_>, ty: Type) -> Option<Binary> {
    let (mode, saturated, propagates) = (name.rounding(), name.has("sat"), name.has("NaN"));
    let f: fn(f64, f64) -> f64 = match name.0[0] {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        "mul" => |a, b| a * b,
        "div" => |a, b| a / b,
        "min" => f64::min,
        "max" => f64::max,
        "copysign" => |sign, magnitude| magnitude.copysign(sign),
        _ => return None,
    };
    Some(Box::new(move |a, b| {
        let (a, b) = (float(ty, a), float(ty, b));
        let result = if propagates && (a.is_nan() || b.is_nan()) { f64::NAN } else { f(a, b) };
        rounded(ty, if saturated { saturate(result) } else { result }, mode)
    }))
}

/// Within 0 and 1, and 0 for what is no number.
fn saturate(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

fn product(name: Name<'_>, ty: Type) -> Option<Binary> {
    let by = if name.has("hi") { ty.bits() } else { 0 };
    if !["lo", "hi", "wide"].iter().any(|part| name.has(part)) {
        return None;
    }
    Some(Box::new(move |a, b| (integer(ty, a).wrapping_mul(integer(ty, b)) >> by) as u64))
}

/// Functions of three registers.
pub fn ternary(name: Name<'_>) -> Option<Ternary> {
    let ty = name.ty()?;
    if let Some(half) = ty.pair_of() {
        let parts: Vec<&str> = name.0[..name.0.len() - 1].iter().copied().chain([spelled(half)]).collect();
        let each = ternary(Name(&parts))?;
        return Some(Box::new(move |a, b, c| by_halves([a, b, c], |[a, b, c]| each(a, b, c))));
    }
    Some(match name.0[0] {
        "selp" => Box::new(|a, b, choice| if choice & 1 == 1 { a } else { b }),
        "fma" | "mad" if ty.is_float() => fused(name, ty),
        "mad" => {
            let times = product(name, ty)?;
            Box::new(move |a, b, c| times(a, b).wrapping_add(c))
        }
        "slct" => {
            let by = Type::named(name.0.last()?)?;
            Box::new(move |a, b, c| {
                let first = if by.is_float() { float(by, c) >= 0.0 } else { signed(by, c) >= 0 };
                if first { a } else { b }
            })
        }
        "bfe" => Box::new(move |a, from, length| extracted(ty, a, from & 0xff, length & 0xff)),
        "shf" => {
            let (left, wraps) = (name.has("l"), name.has("wrap"));
            Box::new(move |low, high, by| {
                let by = if wraps { by & 31 } else { u64::from(by as u32).min(32) };
                let both = (high & 0xffff_ffff) << 32 | (low & 0xffff_ffff);
                if left { (both << by) >> 32 } else { both >> by }
            })
        }
        "prmt" => Box::new(permuted),
        _ => return None,
    })
}

fn fused(name: Name<'_>, ty: Type) -> Ternary {
    let (mode, saturated) = (name.rounding(), name.has("sat"));
    if (ty, mode, saturated) == (Type::F32, Rounding::Nearest, false) {
        let single = |register: u64| f32::from_bits(register as u32);
        return Box::new(move |a, b, c| u64::from(single(a).mul_add(single(b), single(c)).to_bits()));
    }
    Box::new(move |a, b, c| {
        let result = float(ty, a).mul_add(float(ty, b), float(ty, c));
        rounded(ty, if saturated { saturate(result) } else { result }, mode)
    })
}

/// `length` bits from bit `from` on, with the sign of the last of them if the type has one.
fn extracted(ty: Type, a: u64, from: u64, length: u64) -> u64 {
    if length == 0 {
        return 0;
    }
    let length = length.min(64);
    let value = integer(ty, a) >> from.min(64);
    let above = 128 - length as u32;
    match ty {
        Type::Signed(_) => (value << above >> above) as u64,
        _ => ((value as u128) << above >> above) as u64,
    }
}

/// Four bytes of eight; a selector's highest bit asks for its sign.
fn permuted(a: u64, b: u64, choice: u64) -> u64 {
    let bytes = (b & 0xffff_ffff) << 32 | (a & 0xffff_ffff);
    (0..4).fold(0, |result, i| {
        let selector = choice >> (4 * i) & 0xf;
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 == 0 { byte } else { u64::from(byte & 0x80 != 0) * 0xff };
        result | byte << (8 * i)
    })
}

/// `bfi`: `length` bits of `a` in `b`, from bit `from` on.
pub fn inserted(ty: Type, a: u64, b: u64, from: u64, length: u64) -> u64 {
    let (from, length) = (from & 0xff, length & 0xff);
    if from >= u64::from(ty.bits()) || length == 0 {
        return b;
    }
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 } << from;
    (b & !mask) | (a << from & mask)
}

/// Conversions between two types, `cvt[.mode][.sat].TO.FROM`.
fn convert(name: Name<'_>) -> Option<Unary> {
    let mut types = name.0[1..].iter().filter_map(|part| Type::named(part));
    let (to, from) = (types.next()?, types.next()?);
    let ((mode, to_integer), saturated) = (Rounding::among(name.0), name.has("sat"));
    // A rectified result is not negative.
    let rectified = name.has("relu");
    if to.pair_of().is_some() || from.pair_of().is_some() {
        return None;
    }
    Some(match (to.is_float(), from.is_float()) {
        (true, true) => Box::new(move |a| {
            let value = float(from, a);
            let value = if to_integer { mode.to_integer(value) } else { value };
            let value = if saturated { saturate(value) } else { value };
            rounded(to, if rectified { value.max(0.0) } else { value }, mode)
        }),
        (true, false) => Box::new(move |a| rounded(to, integer(from, a) as f64, mode)),
        (false, true) => Box::new(move |a| clamped(to, mode.to_integer(float(from, a)) as i128)),
        (false, false) if saturated => Box::new(move |a| clamped(to, integer(from, a))),
        (false, false) => Box::new(move |a| unsigned(to, integer(from, a) as u64)),
    })
}

/// The nearest integer that a type can hold.
fn clamped(ty: Type, value: i128) -> u64 {
    let bits = ty.bits();
    match ty {
        Type::Signed(_) => unsigned(ty, value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) as u64),
        _ => value.clamp(0, (1 << bits) - 1) as u64,
    }
}

/// `cvt.f16x2.f32 d, high, low`.
fn pair_converted(name: Name<'_>) -> Option<Binary> {
    let mut types = name.0[1..].iter().filter_map(|part| Type::named(part));
    let (half, from) = (types.next()?.pair_of()?, types.next()?);
    let (mode, rectified) = (name.rounding(), name.has("relu"));
    let one = move |a| {
        let value = float(from, a);
        rounded(half, if rectified { value.max(0.0) } else { value }, mode)
    };
    from.is_float().then(|| -> Binary { Box::new(move |high, low| one(high) << 16 | one(low)) })
}

/// The comparison that `setp` names, `setp.CMP[...].TYPE`.
pub fn comparison(name: Name<'_>) -> Option<Box<dyn Fn(u64, u64) -> bool + Send + Sync>> {
    let (ty, spelled) = (name.ty()?, *name.0.get(1)?);
    // Of numbers that are none, no order can be told.
    let (orders, unordered) = match spelled {
        "num" => (7, false),
        "nan" => (0, true),
        _ if ty.is_float() && spelled.len() == 3 && spelled.ends_with('u') => (orders(&spelled[..2])?, true),
        _ => (orders(spelled)?, false),
    };
    let accepts = move |order: Ordering| orders >> (order as i32 + 1) & 1 == 1;
    Some(match ty.is_float() {
        true => Box::new(move |a, b| float(ty, a).partial_cmp(&float(ty, b)).map_or(unordered, accepts)),
        false => Box::new(move |a, b| accepts(integer(ty, a).cmp(&integer(ty, b)))),
    })
}

/// The orders that a comparison accepts, as bits: 1 for less, 2 for equal, 4 for greater.
fn orders(name: &str) -> Option<u32> {
    Some(match name {
        "lt" | "lo" => 1,
        "eq" => 2,
        "le" | "ls" => 3,
        "gt" | "hi" => 4,
        "ne" => 5,
        "ge" | "hs" => 6,
        _ => return None,
    })
}

/// Value that an atomic operation leaves in memory, from the old value and its operands.
pub fn atomic(name: Name<'_>) -> Option<Ternary> {
    let ty = name.ty()?;
    Some(match name.0.iter().find(|part| ["cas", "exch", "inc", "dec"].contains(part)).copied() {
        Some("cas") => {
            Box::new(move |old, expected, new| if unsigned(ty, old) == unsigned(ty, expected) { new } else { old })
        }
        Some("exch") => Box::new(|_, new, _| new),
        Some("inc") => Box::new(move |old, most, _| {
            let old = unsigned(ty, old);
            if old >= unsigned(ty, most) { 0 } else { old + 1 }
        }),
        Some(_) => return None,
        None => {
            const SIMPLE: [&str; 6] = ["add", "min", "max", "and", "or", "xor"];
            let base = name.0.iter().find(|part| SIMPLE.contains(part))?;
            let f = binary(Name(&[base, name.0.iter().rev().find(|part| Type::named(part).is_some())?]))?;
            Box::new(move |old, value, _| f(old, value))
        }
    })
}

#[cfg(test)]
mod tests;
