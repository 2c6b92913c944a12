//! Tests of `cache`.

use super::*;
use crate::device::FloatFormat;
use crate::random::LlamaShape;

fn config() -> ModelConfig {
    let shape = LlamaShape {
        hidden_size: 8,
        intermediate_size: 8,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        vocab_size: 300,
        max_positions: 64,
    };
    ModelConfig::from_json(&shape.config(FloatFormat::F32)).unwrap()
}

fn cache(capacity: usize) -> KvCache {
    KvCache::new(&config(), &Compute::cpu(FloatFormat::F32), capacity)
}

#[test]
fn only_committed_rows_count() {
    let mut cache = cache(10);
    cache.reserve(6).unwrap();
    assert_eq!((cache.len(), cache.reserved()), (0, Some(6)));
    cache.commit(&[0, 2, 5]).unwrap();
    assert_eq!((cache.len(), cache.reserved()), (3, None));
    cache.reserve(7).unwrap();
    cache.roll_back();
    assert_eq!((cache.len(), cache.reserved()), (3, None));
    cache.truncate(1);
    assert_eq!(cache.len(), 1);
}

#[test]
fn room_is_made_and_reservations_are_widened() {
    let mut cache = cache(4);
    cache.reserve(2).unwrap();
    cache.commit(&[0, 1]).unwrap();
    cache.extend_reservation(2).unwrap();
    assert_eq!(cache.reserved(), Some(2));
    assert_eq!(cache.extend_reservation(1), Err(CacheError::Full { committed: 2, asked: 3, capacity: 4 }));
    assert_eq!(cache.reserved(), Some(2));
    if let LayerKv::Host(kv) = &mut cache.layers[0] {
        kv.write(3, &[7.0; 4], &[8.0; 4]);
    }
    cache.grow(1, &config());
    assert_eq!((cache.len(), cache.reserved(), cache.capacity()), (2, Some(2), 8));
    cache.extend_reservation(1).unwrap();
    let LayerKv::Host(kv) = &cache.layers[0] else { panic!("a CPU cache") };
    assert_eq!((kv.key(0, 3), kv.value(0, 3)), (vec![7.0; 4], &[8.0; 4][..]));
    assert_eq!(kv.key(0, 4), [0.0; 4]);
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let mut cache = cache(8);
    assert_eq!(cache.commit(&[0]), Err(CacheError::NotReserved));
    assert_eq!(cache.reserve(9), Err(CacheError::Full { committed: 0, asked: 9, capacity: 8 }));
    cache.reserve(4).unwrap();
    assert_eq!(cache.reserve(1), Err(CacheError::Reserved(4)));
    for path in [vec![0, 0], vec![2, 1], vec![4]] {
        assert_eq!(cache.commit(&path), Err(CacheError::Path { path, reserved: 4 }));
        assert_eq!((cache.len(), cache.reserved()), (0, Some(4)));
    }
    cache.commit(&[]).unwrap();
    assert!(cache.is_empty());
}
