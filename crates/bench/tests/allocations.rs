//! Plain decoding on the CPU allocates nothing once it is under way.

use gorgon_bench::allocations::{self, Counted};
use gorgon_core::accept::{Greedy, draws::Seeded};
use gorgon_infer::{Event, Limits, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::taps::Taps;
use gorgon_model::target::Target;
use std::ops::ControlFlow;
use std::sync::Arc;

#[global_allocator]
static COUNTED: Counted = Counted;

#[test]
fn a_plain_step_allocates_nothing() {
    // With the larger vocabulary likeliest tokens are found without all logits, where the processor can.
    [1000, 8200].into_iter().for_each(plain_steps);
}

fn plain_steps(vocab_size: usize) {
    let (dir, tokens) = (tempfile::tempdir().unwrap(), 40);
    let shape = LlamaShape {
        hidden_size: 128,
        intermediate_size: 384,
        layers: 3,
        heads: 8,
        kv_heads: 2,
        vocab_size,
        max_positions: 256,
    };
    shape.write(dir.path(), FloatFormat::F32, 1).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = Target::new(decoder, 256, Taps::none());
    let prompt: Vec<u32> = (0..50).collect();
    let limits = Limits { max_new_tokens: tokens, end_tokens: vec![] };
    let mut counts = Vec::with_capacity(tokens);
    let mut run = || {
        counts.clear();
        decode(&mut target, &prompt, &Greedy, &mut Seeded::new(0), &limits, &mut |event| {
            if matches!(event, Event::Token(_)) {
                counts.push(allocations::count());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(counts.len(), tokens);
        counts[tokens - 1] - counts[1]
    };
    // Buffers grow in the first run, and a thread's own when it first takes part, which on a busy machine may be later.
    assert!((0..10).any(|_| run() == 0), "{counts:?}");
}
