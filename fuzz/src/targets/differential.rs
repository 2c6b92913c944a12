//! Compares two ways to one result: the kernels of every instruction set, and a growing tree on the host and by the
//! definition of the device's kernels.

use gorgon_core::Token;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, DynamicTree, SourceError, TokenTree, TreeBuilder};
use gorgon_kernels::Isa;
use gorgon_kernels::activation::{silu_rows, soft_cap_rows};
use gorgon_kernels::dynamic_tree::{Growth, reference};
use gorgon_kernels::few_row_matmul::{Int8Prefilter, Packed, WeightDtype, few_row_matmul};
use gorgon_kernels::norm::rms_norm_rows;
use gorgon_kernels::quantised_matmul::{Activations, CodeBits, Codes, QuantisedMatrix, ScaleFormat, quantised_matmul};
use gorgon_kernels::top_rows::{top_row, top_rows};
use gorgon_kernels::tree_attention::{AttentionMask, AttentionSpec, HostKv, PassRows, attend_rows};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sizes, then numbers: any bits, again from the start where they end.
struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Numbers<'a> {
    fn byte(&mut self) -> usize {
        let byte = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        byte as usize
    }

    fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.byte() % (most - least + 1)
    }

    /// Common numbers with many or few equal ones, or any bits, NaN and infinity included.
    fn values(&mut self, count: usize) -> Vec<f32> {
        let kind = self.byte() % 4;
        let mut one = || match kind {
            0 => f32::from_bits(u32::from_le_bytes([(); 4].map(|()| self.byte() as u8))),
            1 => (self.byte() as f32 - 127.0) / 32.0,
            _ => ((self.byte() + (self.byte() << 8)) as f32 - 32_768.0) / 8_192.0,
        };
        (0..count).map(|_| one()).collect()
    }
}

/// Equal bits, or both no number.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
}

fn on_all(work: impl Fn(Isa) -> Vec<f32>) {
    let sets = Isa::available();
    let want = work(sets[0]);
    for &isa in &sets[1..] {
        let got = work(isa);
        assert!(same(&got, &want), "{}: {got:?}, portable: {want:?}", isa.name());
    }
}

pub(super) fn kernels(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let numbers = &mut Numbers { bytes, at: 0 };
    let (rows, d_in, d_out) = (numbers.within(1, 20), numbers.within(1, 40), numbers.within(1, 70));
    let dtype = [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16][numbers.within(0, 2)];
    let (x, w) = (numbers.values(rows * d_in), numbers.values(d_in * d_out));
    coded(numbers, &x, (d_in, d_out));
    let Ok(packed) = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)) else { return };
    on_all(|isa| {
        let mut y = vec![0.0; rows * d_out];
        few_row_matmul(isa, &x, &packed, None, &mut y);
        y
    });
    on_all(|isa| {
        let mut y = vec![0.0; x.len()];
        rms_norm_rows(isa, &x, &w[..d_in], 1e-5, &mut y);
        y
    });
    on_all(|isa| {
        let mut y = x.clone();
        silu_rows(isa, &mut y);
        soft_cap_rows(isa, &mut y, 30.0);
        y
    });
    on_all(|isa| {
        let mut top = vec![];
        top_row(isa, &x, d_in, &mut top);
        in_words(&top)
    });
    attention(numbers);
    prefilter(numbers);
}

/// Products with weights in codes.
fn coded(numbers: &mut Numbers<'_>, x: &[f32], (d_in, d_out): (usize, usize)) {
    let bits = [CodeBits::Four, CodeBits::Eight][numbers.within(0, 1)];
    let group = [8, 16, 32, d_in][numbers.within(0, 3)];
    let count = d_out * d_in.div_ceil(group);
    let scales = numbers.values(count);
    let zeros = [None, Some((0..count).map(|_| numbers.byte() as u8 & 15).collect())][numbers.within(0, 1)].clone();
    let scale_format = ScaleFormat::of(&scales);
    let values: Vec<u8> = (0..d_in * d_out).map(|_| numbers.byte() as u8).collect();
    let table = (zeros.is_none() && numbers.within(0, 3) == 3).then(|| {
        let table = numbers.values(256);
        Arc::new(std::array::from_fn(|code| table[code]))
    });
    let codes = Codes { d_in, d_out, bits, group, scales, scale_format, zeros, order: None, numbers: table };
    let Ok(matrix) = QuantisedMatrix::pack(codes, &(&values[..], d_in)) else { return };
    for activations in [Activations::Exact, Activations::Eight, Activations::Sixteen] {
        on_all(|isa| {
            let mut y = vec![0.0; x.len() / d_in * d_out];
            quantised_matmul(isa, x, &matrix, activations, None, &mut y);
            y
        });
    }
}

/// Entries with their ranks as bits.
fn in_words(top: &[(u32, f32)]) -> Vec<f32> {
    top.iter().flat_map(|&(token, p)| [f32::from_bits(token), p]).collect()
}

/// Attention of a tree, or of a chain, over a prefix.
fn attention(numbers: &mut Numbers<'_>) {
    let (kv_heads, group, head_dim) = (numbers.within(1, 2), numbers.within(1, 3), numbers.within(1, 40));
    let (prefix, rows) = (numbers.within(0, 100), numbers.within(1, 12));
    let soft_cap = [None, Some(4.0)][numbers.within(0, 1)];
    let window = Some(numbers.within(0, 90)).filter(|&window| window > 0);
    let heads = kv_heads * group;
    let spec = AttentionSpec { heads, kv_heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt(), soft_cap, window };
    let mask = match numbers.within(0, 1) {
        0 => AttentionMask::Causal { rows },
        _ => {
            let parents: Vec<usize> = (0..rows).map(|node| numbers.within(0, node.max(1) - 1)).collect();
            AttentionMask::in_tree(&parents)
        }
    };
    let width = kv_heads * head_dim;
    let mut kv = HostKv::new(kv_heads, prefix + rows, head_dim);
    for slot in 0..prefix + rows {
        kv.write(slot, &numbers.values(width), &numbers.values(width));
    }
    let q = numbers.values(rows * heads * head_dim);
    on_all(|isa| {
        let mut out = vec![0.0; q.len()];
        attend_rows(isa, &spec, &q, &kv, &PassRows::new(prefix, &mask), &mut out);
        out
    });
}

/// The greatest outputs of a matmul by its 8-bit copy, on every instruction set, against those of the whole matmul.
fn prefilter(numbers: &mut Numbers<'_>) {
    let (rows, d_in, d_out) = (numbers.within(1, 6), numbers.within(1, 40), numbers.within(64, 255));
    let dtype = [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16][numbers.within(0, 2)];
    let (x, w) = (numbers.values(rows * d_in), numbers.values(d_in * d_out));
    let counts: Vec<usize> = (0..rows).map(|_| numbers.within(0, 3)).collect();
    let Ok(packed) = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)) else { return };
    let packed = Arc::new(packed);
    for isa in Isa::available() {
        // Each begins anew: a copy that was of no use lately is not asked.
        let Ok(Some(copy)) = Int8Prefilter::copy(&packed) else { return };
        let mut found = vec![];
        if !copy.greatest(isa, &x, &counts, &mut found) {
            continue;
        }
        let mut y = vec![0.0; rows * d_out];
        few_row_matmul(isa, &x, &packed, None, &mut y);
        let want: Vec<(u32, f32)> =
            y.chunks(d_out).zip(&counts).flat_map(|(row, &count)| greatest(row, count)).collect();
        let is_same = same(&in_words(&found), &in_words(&want));
        assert!(is_same, "{}: {found:?}, by the whole matmul: {want:?}", isa.name());
    }
}

/// The greatest entries of a row, the lower index first on ties.
fn greatest(row: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut entries: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
    entries.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap_or(std::cmp::Ordering::Equal).then(a.0.cmp(&b.0)));
    entries.truncate(count);
    entries
}

pub(super) fn kernel_seeds() -> Vec<Vec<u8>> {
    let row = |shift: usize| (0..200).map(|i| ((i * 37 + shift * 11) % 251) as u8).collect();
    (0..6).map(row).collect()
}

/// Logits of what follows a path: any bits, chosen by the path.
fn logits(bytes: &[u8], path: &[i32], vocab: usize) -> Vec<f32> {
    let at = path.iter().fold(7usize, |at, &token| at.wrapping_mul(131).wrapping_add(token as usize * 17 + 3));
    Numbers { bytes, at: at % bytes.len() }.values(vocab)
}

struct Source<'a> {
    bytes: &'a [u8],
    vocab: usize,
    /// Logarithms of the probabilities of all paths so far.
    values: BTreeMap<Vec<i32>, f64>,
}

impl Source<'_> {
    /// Whether two paths are as likely up to rounding: logarithms are summed in `f32` on a device, and probabilities
    /// multiplied in `f64` on the host, so that either may come first.
    fn has_ties(&self) -> bool {
        let mut values: Vec<f64> = self.values.values().copied().collect();
        values.sort_by(f64::total_cmp);
        // Probabilities that are zero on the host have finite logarithms on a device.
        values.windows(2).any(|pair| pair[1] == pair[0] || pair[1] - pair[0] <= 1e-5 * pair[1].abs().max(1.0))
    }
}

impl CandidateSource for Source<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let path = |&node: &usize| -> Vec<i32> {
            tree.path(node).iter().skip(1).map(|&node| tree.token(node) as i32).collect()
        };
        let paths: Vec<Vec<i32>> = nodes.iter().map(path).collect();
        let rows: Vec<f32> = paths.iter().flat_map(|path| logits(self.bytes, path, self.vocab)).collect();
        let candidate = |&(token, p): &(Token, f32)| Candidate { token, probability: f64::from(p) };
        let rows = top_rows(&rows, self.vocab, widths);
        for (path, row) in paths.iter().zip(rows.iter()) {
            let before = self.values.get(path).copied().unwrap_or(0.0);
            let value =
                |&(token, p): &(Token, f32)| ([&path[..], &[token as i32]].concat(), before + f64::from(p).ln());
            self.values.extend(row.iter().map(value));
        }
        Ok(rows.iter().map(|row| row.iter().map(candidate)).collect())
    }
}

pub(super) fn trees(bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let numbers = &mut Numbers { bytes, at: 0 };
    let (nodes, depth, top_k) = (numbers.within(2, 40), numbers.within(0, 5), numbers.within(1, 8));
    let vocab = numbers.within(top_k, 48);
    let Ok(tree) = DynamicTree::new(nodes, depth, top_k) else { return };
    let growth = Growth { top_k, depth, nodes: tree.max_nodes() };
    let mut source = Source { bytes, vocab, values: BTreeMap::new() };
    let Ok(draft) = tree.build(9, &mut source) else { return };
    let (tokens, parents) = reference::grow(growth, 9, &|path| logits(bytes, path, vocab));
    let want: Vec<i32> = draft.tree().tokens().iter().map(|&token| token as i32).collect();
    let same = (&tokens[..], &parents[..]) == (&want[..], draft.tree().parents());
    assert!(same || source.has_ties(), "{growth:?}, {vocab} tokens: {tokens:?} {parents:?}, host: {draft:?}");
}

pub(super) fn tree_seeds() -> Vec<Vec<u8>> {
    kernel_seeds()
}
