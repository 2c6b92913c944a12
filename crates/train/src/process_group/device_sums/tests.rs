//! Tests of `device_sums`.

use super::*;

/// The CPU has no such sums: burn panics, and that is a reason like any other.
#[test]
fn a_device_without_them_says_so() {
    let reason = DeviceSums::probe(&[Device::flex(), Device::flex()], 0, None).err().unwrap();
    assert!(!reason.is_empty());
}

#[test]
fn a_device_is_checked_before_it_is_relied_on() {
    assert_eq!(check(&Device::flex()), Ok(()));
    assert_eq!(contained(|| -> Result<(), String> { panic!("no memory") }), Err("no memory".into()));
}
