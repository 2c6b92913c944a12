//! Tests of `memory_budget`.

use super::*;

#[test]
fn copies_take_no_conversations_place() {
    let shared = |left, wanted, size| {
        let Shared { slots, copies, fits } = Shared::of(left, 10, wanted, size, 32);
        (slots, copies, fits)
    };
    let (auto, seven) = (BatchSize::Auto, BatchSize::Conversations(7));
    assert_eq!(shared(Some(100), [25, 0], auto), (7, 25, Some(7)));
    assert_eq!(shared(Some(100), [25, 0], seven), (7, 25, Some(7)));
    // More than a quarter, alone or together.
    assert_eq!(shared(Some(100), [26, 0], auto), (10, 0, Some(10)));
    assert_eq!(shared(Some(100), [20, 6], seven), (7, 20, Some(8)));
    assert_eq!(shared(Some(100), [26, 6], seven), (7, 6, Some(9)));
    // Less, but seven conversations and the copy do not fit.
    assert_eq!(shared(Some(80), [20, 0], seven), (7, 0, Some(8)));
    assert_eq!(shared(Some(12), [3, 0], auto), (1, 0, Some(1)));
    assert_eq!(shared(Some(69), [1, 0], seven), (7, 0, Some(6)));
    assert_eq!(shared(None, [30, 40], auto), (UNBOUNDED, 70, None));
}
