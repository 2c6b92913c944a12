//! Tests of `pass_table`.

use super::*;

#[test]
fn the_table_says_what_each_row_sees() {
    let paths: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 3]];
    let mask = AttentionMask::from_paths(paths);
    let table = table(&[7, 8, 9, 10], &PassRows::new(5, &mask), &[None, Some(2)]);
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
fn rows_of_a_later_pass_count_the_uncommitted_ones() {
    let mask = AttentionMask::after(40, [&[0, 39, 40][..]]);
    let table = table(&[3], &PassRows::new(2, &mask), &[None]);
    assert_eq!(table[..6], [2, 40, 1, 0, 3, 4]);
    assert_eq!(table[6..], [0, 0, 1, (1 << 7) | (1 << 8)]);
}

#[test]
fn given_positions_are_in_the_table_and_move_the_windows() {
    let mask = AttentionMask::in_tree(&[0, 0, 1]);
    let pass = PassRows { positions: Some(&[0, 4, 5]), ..PassRows::new(5, &mask) };
    let table = table(&[], &pass, &[Some(3)]);
    assert_eq!(table[..12], [5, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(table[12..15], [5, 9, 10]);
    assert_eq!(table[20..24], [3, 3, 5, 5]);
    assert_eq!(table[29..32], [0b1, 0b10, 0b110]);
}

#[test]
fn sizes_are_few() {
    let padded: Vec<usize> = [1, 2, 8, 9, 33, 64, 65, 129].map(PassTable::padded).into();
    assert_eq!(padded, [1, 8, 8, 16, 64, 64, 128, 256]);
}

/// A chain's bits, which are set a word at a time, are those of its paths.
#[test]
fn chains_have_the_bits_of_their_paths() {
    let paths: Vec<Vec<usize>> = (0..140).map(|row| (0..=row).collect()).collect();
    let listed = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
    let windows = [None, Some(40), Some(1)];
    let of = |mask: &AttentionMask| table(&[], &PassRows::new(3, mask), &windows);
    assert_eq!(of(&AttentionMask::Causal { rows: 140 }), of(&listed));
}
