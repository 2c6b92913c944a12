//! Tests of `recorded`.

use super::*;

#[test]
fn buckets_double() {
    assert_eq!([1, 512, 513, 3000].map(bucket), [512, 512, 1024, 4096]);
}
