//! Weights in integers on a GPU. `GORGON_TEST_DEVICE` names it; without one the tests say so and pass.

use gorgon_core::tree::TokenTree;
use gorgon_kernels::quantised_matmul::reference::dequantised;
use gorgon_kernels::quantised_matmul::{CodeBits, Rounding, ScaleFormat, ScaleSearch};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{ActivationBits, Compute, DraftWeights, FloatFormat, IntegerWeights, Weights};
use gorgon_model::hooks::Hooks;
use gorgon_model::layout;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use gorgon_model::weights::{Checkpoint, Entry};
use gorgon_runs::tensors::{Source, write_f32};
use safetensors::Dtype;
use std::path::Path;
use std::sync::Arc;

const VOCAB: usize = 333;

fn shape(intermediate_size: usize) -> LlamaShape {
    LlamaShape {
        hidden_size: 64,
        intermediate_size,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        vocab_size: VOCAB,
        max_positions: 128,
    }
}

fn gpu(format: FloatFormat) -> Option<Compute> {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    let compute = Compute::resolve(device.parse().unwrap(), Some(format)).ok().filter(|compute| !compute.is_host());
    if compute.is_none() {
        eprintln!("SKIPPED: GORGON_TEST_DEVICE names no GPU with {}", format.name());
    }
    compute
}

fn integers(weights: Weights) -> IntegerWeights {
    IntegerWeights { weights, ..IntegerWeights::STORED }
}

/// The GPU with weights in integers, where it has products with them.
fn gpu_in(weights: Weights) -> Option<Compute> {
    let compute = gpu(FloatFormat::Bf16)?.with_integers(integers(weights));
    compute.inspect_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

/// Logits of a prompt, of a tree, and of its nodes' paths one token at a time.
fn logits(dir: &Path, compute: &Compute) -> [Vec<f32>; 3] {
    let mut target = DecoderTarget::new(Arc::new(Decoder::load(dir, compute).unwrap()), 96, Hooks::none());
    let prompt: Vec<u32> = (0..21).map(|i| (i * 53 + 5) % VOCAB as u32).collect();
    let output = target.prefill(&prompt).unwrap();
    let of_prompt = target.logits(&output.hidden).to_vec();
    let mut tree = TokenTree::root(7);
    for node in 0..4 {
        tree.push(node / 2, 11 * node as u32 + 3);
    }
    let output = target.verify_tree(&tree).unwrap();
    let of_tree = target.logits(&output.hidden).to_vec();
    target.commit(&[]).unwrap();
    let output = target.verify_tree(&TokenTree::root(7)).unwrap();
    let of_root = target.logits(&output.hidden).to_vec();
    [of_prompt, of_tree, of_root]
}

/// A copy of a model in f32 whose matrices, all but the table of embeddings, have the values of their codes.
fn rounded(from: &Path, to: &Path, rounding: Rounding) {
    let checkpoint = Checkpoint::open(from).unwrap();
    let values = |(name, entry): (&String, &Entry)| {
        let mut values = checkpoint.read_all(name).unwrap();
        if let [_, d_in] = entry.shape[..]
            && name != layout::EMBEDDING
        {
            let packed = rounding.pack(d_in, entry.shape[0], &(&values[..], d_in)).unwrap();
            values = dequantised(&packed);
        }
        (name.clone(), entry.shape.clone(), values)
    };
    let tensors: Vec<_> = checkpoint.entries().iter().map(values).collect();
    let source = |(name, shape, values): &(String, Vec<usize>, Vec<f32>)| {
        let values = values.clone();
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: name.clone(), dtype: Dtype::F32, shape: shape.clone(), fill }
    };
    let sources: Vec<Source<'_>> = tensors.iter().map(source).collect();
    gorgon_runs::tensors::write(&to.join("model.safetensors"), &sources).unwrap();
    std::fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
}

/// Against the CPU with the values of the codes: products differ by the rounding of activations alone. The last product
/// of a layer comes in four parts.
#[test]
fn logits_are_near_the_cpus() {
    let eight =
        Rounding { bits: CodeBits::Eight, group: None, scale_format: ScaleFormat::F32, search: ScaleSearch::Fitted };
    let four = Rounding {
        bits: CodeBits::Four,
        group: Some(32),
        scale_format: ScaleFormat::F16,
        search: ScaleSearch::Clipped,
    };
    for (weights, rounding) in [(Weights::Int8, eight), (Weights::Int4, four)] {
        let Some(compute) = gpu_in(weights) else { return };
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        shape(1056).write(dir.path(), FloatFormat::Bf16, 7).unwrap();
        rounded(dir.path(), copy.path(), rounding);
        let (want, got) = (logits(copy.path(), &Compute::cpu(FloatFormat::F32)), logits(dir.path(), &compute));
        for ((want, got), what) in want.iter().zip(&got).zip(["prompt", "tree", "root"]) {
            let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
            let worst = want.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            assert!(want.len() == got.len() && worst < 0.03 * largest, "{weights:?}, {what}: {worst:e} of {largest:e}");
        }
        // Products with the root alone have the bits that they have beside other nodes.
        let [_, tree, root] = got;
        assert_eq!(tree[..VOCAB], root[..], "{weights:?}");
    }
}

#[test]
fn memory_is_that_of_codes() {
    let Some(compute) = gpu_in(Weights::Int4) else { return };
    let dir = tempfile::tempdir().unwrap();
    shape(96).write(dir.path(), FloatFormat::Bf16, 7).unwrap();
    let bytes = |compute: &Compute| Decoder::load(dir.path(), compute).unwrap().bytes_per_step();
    let (four, sixteen) = (bytes(&compute), bytes(&gpu(FloatFormat::Bf16).unwrap()));
    // 4.5 bits for a weight.
    assert!(four * 16 <= sixteen * 5 && four * 16 >= sixteen * 4, "{four} and {sixteen} bytes");
}

#[test]
fn what_a_gpu_cannot_do_is_refused_in_a_line() {
    let Some(compute) = gpu(FloatFormat::F32) else { return };
    let refused = |compute: Compute, integers: IntegerWeights, named: &str| {
        let error = compute.with_integers(integers).unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains('\n'), "{error}");
    };
    refused(compute.clone(), integers(Weights::Int8), "--dtype f32");
    let drafts = IntegerWeights { draft_weights: DraftWeights::Int8, ..IntegerWeights::STORED };
    refused(compute.clone(), drafts, "--draft-weights int8");
    let bits = IntegerWeights { activation_bits: Some(ActivationBits::Sixteen), ..integers(Weights::Int8) };
    refused(compute, bits, "--activation-bits 16");
    let Some(compute) = gpu_in(Weights::Int8) else { return };
    let dir = tempfile::tempdir().unwrap();
    shape(100).write(dir.path(), FloatFormat::Bf16, 7).unwrap();
    let error = Decoder::load(dir.path(), &compute).unwrap_err().to_string();
    assert!(error.contains("down_proj") && error.contains("rows of 100 inputs"), "{error}");
}
