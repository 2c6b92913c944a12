//! Tests of `pass_table`.

use super::*;

#[test]
fn the_table_says_what_each_row_sees() {
    let paths: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 3]];
    let visible = AttentionMask::from_paths(paths);
    let table = table(&[7, 8, 9, 10], &visible, 5, &[None, Some(2)]);
    assert_eq!(table[..8], [5, 0, 4, 0, 7, 8, 9, 10]);
    assert_eq!(table[12..16], [5, 6, 6, 7]);
    let (all, windowed) = table[20..].split_at(section_size(8, 1));
    assert_eq!(all[..5], [0, 0, 0, 0, 0]);
    assert_eq!(all[9..13], [0b1, 0b11, 0b101, 0b1011]);
    // A window of two: the root sees one committed row, the others themselves and their parents.
    assert_eq!(windowed[..5], [4, 4, 5, 5, 5]);
    assert_eq!(windowed[9..13], [0b1, 0b11, 0b101, 0b1010]);
    assert_eq!(windowed[13..], [0; 4]);
}

#[test]
fn rows_of_a_later_pass_count_those_in_flight() {
    let visible = AttentionMask::after(40, [&[0, 39, 40][..]]);
    let table = table(&[3], &visible, 2, &[None]);
    assert_eq!(table[..6], [2, 40, 1, 0, 3, 4]);
    assert_eq!(table[6..], [0, 0, 1, (1 << 7) | (1 << 8)]);
}

#[test]
fn sizes_are_few() {
    let padded: Vec<usize> = [1, 2, 8, 9, 33, 64, 65, 129].map(PassTable::padded).into();
    assert_eq!(padded, [1, 8, 8, 16, 64, 64, 128, 256]);
}
