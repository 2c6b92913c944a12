//! Tests of `host_kv`.

use super::*;

fn values(slot: usize, width: usize) -> Vec<f32> {
    (0..width).map(|i| (slot * 100 + i) as f32).collect()
}

#[test]
fn a_grown_cache_has_the_same_contents() {
    let (mut kv, width) = (HostKv::new(2, 20, 6), 12);
    (0..20).for_each(|slot| kv.write(slot, &values(slot, width), &values(slot + 50, width)));
    let mut grown = kv.clone();
    grown.grow(50);
    grown.write(49, &values(7, width), &values(8, width));
    for (head, slot) in (0..2).flat_map(|head| (0..20).map(move |slot| (head, slot))) {
        assert_eq!((grown.key(head, slot), grown.value(head, slot)), (kv.key(head, slot), kv.value(head, slot)));
    }
    assert!(grown.capacity() >= 50 && grown.key(1, 49) == values(7, width)[6..]);
}

#[test]
fn a_cache_grows_from_nothing() {
    let mut kv = HostKv::new(2, 0, 6);
    kv.grow(3);
    kv.write(2, &values(1, 12), &values(2, 12));
    assert_eq!((kv.value(1, 2), kv.capacity()), (&values(2, 12)[6..], 16));
    kv.grow(1);
    assert_eq!(kv.capacity(), 16);
}

#[test]
fn moved_slots_keep_their_contents() {
    for head_dim in [4, 16, 21] {
        let mut kv = HostKv::new(2, 40, head_dim);
        let width = 2 * head_dim;
        (0..40).for_each(|slot| kv.write(slot, &values(slot, width), &values(slot + 50, width)));
        for (from, to) in [(39, 2), (3, 3), (5, 17)] {
            kv.move_slot(from, to);
            for head in 0..2 {
                let part = head * head_dim..(head + 1) * head_dim;
                for slot in [from, to] {
                    assert_eq!(kv.key(head, slot), values(from, width)[part.clone()]);
                    assert_eq!(kv.value(head, slot), &values(from + 50, width)[part.clone()]);
                }
                assert_eq!(kv.key(head, 18), values(18, width)[part.clone()]);
            }
        }
    }
}
