//! Tests of `cache`.

use super::*;
use crate::decoder::Decoder;
use crate::device::FloatFormat;
use crate::random::LlamaShape;

fn shape() -> LlamaShape {
    LlamaShape {
        hidden_size: 8,
        intermediate_size: 8,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        vocab_size: 300,
        max_positions: 64,
    }
}

fn config() -> ModelConfig {
    ModelConfig::from_json(&shape().config(FloatFormat::F32)).unwrap()
}

fn cache(context: usize) -> KvCache {
    let config = config();
    KvCache::new(&config, &Compute::cpu(FloatFormat::F32), &Rope::new(&config.rope), context, 0)
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
fn contents_stay_when_a_cache_grows() {
    let mut cache = cache(64);
    cache.reserve(2).unwrap();
    cache.commit(&[0, 1]).unwrap();
    cache.extend_reservation(2);
    assert_eq!((cache.reserved(), cache.capacity()), (Some(2), 16));
    if let LayerKv::Host(kv) = &mut cache.layers[0] {
        kv.write(3, &[7.0; 4], &[8.0; 4]);
    }
    cache.extend_reservation(13);
    assert_eq!((cache.len(), cache.reserved(), cache.capacity()), (2, Some(15), 32));
    let LayerKv::Host(kv) = &cache.layers[0] else { panic!("a CPU cache") };
    assert_eq!((kv.key(0, 3), kv.value(0, 3)), (vec![7.0; 4], &[8.0; 4][..]));
    assert_eq!(kv.key(0, 4), [0.0; 4]);
}

/// Memory follows what is reserved: it doubles up to the context, and holds a tree beyond it.
#[test]
fn memory_grows_in_steps() {
    let mut cache = cache(50);
    assert_eq!(cache.capacity(), 0);
    cache.grow(17);
    assert_eq!(cache.capacity(), 32);
    for (rows, capacity) in [(20, 32), (20, 64), (9, 64)] {
        cache.reserve(rows).unwrap();
        cache.commit(&(0..rows).collect::<Vec<_>>()).unwrap();
        assert_eq!(cache.capacity(), capacity);
    }
    for _ in 0..2 {
        cache.reserve(40).unwrap();
        assert_eq!((cache.len(), cache.capacity()), (49, 96));
        cache.roll_back();
    }
    let per_row = 2 * 4 * 4 + 4 * 4;
    assert_eq!(KvCache::bytes(&config(), &Compute::cpu(FloatFormat::F32), 17), 32 * per_row);
}

#[test]
fn the_context_is_exact_to_the_token() {
    let mut cache = cache(9);
    cache.reserve(12).unwrap();
    let path: Vec<usize> = (0..10).collect();
    assert_eq!(cache.commit(&path), Err(CacheError::Full { committed: 0, requested: 10, context: 9 }));
    cache.commit(&path[..9]).unwrap();
    cache.reserve(3).unwrap();
    assert_eq!(cache.commit(&[1]), Err(CacheError::Full { committed: 9, requested: 1, context: 9 }));
    cache.commit(&[]).unwrap();
    assert_eq!(cache.set_len(10), Err(CacheError::Full { committed: 9, requested: 1, context: 9 }));
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let mut cache = cache(8);
    assert_eq!(cache.commit(&[0]), Err(CacheError::NotReserved));
    cache.reserve(4).unwrap();
    assert_eq!(cache.reserve(1), Err(CacheError::Reserved(4)));
    for path in [vec![0, 0], vec![2, 1], vec![4]] {
        assert_eq!(cache.commit(&path), Err(CacheError::Path { path, reserved: 4 }));
        assert_eq!((cache.len(), cache.reserved()), (0, Some(4)));
    }
    cache.commit(&[]).unwrap();
    assert!(cache.is_empty());
}

/// The angles of 131,072 positions are tens of megabytes: no cache has its own.
#[test]
fn caches_of_one_decoder_share_their_angles() {
    let dir = tempfile::tempdir().unwrap();
    shape().write(dir.path(), FloatFormat::F32, 1).unwrap();
    let decoder = Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap();
    let (first, mut second) = (decoder.new_cache(64), decoder.new_cache(20));
    assert!(Arc::ptr_eq(&first.rope, &second.rope));
    second.grow(64);
    second.reserve(64).unwrap();
    assert!(Arc::ptr_eq(&first.rope, &second.rope));
    let angles = |cache: &KvCache| cache.rope.table().at(63).0.as_ptr();
    assert_eq!(angles(&first), angles(&second), "of positions that one of them grew to");
}
