use super::caught;
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
