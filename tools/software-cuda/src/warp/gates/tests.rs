//! Tests of `gates`.

use super::*;

#[test]
fn gates_open_when_all_threads_and_bytes_have_come() {
    let mut gate = Gate::of(2 | 2 << 20);
    (gate.left, gate.bytes) = (1, -64);
    let gate = Gate::of(gate.word());
    assert_eq!((gate.wanted, gate.left, gate.bytes, gate.phase), (2, 1, -64, 0));
    let gate = Gate::of(Gate { left: 0, bytes: 0, ..gate }.word());
    assert_eq!((gate.left, gate.bytes, gate.phase), (2, 0, 1));
}

#[test]
fn tiles_end_where_tensors_do() {
    let map = TensorMap {
        base: 1000,
        sizes: [6, 3, 0, 0, 0],
        strides: [32, 0, 0, 0],
        tile: [4, 2, 0, 0, 0],
        entry: 4,
        rank: 2,
        swizzle: 3,
        unused: [0; 3],
    };
    assert_eq!(size_of::<TensorMap>(), 128);
    assert_eq!((map.tile_bytes(), map.entry_at(5, &[0, 1])), (32, Some(1000 + 2 * 32 + 4)));
    assert_eq!((map.entry_at(2, &[4, 0]), map.entry_at(0, &[-1, 0]), map.entry_at(4, &[0, 2])), (None, None, None));
    assert_eq!(map.mixed(0b11_0101_0000), 0b11_0101_0000 ^ 0b110_0000);
}
