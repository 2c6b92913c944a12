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
    let (dir, tokens) = (tempfile::tempdir().unwrap(), 40);
    let shape = LlamaShape {
        hidden_size: 128,
        intermediate_size: 384,
        layers: 3,
        heads: 8,
        kv_heads: 2,
        vocab_size: 1000,
        max_positions: 256,
    };
    shape.write(dir.path(), FloatFormat::F32, 1).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = Target::new(decoder, 256, Taps::none());
    let prompt: Vec<u32> = (0..50).collect();
    let limits = Limits { max_new_tokens: tokens, end_tokens: vec![] };
    let mut counts = Vec::with_capacity(tokens);
    // Buffers may grow in the first run.
    for _ in 0..2 {
        counts.clear();
        decode(&mut target, &prompt, &Greedy, &mut Seeded::new(0), &limits, &mut |event| {
            if matches!(event, Event::Token(_)) {
                counts.push(allocations::count());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    assert_eq!(counts.len(), tokens);
    assert_eq!(counts[tokens - 1] - counts[1], 0, "{counts:?}");
}
