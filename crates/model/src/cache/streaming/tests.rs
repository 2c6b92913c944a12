//! Tests of `streaming`.

use super::*;
use crate::decoder::Decoder;
use crate::device::{Compute, FloatFormat};
use crate::hooks::Hooks;
use crate::pass::PassPlan;
use crate::random::LlamaShape;
use gorgon_kernels::tree_attention::{AttentionMask, HostKv};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 128,
};

fn decoder() -> Decoder {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 7).unwrap();
    Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap()
}

fn read(decoder: &Decoder, cache: &mut KvCache, tokens: &[u32]) {
    cache.reserve(tokens.len()).unwrap();
    let mask = AttentionMask::Causal { rows: tokens.len() };
    decoder.forward(&PassPlan::of_tokens(tokens, &mask), cache, &Hooks::none()).unwrap();
    cache.commit(&(0..tokens.len()).collect::<Vec<_>>()).unwrap();
}

fn host(cache: &KvCache, layer: usize) -> &HostKv {
    let LayerKv::Host(kv) = &cache.layers[layer] else { panic!("on the CPU") };
    kv
}

/// Keys of the first layer depend on their token and position alone: after a slide they are those of a text without the
/// dropped tokens. Slides one after the other are one slide.
#[test]
fn keys_are_those_of_their_slots() {
    let decoder = decoder();
    let text: Vec<u32> = (0..40).map(|i| (i * 37 + 11) % 300).collect();
    for (sinks, slides) in [(4, &[5][..]), (0, &[1, 1, 9]), (1, &[16, 2]), (4, &[0]), (4, &[36])] {
        let (mut cache, mut short) = (decoder.new_cache(64), decoder.new_cache(64));
        read(&decoder, &mut cache, &text);
        slides.iter().for_each(|&dropped| cache.slide(sinks, dropped).unwrap());
        let dropped: usize = slides.iter().sum();
        read(&decoder, &mut short, &[&text[..sinks], &text[sinks + dropped..]].concat());
        assert_eq!(cache.len(), short.len());
        for (slot, head) in (0..cache.len()).flat_map(|slot| [(slot, 0), (slot, 1)]) {
            let (found, want) = (host(&cache, 0).key(head, slot), host(&short, 0).key(head, slot));
            let furthest = found.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(furthest < 2e-5, "slot {slot} of {sinks} and {slides:?}: {furthest}");
            assert_eq!(host(&cache, 0).value(head, slot), host(&short, 0).value(head, slot));
        }
        // Rows are read on behind it.
        read(&decoder, &mut cache, &[5, 6]);
    }
}

#[test]
fn more_than_there_is_is_dropped_whole_and_uncommitted_rows_stay() {
    let decoder = decoder();
    let mut cache = decoder.new_cache(64);
    read(&decoder, &mut cache, &[1, 2, 3, 4]);
    cache.slide(1, 100).unwrap();
    assert_eq!(cache.len(), 1);
    cache.slide(8, 3).unwrap();
    assert_eq!(cache.len(), 1);
    cache.reserve(2).unwrap();
    assert!(matches!(cache.slide(0, 1), Err(CacheError::Reserved(2))));
    assert_eq!(cache.len(), 1);
}
