//! Tests of `pass_rows`.

use super::*;

#[test]
fn depth_is_the_position_where_none_is_given() {
    let mask = AttentionMask::in_tree(&[0, 0, 0, 1]);
    let rows = PassRows::new(5, &mask);
    assert_eq!((0..4).map(|row| rows.position(row)).collect::<Vec<_>>(), [5, 6, 6, 7]);
    assert_eq!(rows.view(3, None), RowView { first: 0, skip: 0 });
    assert_eq!(rows.view(0, Some(2)), RowView { first: 4, skip: 0 });
    assert_eq!(rows.view(3, Some(2)), RowView { first: 5, skip: 1 });
}

#[test]
fn windows_follow_given_positions() {
    let mask = AttentionMask::in_tree(&[0, 0, 1]);
    let rows = PassRows { positions: Some(&[0, 4, 5]), ..PassRows::new(5, &mask) };
    assert_eq!((0..3).map(|row| rows.position(row)).collect::<Vec<_>>(), [5, 9, 10]);
    assert_eq!(rows.view(2, Some(2)), RowView { first: 5, skip: 1 });
    assert_eq!(rows.view(2, Some(6)), RowView { first: 5, skip: 0 });
    assert_eq!(rows.view(1, Some(6)), RowView { first: 4, skip: 0 });
    let later = AttentionMask::after(2, [[0, 2]]);
    let rows = PassRows { mask: &later, ..rows };
    assert_eq!((rows.position(0), rows.view(0, Some(3)), rows.slots()), (10, RowView { first: 5, skip: 1 }, 8));
}
