//! Tests of `reduce`.

use super::*;

#[test]
fn parts_go_back_into_their_order() {
    for replicas in 1..5 {
        let dealt = (0..replicas).map(|r| (r..7).step_by(replicas).collect()).collect();
        assert_eq!(interleaved(dealt), (0..7).collect::<Vec<_>>(), "{replicas}");
    }
}
