//! Tests of `arithmetic`.

use super::*;

fn parts(name: &str) -> Vec<&str> {
    name.split('.').collect()
}

fn of_two(name: &str, a: u64, b: u64) -> u64 {
    binary(Name(&parts(name))).unwrap()(a, b)
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn integers_wrap_and_shift_in_their_widths() {
    assert_eq!(of_two("mul.wide.u32", 0xffff_ffff, 0xffff_ffff), 0xffff_fffe_0000_0001);
    assert_eq!(of_two("mul.wide.s32", 0xffff_ffff, 3) as i64, -3);
    assert_eq!(of_two("mul.hi.u32", 0x8000_0000, 4), 2);
    assert_eq!(of_two("shr.s32", 0x8000_0000, 31) as u32, u32::MAX);
    assert_eq!((of_two("shl.b32", 1, 32), of_two("shr.u32", 1 << 40 | 8, 3)), (0, 1));
    assert_eq!((of_two("div.s32", (-7i32) as u32 as u64, 2) as i32, of_two("rem.u32", 7, 4)), (-3, 3));
    assert_eq!(ternary(Name(&parts("bfe.s32"))).unwrap()(0xf0, 4, 4) as i64, -1);
    assert_eq!(ternary(Name(&parts("prmt.b32"))).unwrap()(0x4433_2211, 0x8877_6655, 0x7410), 0x8855_2211);
    assert_eq!(ternary(Name(&parts("shf.l.wrap.b32"))).unwrap()(0x8000_0000, 1, 1), 3);
    assert_eq!(inserted(Type::Unsigned(32), 0b11, 0, 4, 2), 0b11_0000);
}

#[test]
fn floats_round_once() {
    let sum = of_two("add.rn.f16x2", 0x3c00_4000, 0x3c00_3c00);
    assert_eq!(sum, 0x4000_4200);
    assert_eq!(of_two("min.f32", single(f32::NAN), single(2.0)), single(2.0));
    assert!(f32::from_bits(of_two("max.NaN.f32", single(f32::NAN), single(2.0)) as u32).is_nan());
    assert_eq!(of_two("cvt.rn.bf16x2.f32", single(1.0), single(-2.0)), 0x3f80_c000);
    let rounded_down = ternary(Name(&parts("fma.rm.f32"))).unwrap();
    assert_eq!(rounded_down(single(1.0), single(0.7), single(12_582_913.0)), single(12_582_913.0));
    let to_byte = unary(Name(&parts("cvt.rzi.sat.u8.f32"))).unwrap();
    assert_eq!((to_byte(single(300.0)), to_byte(single(-4.0)), to_byte(single(f32::NAN))), (255, 0, 0));
    assert_eq!(unary(Name(&parts("cvt.s64.s32"))).unwrap()(0xffff_ffff), u64::MAX);
}

#[test]
fn comparisons_know_what_is_no_number() {
    let of = |name: &str, a: f32, b: f32| comparison(Name(&parts(name))).unwrap()(single(a), single(b));
    assert!(of("setp.lt.f32", 1.0, 2.0) && !of("setp.lt.f32", f32::NAN, 2.0));
    assert!(of("setp.ltu.f32", f32::NAN, 2.0) && of("setp.nan.f32", f32::NAN, 2.0));
    assert!(of("setp.neu.f32", f32::NAN, 2.0) && !of("setp.num.f32", f32::NAN, 2.0));
    assert!(comparison(Name(&parts("setp.gt.s32"))).unwrap()(1, 0xffff_ffff));
    assert!(comparison(Name(&parts("setp.hi.u32"))).unwrap()(0xffff_ffff, 1));
}

#[test]
fn atomics_say_what_remains() {
    let of = |name: &str, old, a, b| atomic(Name(&parts(name))).unwrap()(old, a, b);
    assert_eq!((of("atom.global.cas.b32", 5, 5, 9), of("atom.global.cas.b32", 6, 5, 9)), (9, 6));
    assert_eq!(of("red.global.add.f32", single(1.5), single(2.0), 0), single(3.5));
    assert_eq!(of("atom.shared.max.s32", 1, 0xffff_ffff, 0), 1);
}
