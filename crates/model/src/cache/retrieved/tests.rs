use super::*;
use crate::config::ModelConfig;
use crate::device::{Compute, FloatFormat};
use crate::random::LlamaShape;
use crate::rope::Rope;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 4096,
};
const D: usize = 8;

struct Model {
    config: ModelConfig,
    compute: Compute,
    rope: Arc<Rope>,
    random: SeededRandom,
}

impl Model {
    fn new(seed: u64) -> Self {
        let config = ModelConfig::from_json(&SHAPE.config(FloatFormat::F32)).unwrap();
        let rope = Rope::new(&config.rope);
        Self { config, compute: Compute::cpu(FloatFormat::F32), rope, random: SeededRandom::new(seed) }
    }

    fn empty(&self, rows: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, &self.rope, rows, 0)
    }

    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.random.pick(&[1.0; 64]) as f32 - 31.5).collect()
    }

    /// Commits random rows.
    fn extend(&mut self, cache: &mut KvCache, rows: usize) {
        for _ in 0..rows {
            cache.reserve(1).unwrap();
            let slot = cache.committed;
            for layer in 0..SHAPE.layers {
                let (keys, values, query) = (self.numbers(2 * D), self.numbers(2 * D), self.numbers(4 * D));
                let LayerKv::Host(kv) = &mut cache.layers[layer] else { panic!("on the CPU") };
                kv.write(slot, &keys, &values);
                kv.keep_query(&query);
            }
            cache.commit(&[0]).unwrap();
        }
    }
}

fn host(cache: &KvCache, layer: usize) -> &HostKv {
    let LayerKv::Host(kv) = &cache.layers[layer] else { panic!("on the CPU") };
    kv
}

/// The positions of the part's slots, found by their contents.
fn positions(part: &RetrievedCache, whole: &KvCache, layer: usize, head: usize) -> Vec<usize> {
    let kv = host(whole, layer);
    let same = |slot: usize, row: usize| {
        let (key, value) = part.row(layer, head, slot).unwrap();
        key == kv.key(head, row) && value == kv.value(head, row)
    };
    (0..part.len()).map(|slot| (0..whole.len()).find(|&row| same(slot, row)).unwrap()).collect()
}

/// Chunks beside chunk 0 from the best on, straight from the definition.
fn ranked(whole: &KvCache, layer: usize, head: usize, chunk: usize) -> Vec<usize> {
    let kv = host(whole, layer);
    let mean = |c: usize, i: usize| {
        (c * chunk..(c + 1) * chunk).map(|row| f64::from(kv.key(head, row)[i])).sum::<f64>() / chunk as f64
    };
    let query = |i: usize| f64::from(kv.query()[2 * head * D + i]) + f64::from(kv.query()[(2 * head + 1) * D + i]);
    let score = |c: usize| (0..D).map(|i| query(i) * mean(c, i)).sum::<f64>();
    let mut all: Vec<usize> = (1..whole.len() / chunk).collect();
    all.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
    all
}

#[test]
fn chunks_are_those_of_the_greatest_scores() {
    for (seed, rows, chunk, committed) in [
        (1, 16, 4, 64),
        (2, 16, 1, 64),
        (3, 17, 3, 65),
        (4, 8, 4, 63),
        (5, 2, 1, 40),
        (6, 40, 8, 41),
        (7, 64, 8, 64),
        (8, 64, 8, 5),
        (9, 100, 8, 43),
    ] {
        let mut model = Model::new(seed);
        let mut whole = model.empty(200);
        model.extend(&mut whole, committed);
        let retrieval = Retrieval { rows, chunk, picked: Picked::Score };
        let mut part = RetrievedCache::new(retrieval);
        part.update(&whole, |rows| model.empty(rows)).unwrap();
        let (chunks, behind) = (committed / chunk, committed % chunk);
        let kept = chunks.min((rows - behind) / chunk);
        assert_eq!(part.len(), kept * chunk + behind);
        assert!(part.len() <= rows && (part.len() == committed || part.len() + chunk > rows));
        for layer in 0..SHAPE.layers {
            for head in 0..SHAPE.kv_heads {
                let mut best = ranked(&whole, layer, head, chunk);
                best.truncate(kept.saturating_sub(1));
                best.extend((kept > 0).then_some(0));
                best.sort_unstable();
                let want = best.iter().flat_map(|c| c * chunk..(c + 1) * chunk).chain(chunks * chunk..committed);
                let found = positions(&part, &whole, layer, head);
                assert_eq!(found, want.collect::<Vec<_>>(), "{rows} rows of {committed}, chunks of {chunk}");
            }
        }
    }
}

/// Rows that are committed later are added, then overwrite the lowest-ranked rows, and in the end those added first.
#[test]
fn later_rows_overwrite_the_lowest_ranked() {
    for (rows, chunk, committed, later) in
        [(16, 4, 33, 40), (12, 1, 30, 50), (16, 4, 6, 40), (16, 8, 3, 30), (2, 1, 9, 7)]
    {
        let mut model = Model::new(11);
        let mut whole = model.empty(200);
        model.extend(&mut whole, committed);
        let retrieval = Retrieval { rows, chunk, picked: Picked::Score };
        let mut part = RetrievedCache::new(retrieval);
        part.update(&whole, |rows| model.empty(rows)).unwrap();
        let (chunks, behind) = (committed / chunk, committed % chunk);
        let kept = chunks.min((rows - behind) / chunk);
        let heads: Vec<(usize, usize)> =
            (0..SHAPE.layers).flat_map(|layer| (0..SHAPE.kv_heads).map(move |head| (layer, head))).collect();
        // What may be dropped, the lowest-ranked first.
        let first: Vec<Vec<usize>> = heads
            .iter()
            .map(|&(layer, head)| {
                let mut best = ranked(&whole, layer, head, chunk);
                best.truncate(kept.saturating_sub(1));
                let low = best.iter().rev().flat_map(|c| c * chunk..(c + 1) * chunk);
                low.chain(chunks * chunk..committed).filter(|&row| row >= chunk).collect()
            })
            .collect();
        for step in [1, 3, 0, 2, later - 6] {
            model.extend(&mut whole, step);
            part.update(&whole, |rows| model.empty(rows)).unwrap();
            for (&(layer, head), first) in heads.iter().zip(&first) {
                let mut order: Vec<usize> = first.clone();
                order.extend((committed.max(chunk)..whole.len()).filter(|row| !first.contains(row)));
                let room = rows - chunk.min(whole.len());
                let left = &order[order.len().saturating_sub(room)..];
                let mut want: Vec<usize> = (0..chunk.min(whole.len())).chain(left.iter().copied()).collect();
                want.sort_unstable();
                let mut found = positions(&part, &whole, layer, head);
                found.sort_unstable();
                assert_eq!(found, want, "{rows} rows, chunks of {chunk}, {} of {committed}", whole.len());
            }
        }
    }
}

#[test]
fn random_parts_have_as_many_rows_and_keep_chunk_0() {
    let mut model = Model::new(5);
    let mut whole = model.empty(200);
    model.extend(&mut whole, 90);
    let found = [0, 1].map(|seed| {
        let mut part = RetrievedCache::new(Retrieval { rows: 30, chunk: 4, picked: Picked::Random(seed) });
        part.update(&whole, |rows| model.empty(rows)).unwrap();
        positions(&part, &whole, 1, 0)
    });
    assert_ne!(found[0], found[1]);
    for positions in found {
        assert_eq!((positions.len(), &positions[..4], &positions[28..]), (30, &[0, 1, 2, 3][..], &[88, 89][..]));
    }
}

/// A text that was shortened is retrieved anew.
#[test]
fn a_shorter_text_is_retrieved_anew() {
    let mut model = Model::new(6);
    let mut whole = model.empty(200);
    model.extend(&mut whole, 40);
    let mut part = RetrievedCache::new(Retrieval { rows: 8, chunk: 2, picked: Picked::Score });
    part.update(&whole, |rows| model.empty(rows)).unwrap();
    whole.truncate(20);
    part.update(&whole, |rows| model.empty(rows)).unwrap();
    assert!(positions(&part, &whole, 0, 0).iter().all(|&row| row < 20));
    part.forget();
    whole.truncate(3);
    part.update(&whole, |rows| model.empty(rows)).unwrap();
    assert_eq!(positions(&part, &whole, 0, 0), [0, 1, 2]);
}
