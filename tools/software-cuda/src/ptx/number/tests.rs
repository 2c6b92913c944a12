//! Tests of `number`.

use super::*;

#[test]
fn types_are_told_by_name() {
    assert_eq!(Type::named("s16"), Some(Type::Signed(16)));
    assert_eq!(Type::named("b64"), Some(Type::Unsigned(64)));
    assert_eq!((Type::named("e4m3"), Type::named("b128"), Type::named("")), (None, None, None));
    assert_eq!(Type::Bf16x2.pair_of(), Some(Type::Bf16));
}

#[test]
fn integers_keep_their_signs() {
    let register = 0xffff_0000_ffff_fffe;
    assert_eq!(integer(Type::Signed(32), register), -2);
    assert_eq!(integer(Type::Unsigned(32), register), 0xffff_fffe);
    assert_eq!(integer(Type::Signed(8), 0x80), -128);
}

#[test]
fn rounding_has_directions() {
    let third = 1.0 / 3.0;
    let of = |mode| f32::from_bits(rounded(Type::F32, third, mode) as u32);
    assert!(f64::from(of(Rounding::Down)) < third && f64::from(of(Rounding::Up)) > third);
    assert_eq!(of(Rounding::Zero), of(Rounding::Down));
    let half = |value, mode| float(Type::F16, rounded(Type::F16, value, mode));
    assert!(half(third, Rounding::Down) < third && half(third, Rounding::Up) > third);
    assert!(half(-third, Rounding::Down) < -third && half(-third, Rounding::Zero) > -third);
    assert_eq!(float(Type::Bf16, rounded(Type::Bf16, 1.0 + 1.0 / 256.0, Rounding::Nearest)), 1.0);
    assert_eq!(Rounding::among(&["cvt", "rmi", "f32"]), (Rounding::Down, true));
    assert_eq!(Rounding::among(&["add", "rn", "f32"]), (Rounding::Nearest, false));
}
