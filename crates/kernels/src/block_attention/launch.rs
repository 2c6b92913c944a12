//! Block attention of burn tensors.

use super::Blocks;
use super::kernel::{self, Operands};
use crate::differentiable::{self, Differentiable, Operand};
use crate::rope;
use burn::tensor::{Tensor, TensorData, activation};

/// The attention of all blocks, with gradients where the operands are tracked.
///
/// # Shapes
/// `q [blocks · B, heads · d]`; keys and values of the `context` `[rows, kv_heads · d]` and of the slots themselves
/// `[blocks · B, kv_heads · d]`, all before the rotary embedding; result as `q`.
pub fn block_attention(
    spec: &Blocks,
    q: Tensor<2>,
    context: (Tensor<2>, Tensor<2>),
    own: (Tensor<2>, Tensor<2>),
) -> Tensor<2> {
    let shape = q.dims();
    match [&q, &context.0, &context.1, &own.0, &own.1].map(Operand::of) {
        [Some(a), Some(b), Some(c), Some(d), Some(e)] => {
            differentiable::apply(Fused { spec: spec.clone() }, [a, b, c, d, e], shape)
        }
        _ => composed(spec, q, context, own),
    }
}

#[derive(Clone, Debug)]
struct Fused {
    spec: Blocks,
}

impl Differentiable<5> for Fused {
    fn forward(&self, [q, k, v, own_k, own_v]: [&[f32]; 5]) -> Vec<f32> {
        kernel::forward(&self.spec, Operands { q, k, v, own_k, own_v })
    }

    fn backward(&self, [q, k, v, own_k, own_v]: [&[f32]; 5], gradient: &[f32]) -> [Vec<f32>; 5] {
        kernel::backward(&self.spec, Operands { q, k, v, own_k, own_v }, gradient)
    }
}

/// Composition of burn's operations, for other devices: a masked rectangle of all slots over all context rows, and a
/// square for each block.
fn composed(spec: &Blocks, q: Tensor<2>, (k, v): (Tensor<2>, Tensor<2>), own: (Tensor<2>, Tensor<2>)) -> Tensor<2> {
    let s = &spec.context;
    let ([n, _], [m, _], d, slots, blocks) = (q.dims(), k.dims(), s.head_dim, spec.slots, spec.count());
    let split = |x: Tensor<2>, heads: usize| {
        let rows = x.dims()[0];
        x.reshape([1, rows, heads, d]).swap_dims(1, 2)
    };
    let group = s.heads / s.kv_heads;
    let spread = |x: Tensor<4>| {
        let rows = x.dims()[2];
        let wide = x.unsqueeze_dim::<5>(2).expand([1, s.kv_heads, group, rows, d]);
        wide.reshape([1, s.heads, rows, d])
    };
    let positions = Positions::of(spec, m);
    let q = positions.rotated(spec, split(q, s.heads), &positions.slots) * s.scale();
    let k = spread(positions.rotated(spec, split(k, s.kv_heads), &positions.context));
    let own_k = spread(positions.rotated(spec, split(own.0, s.kv_heads), &positions.slots));
    let by_block = |x: Tensor<4>, width: usize| x.reshape([s.heads, blocks, slots, width]);
    let over_context = q.clone().matmul(k.swap_dims(2, 3)) + mask(positions.context_mask(spec), [n, m], &q);
    let over_own = by_block(q.clone(), d).matmul(by_block(own_k, d).swap_dims(2, 3))
        + mask(positions.own_mask(spec), [slots, slots], &q);
    let p = activation::softmax(Tensor::cat(vec![over_context, over_own.reshape([1, s.heads, n, slots])], 3), 3);
    let of_context = p.clone().narrow(3, 0, m).matmul(spread(split(v, s.kv_heads)));
    let own_v = by_block(spread(split(own.1, s.kv_heads)), d);
    let of_own = by_block(p.narrow(3, m, slots), slots).matmul(own_v).reshape([1, s.heads, n, d]);
    (of_context + of_own).swap_dims(1, 2).reshape([n, s.heads * d])
}

/// Where rows stand, and to which sequence they belong.
struct Positions {
    /// Of each context row.
    context: Vec<usize>,
    /// Of each slot.
    slots: Vec<usize>,
    rows: usize,
}

impl Positions {
    fn of(spec: &Blocks, rows: usize) -> Self {
        let mut context = vec![0; rows];
        for sequence in spec.context.rows.iter() {
            sequence.clone().for_each(|row| context[row] = row - sequence.start);
        }
        let anchors = spec.anchors.iter().flatten();
        let slots = anchors.flat_map(|&anchor| anchor..anchor + spec.slots).collect();
        Self { context, slots, rows }
    }

    fn rotated(&self, spec: &Blocks, x: Tensor<4>, positions: &[usize]) -> Tensor<4> {
        let half = spec.context.head_dim / 2;
        let table = |from: &[f32]| {
            let values: Vec<f32> = positions.iter().flat_map(|&p| &from[p * half..][..half]).copied().collect();
            Tensor::<2>::from_data(TensorData::new(values, [positions.len(), half]), &x.device())
        };
        let angles = &spec.context.angles;
        rope::rotate(x.clone(), &table(&angles.0), &table(&angles.1))
    }

    /// Zero where a slot sees a context row.
    fn context_mask(&self, spec: &Blocks) -> Vec<f32> {
        let mut mask = vec![f32::NEG_INFINITY; self.slots.len() * self.rows];
        for (rows, anchors, first) in spec.sequences() {
            for (block, &anchor) in anchors.iter().enumerate() {
                for slot in 0..spec.slots {
                    let at = (first + block * spec.slots + slot) * self.rows + rows.start;
                    mask[at + spec.first_seen(anchor, slot).min(anchor)..at + anchor].fill(0.0);
                }
            }
        }
        mask
    }

    /// Zero where a slot sees a slot of its block.
    fn own_mask(&self, spec: &Blocks) -> Vec<f32> {
        // Far from the text's start, where the window alone decides.
        let far = spec.slots;
        let sees = |i: usize| (0..spec.slots).map(move |j| spec.seen(far, i).contains(&(far + j)));
        (0..spec.slots).flat_map(sees).map(|sees| if sees { 0.0 } else { f32::NEG_INFINITY }).collect()
    }
}

fn mask(values: Vec<f32>, shape: [usize; 2], like: &Tensor<4>) -> Tensor<4> {
    Tensor::<2>::from_data(TensorData::new(values, shape), &like.device()).unsqueeze::<4>()
}

#[cfg(test)]
mod tests;
