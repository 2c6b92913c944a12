//! Tests of `progress`.

use super::*;

#[test]
fn a_sample_tells_of_all() {
    let work = Work { conversations: 120, before: 20, slots: 4 };
    // Ten of the sample and two others are done, four under way.
    let totals = |tokens, seconds| Totals { tokens, seconds, ..Totals::default() };
    assert_eq!(work.extrapolated((10, 50), 12, totals(60.0, 7.0)), totals(500.0, 50.0));
    assert_eq!(work.extrapolated((0, 0), 0, Totals::default()).seconds, 0.0);
}
