//! The network that decodes against the equations in `f64`, and against the network that is fitted.

use crate::block::random::{SHAPE, config, decoder, model, shape, values};
use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_draft::block::{BlockConfig, BlockModel, BlockNetwork, BlockShape, SelectorConfig};
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::target::read;
use std::sync::Arc;

/// Matrices and vectors by name, in double precision.
struct Weights(Vec<(String, Vec<f64>)>);

impl Weights {
    fn of(shape: &BlockShape) -> Self {
        let one = |(i, spec): (usize, &gorgon_draft::parameter::ParameterSpec)| {
            (spec.name.clone(), values(i, spec).into_iter().map(f64::from).collect())
        };
        Self(shape.parameters().iter().enumerate().map(one).collect())
    }

    fn get(&self, name: &str) -> &[f64] {
        let tables = ["base_kernel", "_codebook"];
        let name = if tables.iter().any(|end| name.ends_with(end)) { name.into() } else { format!("{name}.weight") };
        &self.0.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}")).1
    }

    /// `W x`.
    fn apply(&self, name: &str, x: &[f64]) -> Vec<f64> {
        self.get(name).chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    fn feed_forward(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let part = |part: &str, x: &[f64]| self.apply(&format!("{name}.{part}_proj"), x);
        let gate = part("gate", x).into_iter().map(|g| g / (1.0 + (-g).exp()));
        part("down", &gate.zip(part("up", x)).map(|(g, u)| g * u).collect::<Vec<f64>>())
    }

    /// One side of a convolution over a block: `Σ_o (base[s,o,c] + δ_i[s,o,⌊c/16⌋]) z_{i-o,c}` with `δ_i = W u_i`.
    fn convolved(&self, name: &str, side: usize, z: &[Vec<f64>], u: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (d, base) = (z[0].len(), self.get(&format!("{name}.base_kernel")));
        let one = |i: usize| {
            let delta = self.apply(&format!("{name}.kernel_projection"), &u[i]);
            let tap = |o: usize, c: usize| base[(side * 2 + o) * d + c] + delta[(side * 2 + o) * (d / 16) + c / 16];
            let before = |c: usize| if i > 0 { tap(1, c) * z[i - 1][c] } else { 0.0 };
            (0..d).map(|c| tap(0, c) * z[i][c] + before(c)).collect()
        };
        (0..z.len()).map(one).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        x.iter().zip(self.get(name)).map(|(x, w)| x / (mean + 1e-5).sqrt() * w).collect()
    }
}

/// Rotates a head to a position: dimension `i` turns with `i + d/2`.
fn rotate(x: &[f64], position: usize, theta: f64) -> Vec<f64> {
    let half = x.len() / 2;
    let mut out = x.to_vec();
    for i in 0..half {
        let angle = position as f64 * theta.powf(-(2.0 * i as f64) / x.len() as f64);
        out[i] = x[i] * angle.cos() - x[i + half] * angle.sin();
        out[i + half] = x[i + half] * angle.cos() + x[i] * angle.sin();
    }
    out
}

/// Keys and values with their positions: those of context and slots.
struct Seen {
    position: usize,
    key: Vec<f64>,
    value: Vec<f64>,
}

/// Whether a slot at `position` sees another position.
fn is_seen(shape: &BlockShape, other: usize, position: usize) -> bool {
    (!shape.causal || other <= position) && shape.window.is_none_or(|window| other + window > position)
}

/// Values mixed by the query heads, `group` of them for each key head.
fn attended(query: &[f64], seen: &[&Seen], hd: usize, group: usize) -> Vec<f64> {
    let head = |(head, query): (usize, &[f64])| {
        let of = |row: &[f64]| row[head / group * hd..][..hd].to_vec();
        let score = |other: &&Seen| {
            let dot: f64 = query.iter().zip(of(&other.key)).map(|(a, b)| a * b).sum();
            (dot / (hd as f64).sqrt()).exp()
        };
        let total: f64 = seen.iter().map(score).sum();
        let mut mixed = vec![0.0; hd];
        for other in seen {
            let share = score(other) / total;
            mixed.iter_mut().zip(of(&other.value)).for_each(|(m, v)| *m += share * v);
        }
        mixed
    };
    query.chunks(hd).enumerate().flat_map(head).collect()
}

/// The drafted slots' states, by the equations: `hooks` are the rows of the context, `embedded` the slots.
fn defined(shape: &BlockShape, hooks: &[Vec<f64>], embedded: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (weights, s) = (Weights::of(shape), &shape.layer);
    let (hd, group, anchor) = (s.head_dim, s.heads / s.kv_heads, hooks.len());
    let context: Vec<Vec<f64>> = hooks.iter().map(|h| weights.norm("hidden_norm", &weights.apply("fc", h))).collect();
    let mut x = embedded.to_vec();
    for layer in 0..shape.layers {
        let name = |part: &str| format!("layers.{layer}.{part}");
        let heads = |part: &str, norm: &str, read: &[f64], position: usize| {
            let all = weights.apply(&name(part), read);
            let one = |head: &[f64]| rotate(&weights.norm(&name(norm), head), position, s.rope.theta);
            all.chunks(hd).flat_map(one).collect::<Vec<f64>>()
        };
        let seen = |read: &[f64], position: usize| Seen {
            position,
            key: heads("self_attn.k_proj", "self_attn.k_norm", read, position),
            value: weights.apply(&name("self_attn.v_proj"), read),
        };
        let side = |conv: &str, side: usize, z: &[Vec<f64>], u: &[Vec<f64>]| match shape.conv {
            true => weights.convolved(conv, side, z, u),
            false => z.to_vec(),
        };
        let normed: Vec<Vec<f64>> = x.iter().map(|x| weights.norm(&name("input_layernorm"), x)).collect();
        let read = side(&name("attention_conv"), 0, &normed, &normed);
        let mut all: Vec<Seen> = context.iter().enumerate().map(|(t, c)| seen(c, t)).collect();
        all.extend(read.iter().enumerate().map(|(i, read)| seen(read, anchor + i)));
        let mixed = read.iter().enumerate().map(|(slot, read)| {
            let query = heads("self_attn.q_proj", "self_attn.q_norm", read, anchor + slot);
            let visible: Vec<&Seen> =
                all.iter().filter(|other| is_seen(shape, other.position, anchor + slot)).collect();
            weights.apply(&name("self_attn.o_proj"), &attended(&query, &visible, s.head_dim, group))
        });
        let mixed = side(&name("attention_conv"), 1, &mixed.collect::<Vec<_>>(), &normed);
        x.iter_mut().zip(&mixed).for_each(|(x, y)| add(x, y));
        let normed: Vec<Vec<f64>> = x.iter().map(|x| weights.norm(&name("post_attention_layernorm"), x)).collect();
        let read = side(&name("mlp_conv"), 0, &normed, &normed);
        let fed = read.iter().map(|read| weights.feed_forward(&name("mlp"), read));
        let fed = side(&name("mlp_conv"), 1, &fed.collect::<Vec<_>>(), &normed);
        x.iter_mut().zip(&fed).for_each(|(x, y)| add(x, y));
    }
    x[1..].iter().map(|x| weights.norm("norm", x)).collect()
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Hooked states of a context, `[rows, hooks · d]`.
fn hooks(rows: usize, shape: &BlockShape) -> Vec<Vec<f32>> {
    let wide = shape.hooks.len() * SHAPE.hidden_size;
    (0..rows).map(|t| (0..wide).map(|i| ((t * 911 + i * 577) % 1009) as f32 / 504.5 - 1.0).collect()).collect()
}

fn slots(decoder: &Decoder, shape: &BlockShape, anchor: Token) -> Vec<Vec<f32>> {
    let mut tokens = vec![shape.mask_token; shape.slots];
    tokens[0] = anchor;
    let embedded = decoder.embed(&tokens).unwrap().into_values();
    embedded.chunks(SHAPE.hidden_size).map(<[f32]>::to_vec).collect()
}

fn states(rows: &[Vec<f32>], from: usize, d: usize) -> HiddenStates {
    let values: Vec<f32> = rows.iter().flat_map(|row| row[from..from + d].to_vec()).collect();
    HiddenStates::Host { values: values.into(), width: d }
}

/// States of the drafted slots as the drafter computes them.
fn decoded(model: &BlockModel, hooks: &[Vec<f32>], anchor: Token) -> Vec<f32> {
    let (d, mut caches) = (SHAPE.hidden_size, model.new_caches());
    let taps: Vec<HiddenStates> = (0..hooks[0].len() / d).map(|hook| states(hooks, hook * d, d)).collect();
    model.commit(&model.fuse(&taps), &mut caches).unwrap();
    let found = model.block(anchor, &mut caches).unwrap().into_values().into_vec();
    assert!(caches.iter().all(|cache| cache.len() == hooks.len() && cache.reserved().is_none()));
    found
}

fn kinds() -> Vec<BlockConfig> {
    let (one, two) = (BlockConfig { layers: 1, hooks: Some(vec![2]), ..config() }, config());
    vec![
        one,
        two.clone(),
        BlockConfig { causal: true, ..two.clone() },
        BlockConfig { window: Some(6), ..two.clone() },
        BlockConfig { causal: true, window: Some(6), ..two.clone() },
        BlockConfig { conv: true, selector: Some(SelectorConfig { k: 4, rank: 3 }), ..two },
    ]
}

fn doubles(rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

#[test]
fn drafted_slots_are_what_the_equations_say() {
    let decoder = decoder();
    for config in kinds() {
        let (shape, model) = (shape(&decoder, &config), model(&decoder, &config));
        for rows in [1, 2, 9] {
            let hooks = hooks(rows, &shape);
            let want = defined(&shape, &doubles(&hooks), &doubles(&slots(&decoder, &shape, 42)));
            let found = decoded(&model, &hooks, 42);
            assert_eq!(found.len(), (shape.slots - 1) * SHAPE.hidden_size);
            for (a, b) in found.iter().zip(want.iter().flatten()) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "{config:?}, {rows} rows: {a} {b}");
            }
        }
    }
}

fn tensor(rows: &[Vec<f32>]) -> Tensor<2> {
    let values: Vec<f32> = rows.concat();
    Tensor::<2>::from_data(TensorData::new(values, [rows.len(), rows[0].len()]), &Device::flex()).autodiff()
}

/// All blocks of two sequences in one pass are the blocks that are decoded one by one, and none of them reads a hooked
/// state at its anchor or after it.
#[test]
fn the_fitted_network_is_the_drafting_one() {
    let decoder = decoder();
    for config in kinds() {
        let (shape, model) = (shape(&decoder, &config), model(&decoder, &config));
        let network = BlockNetwork::new(shape.clone(), 12);
        let flat = |(i, spec): (usize, &gorgon_draft::parameter::ParameterSpec)| {
            let values = values(i, spec);
            let n = values.len();
            Tensor::<1>::from_data(TensorData::new(values, [n]), &Device::flex()).autodiff()
        };
        let weights: Vec<Tensor<1>> = shape.parameters().iter().enumerate().map(flat).collect();
        let (all, sequences, anchors) = (hooks(19, &shape), [0..11, 11..19], [vec![1, 4, 10], vec![2, 8]]);
        let tokens: Vec<Token> = vec![3, 250, 77, 9, 100];
        let embedded: Vec<Vec<f32>> = tokens.iter().flat_map(|&token| slots(&decoder, &shape, token)).collect();
        let blocks = network.blocks(&sequences, &anchors);
        let found = read(network.forward(&weights, &tensor(&all), tensor(&embedded), &blocks).inner());
        let d = SHAPE.hidden_size;
        let mut block = 0;
        for (sequence, anchors) in sequences.iter().zip(&anchors) {
            for &anchor in anchors {
                let context = &all[sequence.start..sequence.start + anchor];
                let want = decoded(&model, context, tokens[block]);
                let at = (block * shape.slots + 1) * d;
                for (a, b) in found[at..at + want.len()].iter().zip(&want) {
                    assert!((a - b).abs() < 1e-4, "{config:?}, anchor {anchor}: {a} {b}");
                }
                block += 1;
            }
        }
    }
}

/// A slot that sees all others depends on how many there are; one that sees those before it does not.
#[test]
fn the_first_slot_knows_how_many_follow() {
    let decoder = decoder();
    for causal in [false, true] {
        let first = |slots: usize| {
            let config = BlockConfig { slots, causal, ..config() };
            let hooks = hooks(4, &shape(&decoder, &config));
            decoded(&model(&decoder, &config), &hooks, 42)[..SHAPE.hidden_size].to_vec()
        };
        assert_eq!(first(3) == first(6), causal);
    }
}

#[test]
fn the_trace_is_the_network() {
    let decoder: Arc<Decoder> = decoder();
    let mut drafter = gorgon_draft::block::BlockDrafter::new(model(&decoder, &config()));
    let drafted: Vec<Token> = (0..SHAPE.vocab_size as Token).collect();
    crate::along::its_own_chain(&mut drafter, &decoder, &drafted);
}
