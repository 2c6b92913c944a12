//! Hidden states on disk: the same as computed, in pieces, mended where they were damaged, never those of something
//! else.
#![cfg(unix)]

use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_train::methods::{CacheRequest, FeatureCache, FeatureFormat, Features};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 2,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 64,
};

fn features() -> Features {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    Features { decoder: Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap()), cache: None }
}

fn rows(n: usize) -> Vec<Row> {
    let row = |i: usize| {
        let ids: Vec<Token> = (0..6 + i * 5 % 17).map(|t| ((t * t + 31 * i) % 250) as Token).collect();
        // Some conversations have nothing to fit to.
        let assistant = ids.iter().enumerate().map(|(t, _)| t > 3 && i % 4 != 3).collect();
        Row {
            row: i as u64,
            key: i as u64,
            id: format!("conversation-{i}"),
            source: "somewhere.jsonl".into(),
            line: i as u64 + 1,
            category: None,
            example: Example { ids, assistant, corrected: None },
            ends: vec!["end_token".into()],
            shard: "shard-00000.parquet".into(),
        }
    };
    (0..n).map(row).collect()
}

fn positions(row: &Row) -> Vec<usize> {
    (0..row.example.ids.len()).filter(|&t| row.example.assistant[t]).collect()
}

/// Small files: some conversations in each.
fn request(folder: &Path, format: FeatureFormat) -> CacheRequest {
    CacheRequest { shard_bytes: 40 * format.bytes(1, 16), ..CacheRequest::new(folder, format, json!({"of": "a test"})) }
}

/// The states of all conversations, with the cache and without, and how far they are apart at most.
fn compare(features: Features, cache: FeatureCache, rows: &[Row], fitted: usize) -> f32 {
    let cached = Features { decoder: features.decoder.clone(), cache: Some(cache) };
    let mut furthest = 0f32;
    // In an order that has nothing to do with that on the disk.
    for i in (0..rows.len()).map(|i| (i * 7 + 3) % rows.len()) {
        let (row, at) = (&rows[i], positions(&rows[i]));
        if at.is_empty() {
            continue;
        }
        let (held_out, index) = (i >= fitted, if i >= fitted { i - fitted } else { i });
        let (a, b) = (features.states(row, held_out, index, &at), cached.states(row, held_out, index, &at));
        let (a, b) = (read(a.unwrap()), read(b.unwrap()));
        assert_eq!(a.len(), at.len() * 16);
        furthest = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(furthest, f32::max);
    }
    furthest
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    files.sort();
    files
}

#[test]
fn cached_states_are_the_computed_ones() {
    let rows = rows(23);
    for (format, bound) in [(FeatureFormat::F32, 0.0), (FeatureFormat::Bf16, 0.02), (FeatureFormat::Int8, 0.02)] {
        let (dir, features) = (tempfile::tempdir().unwrap(), features());
        let of = [&rows[..19], &rows[19..]];
        let mut seen = 0;
        let request = request(dir.path(), format);
        let cache =
            FeatureCache::open_or_build(&request, &features.decoder, of, positions, &mut |n| seen += n).unwrap();
        assert!(cache.files() > 4 && files(dir.path()).len() == cache.files());
        assert_eq!(seen, rows.iter().map(|row| positions(row).len()).sum::<usize>());
        let total: u64 = files(dir.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert!(total >= FeatureCache::bytes(seen, 0, 16, format), "{total}");
        let furthest = compare(features, cache, &rows, 19);
        assert!(furthest <= bound, "{} {furthest}", format.name());
        assert_eq!(furthest == 0.0, format == FeatureFormat::F32);
    }
}

/// Whatever is missing or damaged is computed again, and nothing else is; the bytes are those of the first time.
#[test]
fn only_what_is_missing_or_damaged_is_computed_again() {
    let (dir, features, rows) = (tempfile::tempdir().unwrap(), features(), rows(20));
    let request = request(dir.path(), FeatureFormat::Int8);
    let build = || FeatureCache::open_or_build(&request, &features.decoder, [&rows[..], &[]], positions, &mut |_| ());
    assert!(build().unwrap().mended.is_empty());
    let names = files(dir.path());
    let whole: Vec<Vec<u8>> = names.iter().map(|path| std::fs::read(path).unwrap()).collect();
    // A file that is written again is another one under the same name.
    let inodes = || names.iter().map(|path| path.metadata().unwrap().ino()).collect::<Vec<_>>();
    let check = |damaged: usize, mended: usize| {
        let before = inodes();
        assert_eq!(build().unwrap().mended.len(), mended);
        for (i, path) in names.iter().enumerate() {
            assert_eq!(std::fs::read(path).unwrap(), whole[i]);
            assert_eq!(inodes()[i] == before[i], i != damaged, "{i}");
        }
    };
    check(usize::MAX, 0);
    std::fs::write(&names[1], &whole[1][..whole[1].len() - 3]).unwrap();
    check(1, 1);
    let mut flipped = whole[2].clone();
    flipped[100] ^= 1;
    std::fs::write(&names[2], flipped).unwrap();
    check(2, 1);
    // A kill came between the last file and the index.
    let index = dir.path().join("index.json");
    let mut known: serde_json::Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    known["shards"].as_array_mut().unwrap().pop();
    std::fs::write(&index, known.to_string()).unwrap();
    check(names.len() - 1, 0);
}

#[test]
fn states_of_something_else_are_refused() {
    let (dir, features, rows) = (tempfile::tempdir().unwrap(), features(), rows(6));
    let build = |request: &CacheRequest| {
        FeatureCache::open_or_build(request, &features.decoder, [&rows[..], &[]], positions, &mut |_| ()).map(|_| ())
    };
    let first = request(dir.path(), FeatureFormat::F32);
    build(&first).unwrap();
    let other = CacheRequest { identity: json!({"of": "another model"}), ..first.clone() };
    assert!(build(&other).unwrap_err().to_string().contains("another model"));
    assert!(build(&request(dir.path(), FeatureFormat::Bf16)).unwrap_err().to_string().contains("bf16"));
    build(&first).unwrap();
    // No conversations are no states.
    let empty = tempfile::tempdir().unwrap();
    let none = request(empty.path(), FeatureFormat::F32);
    FeatureCache::open_or_build(&none, &features.decoder, [&[], &[]], positions, &mut |_| ()).unwrap();
}
