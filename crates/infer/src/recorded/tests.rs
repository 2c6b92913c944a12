//! Tests of `recorded`.

use super::*;

#[test]
fn buckets_double() {
    assert_eq!([1, 512, 513, 3000].map(bucket), [512, 512, 1024, 4096]);
}

/// The beginning that a text shares with the next prompt is kept, but for the last token of that one.
#[test]
fn a_prompt_is_read_from_where_it_differs() {
    let mut known = Known::default();
    assert_eq!(known.keep(&[1, 2, 3], false), 0);
    known.add(&[1, 2, 3], false);
    known.add(&[4], false);
    assert_eq!((known.keep(&[1, 2, 3, 4, 5], false), known.len()), (4, 4));
    assert_eq!(known.keep(&[1, 2, 3, 4], false), 3);
    assert_eq!(known.keep(&[1, 7, 3], false), 1);
    assert_eq!(known.keep(&[], false), 0);
}

/// A draft layer keeps what it has read itself, without the last pair, whose second token may be another now.
#[test]
fn a_layer_goes_on_from_its_own_pairs() {
    let mut known = Known::default();
    known.add(&[1, 2, 3, 4], true);
    assert_eq!(known.keep(&[1, 2, 3, 4, 5], true), 3);
    known.add(&[4, 5], true);
    // Plain steps over the same cache read further, and the layer does not.
    assert_eq!(known.keep(&[1, 2, 3, 4, 5, 6], false), 5);
    known.add(&[6, 7], false);
    assert_eq!(known.keep(&[1, 2, 3, 4, 5, 6, 7, 8], true), 4);
    // They go back, and what the layer has read behind that is another text.
    known.add(&[5, 6, 7, 8], true);
    assert_eq!(known.keep(&[1, 2, 9, 9], false), 2);
    known.add(&[9, 9], false);
    assert_eq!(known.keep(&[1, 2, 9, 9, 9], true), 1);
    known.clear();
    assert_eq!(known.keep(&[1, 2], true), 0);
}
