//! Decoding on the CPU allocates nothing once it is under way, plainly or with Medusa heads.

use gorgon_bench::allocations::{self, Counted};
use gorgon_bench::suite::write_heads;
use gorgon_core::accept::{Greedy, draws::Seeded};
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_infer::{Event, Limits, Stepper, decode, decode_with};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::LlamaShape;
use gorgon_model::taps::Taps;
use gorgon_model::target::Target;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

#[global_allocator]
static COUNTED: Counted = Counted;

/// The count is the process's, so one test counts at a time.
static ALONE: Mutex<()> = Mutex::new(());

const TOKENS: usize = 40;

/// With the larger vocabulary likeliest tokens are found without all logits, where the processor can.
const VOCABULARIES: [usize; 2] = [1000, 8200];

#[test]
fn a_plain_step_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for vocab_size in VOCABULARIES {
        let dir = tempfile::tempdir().unwrap();
        let mut target = Target::new(model(dir.path(), vocab_size), 256, Taps::none());
        let prompt: Vec<u32> = (0..50).collect();
        let limits = Limits { max_new_tokens: TOKENS, end_tokens: vec![] };
        assert_still(|note| {
            decode(&mut target, &prompt, &Greedy, &mut Seeded::new(0), &limits, &mut |event| {
                note(event);
                ControlFlow::Continue(())
            })
            .unwrap();
        });
    }
}

#[test]
fn a_medusa_step_allocates_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let paths = [vec![0], vec![1], vec![2], vec![0, 0], vec![0, 1], vec![1, 0], vec![0, 0, 0]];
    let fixed = FixedTree::new(TreeShape::new(paths.to_vec()).unwrap());
    let (chain, dynamic) = (ChainTree::new(3).unwrap(), DynamicTree::new(8, 2, 3).unwrap());
    for vocab_size in VOCABULARIES {
        let dir = tempfile::tempdir().unwrap();
        let decoder = model(dir.path(), vocab_size);
        let heads = dir.path().join("heads");
        write_heads(&heads, &shape(vocab_size)).unwrap();
        let heads = MedusaModel::load(&HeadsFolder::open(&heads).unwrap(), decoder.clone()).unwrap();
        let mut drafter = MedusaDrafter::new(heads);
        let mut target = Target::with_trees(decoder, 256, 16, Taps::none());
        let prompt: Vec<u32> = (0..50).collect();
        let limits = Limits { max_new_tokens: TOKENS, end_tokens: vec![] };
        for builder in [&chain as &dyn TreeBuilder, &fixed, &dynamic] {
            assert_still(|note| {
                let (target, drafter, draws) = (&mut target, &mut drafter, &mut Seeded::new(0));
                let mut stepper = Stepper { target, drafter, builder, rule: &Greedy, draws };
                decode_with(&mut stepper, &prompt, &limits, &mut |event| {
                    note(event);
                    ControlFlow::Continue(())
                })
                .unwrap();
            });
        }
    }
}

fn shape(vocab_size: usize) -> LlamaShape {
    LlamaShape {
        hidden_size: 128,
        intermediate_size: 384,
        layers: 3,
        heads: 8,
        kv_heads: 2,
        vocab_size,
        max_positions: 256,
    }
}

fn model(dir: &std::path::Path, vocab_size: usize) -> Arc<Decoder> {
    shape(vocab_size).write(dir, FloatFormat::F32, 1).unwrap();
    Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap())
}

/// Fails unless a decoding, which tells of its events, allocates nothing from its second step to its last.
fn assert_still(mut decode: impl FnMut(&mut dyn FnMut(Event))) {
    let mut counts = Vec::with_capacity(2 * TOKENS);
    let mut run = || {
        counts.clear();
        decode(&mut |event| {
            // Steps end with a token that was not drafted.
            if matches!(event, Event::Token(_)) {
                counts.push(allocations::count());
            }
        });
        assert!(counts.len() > 4);
        counts[counts.len() - 1] - counts[1]
    };
    // Buffers grow in the first run, and a thread's own when it first takes part, which on a busy machine may be later.
    assert!((0..10).any(|_| run() == 0), "{counts:?}");
}
