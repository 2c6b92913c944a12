//! Tests of `prefilter_budget`.

use super::*;

#[test]
fn memory_is_taken_until_it_is_gone() {
    let budget = Int8PrefilterBudget::default();
    assert!(budget.take(u64::MAX - 1) && budget.take(u64::MAX - 1));
    budget.set(10);
    assert!(budget.take(6) && !budget.take(6) && budget.take(4) && !budget.take(1));
}
