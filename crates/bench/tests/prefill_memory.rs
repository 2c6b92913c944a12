//! A long prompt is read in chunks, and nothing of a chunk is kept but its rows of the cache: beside weights and cache,
//! a prefill needs as much memory for a long prompt as for a short one.

use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Limits, decode};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::DecoderTarget;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with the bytes in use, and the most there were.
struct Bytes;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Bytes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static BYTES: Bytes = Bytes;

/// Bytes of the cache, and bytes that reading a prompt takes at its peak beside weights and cache.
fn measured(shape: LlamaShape, prompt: usize) -> (usize, usize) {
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let compute = Compute::cpu(FloatFormat::F32);
    let decoder = Arc::new(Decoder::load(dir.path(), &compute).unwrap());
    let config = ModelConfig::read(dir.path()).unwrap();
    let cache = usize::try_from(KvCache::bytes(&config, &compute, prompt + 2)).unwrap();
    let ids: Vec<u32> = (0..prompt as u32).map(|i| i % shape.vocab_size as u32).collect();
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut target = DecoderTarget::new(decoder, prompt + 2, Hooks::none());
    let limits = Limits { max_new_tokens: 2, end_tokens: vec![] };
    let random = &mut SeededRandom::new(0);
    decode(&mut target, &ids, &Greedy, random, &limits, &mut |_| ControlFlow::Continue(())).unwrap();
    (cache, (PEAK.load(Relaxed) - before).saturating_sub(cache))
}

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 256,
    intermediate_size: 256,
    layers: 1,
    heads: 2,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 33_000,
};

#[test]
fn a_long_prompt_needs_no_more_than_its_cache() {
    let (_, short) = measured(SHAPE, 1_024);
    let (cache, long) = measured(SHAPE, 12_288);
    println!("1,024 tokens: {short} bytes beside the cache; 12,288 tokens: {long} beside {cache}");
    // Scores of attention do grow with the prompt; all its hidden states would be 12.6 MB, twice that while they are joined.
    assert!(long < short + (6 << 20), "{long} bytes at 12,288 tokens, {short} at 1,024");
}

/// The published figure; some minutes: `cargo test --release -p gorgon-bench --test prefill_memory -- --ignored`.
#[test]
#[ignore = "some minutes"]
fn a_prompt_of_32768_tokens_of_42m_parameters_needs_100_mb() {
    let shape = LlamaShape {
        hidden_size: 512,
        intermediate_size: 1376,
        layers: 8,
        heads: 8,
        kv_heads: 8,
        vocab_size: 32_000,
        max_positions: 33_000,
    };
    let (cache, beside) = measured(shape, 32_768);
    println!("cache {cache} bytes, beside weights and cache {beside} bytes");
    assert!(beside < 100_000_000, "{beside}");
}
