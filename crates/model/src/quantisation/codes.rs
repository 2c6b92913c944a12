//! Matrices of integers, and of codes that stand for numbers of a table.

use crate::device::Weights;
use gorgon_kernels::quantised_matmul::{CodeBits, Codes as Layout, Numbers, ScaleFormat};
use safetensors::Dtype;
use std::ops::Range;

/// A quantised matrix as codes: `w[n, k] = scale[g, n] · (code[n, k] - zero[g, n])`, with `g = j / group` for the input
/// `k` that stands at position `j`. With a table of numbers it is `scale[g, n] · number[code[n, k]]`.
///
/// The codes themselves are read by ranges of outputs, each row in the order of positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes {
    /// Bits of a code, 4 or 8: codes are from 0 to `2^bits - 1`.
    pub bits: u32,
    /// Outputs.
    pub d_out: usize,
    /// Inputs.
    pub d_in: usize,
    /// Positions that share a scale; the last group may have fewer.
    pub group: usize,
    /// Scales `[ceil(d_in / group), d_out]`, widened.
    pub scales: Vec<f32>,
    /// Type in which the scales are stored.
    pub scale_dtype: Dtype,
    /// Zero points.
    pub zeros: Zeros,
    /// The input at each position, where that is not the position itself.
    pub order: Option<Vec<u32>>,
    /// The number that each code stands for, where that is not the code less its zero point.
    pub numbers: Option<Numbers>,
}

/// Zero points of codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// One for the whole matrix.
    One(u8),
    /// `[groups, d_out]`.
    Each(Vec<u8>),
}

impl Zeros {
    /// The zero point at `index` of `[groups, d_out]`.
    pub fn at(&self, index: usize) -> u8 {
        match self {
            Self::One(zero) => *zero,
            Self::Each(zeros) => zeros[index],
        }
    }
}

impl Codes {
    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.d_in.div_ceil(self.group)
    }

    /// The weight of a code, `at` an index of `[groups, d_out]`.
    pub fn weight(&self, at: usize, code: u8) -> f32 {
        let difference = || f32::from(code) - f32::from(self.zeros.at(at));
        self.scales[at] * self.numbers.as_ref().map_or_else(difference, |numbers| numbers[usize::from(code)])
    }

    /// The weights of rows of codes that are in order.
    pub fn dequantise(&self, rows: Range<usize>, codes: &[u8], out: &mut [f32]) {
        let lines = codes.chunks_exact(self.d_in).zip(out.chunks_exact_mut(self.d_in));
        for (n, (codes, out)) in rows.zip(lines) {
            for (g, (codes, out)) in codes.chunks(self.group).zip(out.chunks_mut(self.group)).enumerate() {
                let at = g * self.d_out + n;
                out.iter_mut().zip(codes).for_each(|(out, &code)| *out = self.weight(at, code));
            }
        }
    }

    /// One matrix of the outputs of several, one after the other; `None` where they do not go together.
    pub fn concat(parts: &[&Self]) -> Option<Self> {
        let first = *parts.first()?;
        let bits = |part: &Self| part.numbers.as_ref().map(|numbers| numbers.map(f32::to_bits));
        let fits = |part: &&Self| {
            (part.bits, part.d_in, part.group) == (first.bits, first.d_in, first.group)
                && part.order == first.order
                && bits(part) == bits(first)
        };
        if !parts.iter().all(fits) {
            return None;
        }
        let d_out = parts.iter().map(|part| part.d_out).sum();
        let mut scales = Vec::with_capacity(first.groups() * d_out);
        for g in 0..first.groups() {
            parts.iter().for_each(|part| scales.extend_from_slice(&part.scales[g * part.d_out..][..part.d_out]));
        }
        let same = parts.iter().all(|part| part.zeros == first.zeros && matches!(part.zeros, Zeros::One(_)));
        let zeros = if same { first.zeros.clone() } else { Self::all_zeros(parts, first.groups()) };
        let alike = parts.iter().all(|part| part.scale_dtype == first.scale_dtype);
        let scale_dtype = if alike { first.scale_dtype } else { Dtype::F32 };
        let Self { bits, d_in, group, .. } = *first;
        let (order, numbers) = (first.order.clone(), first.numbers.clone());
        Some(Self { bits, d_out, d_in, group, scales, scale_dtype, zeros, order, numbers })
    }

    /// These codes as matmuls hold them; `None` where they cannot, or where options ask for integers and these codes
    /// stand for other numbers.
    pub(crate) fn layout(&self, weights: Weights) -> Option<Layout> {
        if self.numbers.is_some() && weights != Weights::Stored {
            return None;
        }
        let bits = match self.bits {
            4 => CodeBits::Four,
            8 => CodeBits::Eight,
            _ => return None,
        };
        let zeros = match &self.zeros {
            Zeros::One(zero) if *zero == bits.middle() => None,
            Zeros::One(zero) => Some(vec![*zero; self.scales.len()]),
            Zeros::Each(zeros) => Some(self.by_output(zeros)),
        };
        let scale_format = match self.scale_dtype {
            Dtype::F16 => ScaleFormat::F16,
            Dtype::BF16 => ScaleFormat::Bf16,
            _ => ScaleFormat::F32,
        };
        let (d_in, d_out, group) = (self.d_in, self.d_out, self.group);
        let (scales, order, numbers) = (self.by_output(&self.scales), self.order.clone(), self.numbers.clone());
        let layout = Layout { d_in, d_out, bits, group, scales, scale_format, zeros, order, numbers };
        Some(layout).filter(Layout::can_be_packed)
    }

    /// Values `[groups, d_out]` as `[d_out, groups]`.
    fn by_output<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let groups = self.groups();
        (0..values.len()).map(|i| values[i % groups * self.d_out + i / groups]).collect()
    }

    fn all_zeros(parts: &[&Self], groups: usize) -> Zeros {
        let of = |g: usize| {
            parts.iter().flat_map(move |part| (0..part.d_out).map(move |n| part.zeros.at(g * part.d_out + n)))
        };
        Zeros::Each((0..groups).flat_map(of).collect())
    }
}
