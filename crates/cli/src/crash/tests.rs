use super::{caught, failure};
use gorgon_workflows::failure::FailureKind;

#[test]
fn a_panic_says_where_it_was_and_how_to_report_it() {
    let failure = caught(|| -> () { panic!("three is no pair") }).unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Run);
    assert!(failure.message().contains("crash/tests.rs:6:"), "{}", failure.message());
    assert!(failure.message().ends_with(": three is no pair"), "{}", failure.message());
    assert!(failure.advice().unwrap().contains("report it"));
    let _ = std::panic::take_hook();
}

#[test]
fn a_lost_device_is_no_bug_of_this_program() {
    for place in [
        "registry/src/index/cubecl-cuda-0.9.0/src/compute/server.rs:12:5",
        "registry/src/index/cudarc-0.18.2/src/driver/result.rs:7:1",
        "C:\\cargo\\registry\\wgpu-core-27.0.1\\src\\device.rs:3:9",
    ] {
        let lost = failure(place, "CUDA_ERROR_DEVICE_LOST");
        assert_eq!(lost.kind(), FailureKind::Run);
        assert!(lost.message().starts_with("the device failed: CUDA_ERROR_DEVICE_LOST"), "{}", lost.message());
        assert!(!lost.advice().unwrap().contains("bug"));
    }
    let bug = failure("crates/kernels/src/wgpu_table.rs:3:9", "index out of bounds");
    assert!(bug.message().starts_with("internal error"), "{}", bug.message());
}
