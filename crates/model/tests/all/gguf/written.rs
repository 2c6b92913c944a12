//! GGUF files and folders of the same numbers.

use gorgon_core::accept::random::SeededRandom;
use gorgon_gguf::blocks::dequantise;
use gorgon_gguf::kind::Kind;
use gorgon_gguf::write::Draft;
use gorgon_gguf::{Array, Value};
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{Stored, write};
use safetensors::Dtype;
use std::path::Path;

/// A tensor: its name in a folder, shape, type and bytes as a GGUF file has them, rows in order.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    kind: Kind,
    bytes: Vec<u8>,
}

pub struct Tensors(Vec<Tensor>);

impl Tensors {
    /// Those of a folder.
    pub fn read(dir: &Path) -> Self {
        let checkpoint = Checkpoint::open(dir).unwrap();
        let one = |(name, entry): (&String, &gorgon_model::weights::Entry)| Tensor {
            name: name.clone(),
            shape: entry.shape.clone(),
            kind: Kind::F32,
            bytes: checkpoint.read_stored(name).unwrap(),
        };
        Self(checkpoint.entries().iter().map(one).collect())
    }

    /// With matrices of `kind`: rounded to 16 bits, or blocks of random codes.
    pub fn coded(mut self, kind: Kind) -> Self {
        for (stream, tensor) in self.0.iter_mut().enumerate().filter(|(_, tensor)| tensor.shape.len() == 2) {
            let values = tensor.bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            tensor.bytes = match kind {
                Kind::F32 => continue,
                Kind::F16 => values.flat_map(|v| half::f16::from_f32(v).to_le_bytes()).collect(),
                Kind::Bf16 => values.flat_map(|v| half::bf16::from_f32(v).to_le_bytes()).collect(),
                _ => blocks(kind, tensor.shape.iter().product(), stream as u64),
            };
            tensor.kind = kind;
        }
        self
    }
}

/// Random bytes, with small scales and minima in half precision where they are.
fn blocks(kind: Kind, elements: usize, stream: u64) -> Vec<u8> {
    let mut random = SeededRandom::stream(11, stream);
    let mut bytes: Vec<u8> =
        (0..elements / kind.block() * kind.block_bytes()).map(|_| (random.uniform() * 256.0) as u8).collect();
    let (halves, size): (&[usize], f64) = match kind {
        Kind::Q6K => (&[208], 1e-4),
        Kind::Q4K | Kind::Q5K => (&[0, 2], 2e-4),
        Kind::Q4_1 | Kind::Q5_1 => (&[0, 2], 5e-3),
        Kind::Q8_0 => (&[0], 1e-3),
        _ => (&[0], 1e-2),
    };
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        for &at in halves {
            let scale = half::f16::from_f64((random.uniform() - 0.5) * size);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

/// A folder of the numbers: 16 bits as they are, blocks dequantised.
pub fn folder(tensors: &Tensors, original: &Path, dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let one = |tensor: &Tensor| {
        let dtype = match tensor.kind {
            Kind::F16 => Dtype::F16,
            Kind::Bf16 => Dtype::BF16,
            _ => Dtype::F32,
        };
        let bytes = if tensor.kind.block() == 1 {
            tensor.bytes.clone()
        } else {
            let mut numbers = vec![0f32; tensor.shape.iter().product()];
            dequantise(tensor.kind, &tensor.bytes, &mut numbers);
            numbers.into_iter().flat_map(f32::to_le_bytes).collect()
        };
        Stored { name: tensor.name.clone(), dtype, shape: tensor.shape.clone(), bytes }
    };
    let stored: Vec<Stored> = tensors.0.iter().map(one).collect();
    write(&dir.join("model.safetensors"), &stored.iter().map(Stored::source).collect::<Vec<_>>()).unwrap();
    std::fs::copy(original.join("config.json"), dir.join("config.json")).unwrap();
}

/// A GGUF file of architecture llama, query and key rows interleaved.
pub fn file(tensors: &Tensors, path: &Path, shape: &LlamaShape) {
    let integer = |n: usize| Value::Integer(n as i128);
    let texts = (0..shape.vocab_size).map(|id| format!("token{id}")).collect();
    let mut draft = Draft::default()
        .value("general.architecture", Value::Text("llama".into()))
        .value("llama.block_count", integer(shape.layers))
        .value("llama.context_length", integer(shape.max_positions))
        .value("llama.embedding_length", integer(shape.hidden_size))
        .value("llama.feed_forward_length", integer(shape.intermediate_size))
        .value("llama.attention.head_count", integer(shape.heads))
        .value("llama.attention.head_count_kv", integer(shape.kv_heads))
        .value("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5))
        .value("llama.rope.freq_base", Value::Float(10000.0))
        .value("tokenizer.ggml.model", Value::Text("gpt2".into()))
        .value("tokenizer.ggml.tokens", Value::List(Array::Texts(texts)))
        .value("tokenizer.ggml.eos_token_id", integer(257));
    for tensor in &tensors.0 {
        let heads = match tensor.name.as_str() {
            name if name.contains("q_proj") => Some(shape.heads),
            name if name.contains("k_proj") => Some(shape.kv_heads),
            _ => None,
        };
        let bytes = heads.map_or_else(|| tensor.bytes.clone(), |heads| interleaved(tensor, heads));
        draft = draft.tensor(&theirs(&tensor.name), tensor.kind, &tensor.shape, bytes);
    }
    std::fs::write(path, draft.bytes()).unwrap();
}

/// Rows of the two halves of each head, taking turns.
fn interleaved(tensor: &Tensor, heads: usize) -> Vec<u8> {
    let row = tensor.bytes.len() / tensor.shape[0];
    let head = row * tensor.shape[0] / heads;
    let mut all = vec![];
    for bytes in tensor.bytes.chunks_exact(head) {
        let (first, second) = bytes.split_at(head / 2);
        let pairs = first.chunks_exact(row).zip(second.chunks_exact(row));
        pairs.for_each(|(a, b)| all.extend([a, b].concat()));
    }
    all
}

/// A tensor's name in a GGUF file.
fn theirs(name: &str) -> String {
    let parts = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    parts.iter().fold(name.to_owned(), |name, (ours, theirs)| name.replace(ours, theirs))
}
