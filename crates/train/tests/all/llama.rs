//! The network that is fitted is the network that is decoded with.

use burn::tensor::{Device, Tensor};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::read;
use gorgon_train::llama::{Llama, Packed};
use gorgon_train::parameters::Parameter;
use gorgon_train::pretrain::write_model;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 48,
    intermediate_size: 80,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 64,
};

/// Parameters that f16 holds exactly, and that are not near their start.
fn parameters(llama: &Llama) -> Vec<Parameter> {
    let mut all = llama.parameters(3);
    for p in &mut all {
        let values: Vec<f32> = read(p.value.clone()).iter().map(|v| half::f16::from_f32(v * 4.0).to_f32()).collect();
        p.value = Parameter::new("", &p.shape, p.role, values, &Device::flex()).value;
    }
    all
}

#[test]
fn packed_dialogues_have_the_hidden_states_of_the_decoder() {
    let llama = Llama::new(SHAPE, Device::flex());
    let parameters = parameters(&llama);
    let dir = tempfile::tempdir().unwrap();
    write_model(dir.path(), &SHAPE, &parameters, [0, 1]).unwrap();
    let decoder = Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap();
    let dialogues: Vec<Vec<u32>> = vec![(5..25).collect(), vec![7], (100..140).rev().collect()];
    let mut packed = Packed::default();
    for dialogue in &dialogues {
        let start = packed.tokens.len();
        packed.tokens.extend(dialogue);
        packed.segments.push(start..packed.tokens.len());
    }
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let tracked: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
    let sizes: Vec<usize> = parameters.iter().map(Parameter::len).collect();
    assert_eq!(sizes, llama.sizes());
    // Fused operations on tracked tensors, burn's own on the others.
    for weights in [weights, tracked] {
        let hidden = llama.hidden(&weights, &packed);
        let hidden = read(if hidden.is_autodiff() { hidden.inner() } else { hidden });
        let mut at = 0;
        for dialogue in &dialogues {
            let mut cache = decoder.new_cache(dialogue.len());
            cache.reserve(dialogue.len()).unwrap();
            let visible = AttentionMask::Causal { rows: dialogue.len() };
            let want = read(
                decoder
                    .forward(&PassPlan::of_tokens(dialogue, &visible), &mut cache, &Hooks::none())
                    .unwrap()
                    .hidden
                    .tensor(),
            );
            for (a, b) in hidden[at..at + want.len()].iter().zip(&want) {
                assert!((a - b).abs() < 2e-4, "{a} {b}");
            }
            at += want.len();
        }
        assert_eq!(at, hidden.len());
    }
}
