//! Tests of `memory`.

use super::*;

#[test]
fn allocations_are_bounded_and_known() {
    let mut memory = Memory::default();
    let first = memory.allocate(1000, 1500).unwrap();
    assert_eq!(first % ALIGNMENT as u64, 0);
    assert_eq!(memory.allocate(501, 1500), None);
    assert!(memory.holds(first + 990, 10) && !memory.holds(first + 990, 11) && !memory.holds(first - 1, 1));
    assert!(memory.free(first) && !memory.free(first));
    assert_eq!(memory.used(), 0);
}
