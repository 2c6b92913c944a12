//! The CPU kernel: the cache is read in place, blocks of keys are shared by the rows and heads that see them.

use super::{AttentionSpec, Visible};
use crate::{Isa, isa::per_isa, lanes};
use rayon::prelude::*;

/// One layer's cached keys and values on the CPU, `[kv_heads][capacity][head_dim]` each.
#[derive(Clone, Debug)]
pub struct HostKv {
    keys: Vec<f32>,
    values: Vec<f32>,
    capacity: usize,
    head_dim: usize,
}

impl HostKv {
    /// Room for `capacity` positions.
    pub fn new(kv_heads: usize, capacity: usize, head_dim: usize) -> Self {
        let size = kv_heads * capacity * head_dim;
        Self { keys: vec![0.0; size], values: vec![0.0; size], capacity, head_dim }
    }

    fn at(&self, kv_head: usize, slot: usize) -> std::ops::Range<usize> {
        let start = (kv_head * self.capacity + slot) * self.head_dim;
        start..start + self.head_dim
    }

    /// The key of one head and slot.
    pub fn key(&self, kv_head: usize, slot: usize) -> &[f32] {
        &self.keys[self.at(kv_head, slot)]
    }

    /// The value of one head and slot.
    pub fn value(&self, kv_head: usize, slot: usize) -> &[f32] {
        &self.values[self.at(kv_head, slot)]
    }

    /// Writes one position's keys and values, `[kv_heads · head_dim]` each.
    pub fn write(&mut self, slot: usize, keys: &[f32], values: &[f32]) {
        for (head, (k, v)) in keys.chunks_exact(self.head_dim).zip(values.chunks_exact(self.head_dim)).enumerate() {
            let at = self.at(head, slot);
            self.keys[at.clone()].copy_from_slice(k);
            self.values[at].copy_from_slice(v);
        }
    }

    /// The same contents with room for `capacity` positions, which is no less than now.
    pub fn grown(&self, capacity: usize) -> Self {
        let (old, new) = (self.capacity * self.head_dim, capacity * self.head_dim);
        let grow = |from: &[f32]| {
            let heads = from.len() / old.max(1);
            let mut to = vec![0f32; heads * new];
            let pairs = to.chunks_exact_mut(new.max(1)).zip(from.chunks_exact(old.max(1)));
            pairs.for_each(|(to, from)| to[..old].copy_from_slice(from));
            to
        };
        Self { keys: grow(&self.keys), values: grow(&self.values), capacity, head_dim: self.head_dim }
    }

    /// Copies slot `from` over slot `to` in every head.
    pub fn move_slot(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        for head in 0..self.keys.len() / (self.capacity * self.head_dim) {
            let (from, to) = (self.at(head, from), self.at(head, to));
            self.keys.copy_within(from.clone(), to.start);
            self.values.copy_within(from, to.start);
        }
    }
}

/// Rows handled together, so that they share the keys they read.
const ROW_BLOCK: usize = 8;
/// Keys per block: 64 keys of 64 dimensions fill a third of a first-level cache.
const KEY_BLOCK: usize = 64;

/// Attention of the rows of a pass; keys and values of all rows in flight already lie in the slots from `prefix` on.
///
/// # Shapes
/// `q [rows, heads · head_dim]`, `out` the same.
///
/// # Panics
/// If a length does not fit.
pub fn attend(
    isa: Isa,
    spec: &AttentionSpec,
    q: &[f32],
    kv: &HostKv,
    prefix: usize,
    visible: &Visible,
    out: &mut [f32],
) {
    let rows = visible.rows();
    let width = spec.heads * spec.head_dim;
    assert!(
        q.len() == rows * width && out.len() == q.len() && prefix + visible.in_flight() <= kv.capacity,
        "attention shapes"
    );
    let blocks = rows.div_ceil(ROW_BLOCK);
    let out = Heads { out: out.as_mut_ptr() };
    let task = |index: usize| {
        let (kv_head, block) = (index / blocks, index % blocks);
        let range = block * ROW_BLOCK..((block + 1) * ROW_BLOCK).min(rows);
        let part = Part { spec, q, kv, kv_head, prefix, visible };
        let result = attend_part(isa, &part, range.clone());
        let span = spec.heads / spec.kv_heads * spec.head_dim;
        for (i, row) in range.enumerate() {
            // SAFETY: the heads that this key/value head serves, in the rows of this block, belong to this task alone.
            unsafe {
                out.write(row * width + kv_head * span, &result[i * span..(i + 1) * span]);
            }
        }
    };
    let tasks = spec.kv_heads * blocks;
    if rows * width * (prefix + rows) < crate::host::PARALLEL_WORK {
        (0..tasks).for_each(task);
    } else {
        (0..tasks).into_par_iter().for_each(task);
    }
}

/// The output, written by one task per (key/value head, block of rows).
struct Heads {
    out: *mut f32,
}
// SAFETY: tasks write disjoint parts.
unsafe impl Sync for Heads {}

impl Heads {
    /// # Safety
    /// `at..at + values.len()` lies within the output and is written by no other task.
    unsafe fn write(&self, at: usize, values: &[f32]) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.out.add(at), values.len()) }
    }
}

/// What one task looks at.
struct Part<'a> {
    spec: &'a AttentionSpec,
    q: &'a [f32],
    kv: &'a HostKv,
    kv_head: usize,
    prefix: usize,
    visible: &'a Visible,
}

impl Part<'_> {
    /// Room for the weights of one (row, head).
    fn stride(&self) -> usize {
        self.prefix + self.visible.in_flight()
    }

    /// What `row` sees, in the order of positions: prefix slots `first..prefix`, then the rows in flight from the
    /// `skip`-th on.
    #[inline(always)]
    fn view(&self, row: usize) -> View {
        let count = self.visible.count(row);
        let start = (self.prefix + count).saturating_sub(self.spec.window.unwrap_or(usize::MAX));
        let first = start.min(self.prefix);
        let skip = start - first;
        View { first, in_prefix: self.prefix - first, skip, length: self.prefix + count - start }
    }
}

struct View {
    /// The first prefix slot seen.
    first: usize,
    /// How many prefix slots are seen.
    in_prefix: usize,
    /// How many of the rows in flight on the path are out of the window.
    skip: usize,
    /// How many slots are seen in all.
    length: usize,
}

per_isa! {
    /// The attended values of the heads that one key/value head serves, `[rows, group · head_dim]`.
    fn attend_part(part: &Part<'_>, rows: std::ops::Range<usize>) -> Vec<f32> {
        let group = part.spec.heads / part.spec.kv_heads;
        let views: Vec<View> = rows.clone().map(|row| part.view(row)).collect();
        // The weights of a (row, head) lie side by side in the order of positions.
        let mut weights = vec![0f32; views.len() * group * part.stride()];
        let mut out = vec![0f32; views.len() * group * part.spec.head_dim];
        weigh(part, rows.start, &views, &mut weights);
        gather(part, rows.start, &views, &weights, &mut out);
        out
    }
}

/// The softmax weights of everything that each (row, head) sees.
#[inline(always)]
fn weigh(part: &Part<'_>, first_row: usize, views: &[View], weights: &mut [f32]) {
    let (d, group, stride) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads, part.stride());
    let keys = &part.kv.keys[part.kv.at(part.kv_head, 0).start..];
    for block in (0..part.prefix).step_by(KEY_BLOCK) {
        let end = (block + KEY_BLOCK).min(part.prefix);
        for (i, view) in views.iter().enumerate() {
            for head in 0..group {
                let q = head_slice(part, first_row + i, head);
                let scores = &mut weights[(i * group + head) * stride..];
                for slot in block.max(view.first)..end {
                    scores[slot - view.first] = lanes::dot(q, &keys[slot * d..(slot + 1) * d]);
                }
            }
        }
    }
    for (i, view) in views.iter().enumerate() {
        for head in 0..group {
            let q = head_slice(part, first_row + i, head);
            let scores = &mut weights[(i * group + head) * stride..][..view.length];
            for (index, score) in scores[view.in_prefix..].iter_mut().enumerate() {
                let slot = part.prefix + part.visible.nth(first_row + i, index + view.skip);
                *score = lanes::dot(q, &keys[slot * d..(slot + 1) * d]);
            }
            softmax(scores, part.spec);
        }
    }
}

/// The weighted values: one chain of additions per output element, in the order of positions.
#[inline(always)]
fn gather(part: &Part<'_>, first_row: usize, views: &[View], weights: &[f32], out: &mut [f32]) {
    let (d, group, stride) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads, part.stride());
    let values = &part.kv.values[part.kv.at(part.kv_head, 0).start..];
    for block in (0..part.prefix).step_by(KEY_BLOCK) {
        let end = (block + KEY_BLOCK).min(part.prefix);
        for (i, view) in views.iter().enumerate() {
            let from = block.max(view.first);
            if from >= end {
                continue;
            }
            for head in 0..group {
                let weights = &weights[(i * group + head) * stride..][from - view.first..end - view.first];
                add_run(weights, &values[from * d..end * d], &mut out[(i * group + head) * d..][..d]);
            }
        }
    }
    for (i, view) in views.iter().enumerate() {
        for head in 0..group {
            let weights = &weights[(i * group + head) * stride..][..view.length];
            let out = &mut out[(i * group + head) * d..][..d];
            for (index, weight) in weights[view.in_prefix..].iter().enumerate() {
                let slot = part.prefix + part.visible.nth(first_row + i, index + view.skip);
                add_run(std::slice::from_ref(weight), &values[slot * d..(slot + 1) * d], out);
            }
        }
    }
}

/// The query of the `head`-th head that the part's key/value head serves.
#[inline(always)]
fn head_slice<'a>(part: &Part<'a>, row: usize, head: usize) -> &'a [f32] {
    let (d, group) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads);
    let start = (row * part.spec.heads + part.kv_head * group + head) * d;
    &part.q[start..start + d]
}

/// Scales, caps and turns scores into weights that sum to one.
#[inline(always)]
fn softmax(s: &mut [f32], spec: &AttentionSpec) {
    let mut max = f32::NEG_INFINITY;
    for v in s.iter_mut() {
        *v *= spec.scale;
        if let Some(cap) = spec.soft_cap {
            *v = cap * lanes::tanh(*v / cap);
        }
        max = max.max(*v);
    }
    for v in s.iter_mut() {
        *v = lanes::exp(*v - max);
    }
    let scale = 1.0 / lanes::sum(s);
    for v in s.iter_mut() {
        *v *= scale;
    }
}

/// `out += Σ_j weights[j] · rows[j]`, in order.
#[inline(always)]
fn add_run(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    const WIDTH: usize = 64;
    let d = out.len();
    let mut start = 0;
    while start + WIDTH <= d {
        let mut acc = [0f32; WIDTH];
        acc.copy_from_slice(&out[start..start + WIDTH]);
        for (&w, row) in weights.iter().zip(rows.chunks_exact(d)) {
            let row = &row[start..start + WIDTH];
            for i in 0..WIDTH {
                acc[i] = w.mul_add(row[i], acc[i]);
            }
        }
        out[start..start + WIDTH].copy_from_slice(&acc);
        start += WIDTH;
    }
    for (&w, row) in weights.iter().zip(rows.chunks_exact(d)) {
        for i in start..d {
            out[i] = w.mul_add(row[i], out[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    fn value(i: usize) -> f32 {
        ((i.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0
    }

    fn spec(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>, cap: Option<f32>) -> AttentionSpec {
        let scale = 1.0 / (head_dim as f32).sqrt();
        AttentionSpec { heads, kv_heads, head_dim, scale, soft_cap: cap, window }
    }

    /// A cache whose row for the token at (path of) `identity` depends on the identity alone, not on its slot.
    fn write(kv: &mut HostKv, spec: &AttentionSpec, slot: usize, identity: usize) {
        let width = spec.kv_heads * spec.head_dim;
        let k: Vec<f32> = (0..width).map(|i| value(identity * 977 + i)).collect();
        let v: Vec<f32> = (0..width).map(|i| value(identity * 1409 + i + 7)).collect();
        kv.write(slot, &k, &v);
    }

    const PARENTS: [usize; 9] = [0, 0, 0, 1, 1, 2, 3, 6, 5];

    fn paths() -> Vec<Vec<usize>> {
        let path = |mut node: usize| {
            let mut path = vec![node];
            while node > 0 {
                node = PARENTS[node];
                path.insert(0, node);
            }
            path
        };
        (0..PARENTS.len()).map(path).collect()
    }

    fn cases() -> Vec<AttentionSpec> {
        vec![
            spec(4, 4, 16, None, None),
            spec(6, 2, 24, Some(5), None),
            spec(4, 1, 64, None, Some(4.0)),
            spec(2, 2, 80, Some(3), Some(2.0)),
            spec(2, 1, 128, Some(200), None),
        ]
    }

    #[test]
    fn equals_the_reference() {
        for spec in cases() {
            for prefix in [0, 1, 3, 70, 130] {
                let paths = paths();
                let tree = Visible::from_paths(paths.iter().map(Vec::as_slice));
                for visible in [tree, Visible::Causal { rows: 20 }] {
                    let rows = visible.rows();
                    let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
                    (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
                    let q: Vec<f32> = (0..rows * spec.heads * spec.head_dim).map(|i| value(i * 3 + 1)).collect();
                    let want =
                        reference::attend(&spec, &q, prefix, &visible, |h, s| kv.key(h, s), |h, s| kv.value(h, s));
                    let mut first: Option<Vec<f32>> = None;
                    for isa in Isa::available() {
                        let mut out = vec![0f32; q.len()];
                        attend(isa, &spec, &q, &kv, prefix, &visible, &mut out);
                        for (a, b) in out.iter().zip(&want) {
                            assert!((f64::from(*a) - b).abs() < 3e-6, "{a} against {b}: {spec:?} prefix {prefix}");
                        }
                        assert_eq!(*first.get_or_insert_with(|| out.clone()), out, "{isa:?}");
                    }
                }
            }
        }
    }

    /// A node of a tree and the last row of a plain pass over its path give the same bits, wherever the keys lie.
    #[test]
    fn a_tree_node_equals_plain_decoding_of_its_path_bit_for_bit() {
        for spec in cases() {
            for prefix in [0, 2, 65] {
                let paths = paths();
                let rows = paths.len();
                let width = spec.heads * spec.head_dim;
                let query = |identity: usize| (0..width).map(move |i| value(identity * 31 + i * 3 + 1));
                let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
                (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
                let q: Vec<f32> = (0..rows).flat_map(query).collect();
                let mut tree = vec![0f32; q.len()];
                let visible = Visible::from_paths(paths.iter().map(Vec::as_slice));
                attend(Isa::detect(), &spec, &q, &kv, prefix, &visible, &mut tree);
                for (node, path) in paths.iter().enumerate() {
                    let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
                    (0..prefix).for_each(|slot| write(&mut kv, &spec, slot, slot));
                    for (i, &ancestor) in path.iter().enumerate() {
                        write(&mut kv, &spec, prefix + i, prefix + ancestor);
                    }
                    let q: Vec<f32> = query(node).collect();
                    let mut alone = vec![0f32; width];
                    let one = Visible::Causal { rows: 1 };
                    attend(Isa::detect(), &spec, &q, &kv, prefix + path.len() - 1, &one, &mut alone);
                    assert_eq!(alone, tree[node * width..(node + 1) * width], "node {node}, prefix {prefix}, {spec:?}");
                }
            }
        }
    }

    /// A tree computed level by level gives the bits of the tree computed at once.
    #[test]
    fn levels_of_a_tree_equal_the_whole_tree_bit_for_bit() {
        for spec in cases() {
            let (prefix, paths) = (3, paths());
            let (rows, width) = (paths.len(), spec.heads * spec.head_dim);
            let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
            (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
            let q: Vec<f32> = (0..rows * width).map(|i| value(i * 5 + 2)).collect();
            let mut whole = vec![0f32; q.len()];
            let visible = Visible::from_paths(paths.iter().map(Vec::as_slice));
            attend(Isa::detect(), &spec, &q, &kv, prefix, &visible, &mut whole);
            for (first, end) in [(0, 1), (1, 3), (3, 6), (6, 9)] {
                let level = Visible::after(first, paths[first..end].iter().map(Vec::as_slice));
                assert_eq!((level.rows(), level.first(), level.in_flight()), (end - first, first, end));
                let mut out = vec![0f32; (end - first) * width];
                attend(Isa::detect(), &spec, &q[first * width..end * width], &kv, prefix, &level, &mut out);
                assert_eq!(out, whole[first * width..end * width], "{spec:?} {first}");
            }
        }
    }

    #[test]
    fn moved_slots_keep_their_contents() {
        let spec = spec(2, 2, 4, None, None);
        let mut kv = HostKv::new(2, 5, 4);
        (0..5).for_each(|slot| write(&mut kv, &spec, slot, slot));
        let (key, value) = (kv.key(1, 4).to_vec(), kv.value(0, 4).to_vec());
        kv.move_slot(4, 2);
        assert_eq!(kv.key(1, 2), key);
        assert_eq!(kv.value(0, 2), value);
        assert_eq!(kv.key(1, 4), key);
    }
}
