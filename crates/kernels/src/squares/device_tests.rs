//! Tests of the squares on a device.

#[test]
fn all_values_count() {
    let Some(device) = crate::device::tests::device() else { return };
    super::tests::check(&device);
}
