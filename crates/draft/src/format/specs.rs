//! The tensors that a format calls for, and how a file differs from them.
//!
//! Shapes are written in sizes that tensors share, such as the hidden size. Each size is what most of its tensors say,
//! so that one damaged tensor is named and not the healthy ones around it.

use super::tensor_index::{Report, TensorIndex, shown, shown_shape};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A size that several tensors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Size {
    /// Width of the residual stream.
    Hidden,
    /// The target's vocabulary.
    Vocab,
    /// The tokens that can be drafted, where they are fewer.
    Draft,
    /// Width of the concatenated features of the target, the input of EAGLE-3's `fc`.
    Features,
    /// Width of one of those features.
    TargetHidden,
    /// Width of the feed-forward network.
    Intermediate,
    /// Query heads times their size.
    Queries,
    /// Key/value heads times their size.
    KeyValues,
    /// Size of one head.
    HeadDim,
    /// Sides and taps of a convolution, which are two each.
    Pair,
    /// Coefficients of a convolution's rows for each of its channels' groups and each tap of each side.
    Coefficients,
    /// Width of a selector's tables.
    Rank,
    /// Rows of a table of probes.
    Probes,
}

/// One dimension of a shape: a multiple of a size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim {
    size: Size,
    times: usize,
}

impl Size {
    /// This size, `times` over.
    pub fn times(self, times: usize) -> Dim {
        Dim { size: self, times }
    }
}

impl From<Size> for Dim {
    fn from(size: Size) -> Self {
        size.times(1)
    }
}

/// Content of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Weights.
    Float,
    /// Token ids or differences of them.
    Id,
    /// One truth value per token.
    Mask,
}

impl Kind {
    /// The storage types that can be read.
    fn dtypes(self) -> &'static [&'static str] {
        match self {
            Self::Float => &["F32", "F16", "BF16"],
            Self::Id => &["I64"],
            // NumPy and older writers store truth values as bytes.
            Self::Mask => &["BOOL", "U8"],
        }
    }
}

/// A tensor that a format calls for.
#[derive(Debug)]
struct Spec {
    name: String,
    shape: Vec<Dim>,
    kind: Kind,
    required: bool,
}

/// The tensors that a format calls for.
#[derive(Debug, Default)]
pub(super) struct Specs(Vec<Spec>);

impl Specs {
    fn add(&mut self, name: impl Into<String>, shape: &[Dim], kind: Kind, required: bool) {
        self.0.push(Spec { name: name.into(), shape: shape.into(), kind, required });
    }

    /// A norm's weight or a bias.
    pub fn vector(&mut self, name: impl Into<String>, size: impl Into<Dim>) {
        self.add(name, &[size.into()], Kind::Float, true);
    }

    /// `{name}.weight [out, in]` and, if it has one, `{name}.bias [out]`.
    pub fn linear(&mut self, name: &str, d_out: Size, d_in: impl Into<Dim>, bias: bool) {
        self.add(format!("{name}.weight"), &[d_out.into(), d_in.into()], Kind::Float, true);
        if bias {
            self.vector(format!("{name}.bias"), d_out);
        }
    }

    /// A matrix `[out, in]`.
    pub fn matrix(&mut self, name: impl Into<String>, d_out: Size, d_in: Size) {
        self.add(name, &[d_out.into(), d_in.into()], Kind::Float, true);
    }

    /// A tensor of any rank.
    pub fn tensor(&mut self, name: impl Into<String>, shape: &[Size]) {
        let shape: Vec<Dim> = shape.iter().map(|&size| size.into()).collect();
        self.add(name, &shape, Kind::Float, true);
    }

    /// A matrix that may be absent.
    pub fn optional_matrix(&mut self, name: impl Into<String>, d_out: Size, d_in: Size) {
        self.add(name, &[d_out.into(), d_in.into()], Kind::Float, false);
    }

    /// A list over tokens that may be absent.
    pub fn optional_list(&mut self, name: &str, kind: Kind, size: Size) {
        self.add(name, &[size.into()], kind, false);
    }

    /// Sizes read from the tensors, with each size that a config names as one more vote.
    pub fn sizes(&self, index: &TensorIndex<'_>, hints: &[SizeHint]) -> Sizes {
        let mut votes = Votes::default();
        for spec in &self.0 {
            let Some(tensor) = index.get(&spec.name) else { continue };
            if tensor.shape.len() != spec.shape.len() {
                continue;
            }
            for (dim, &found) in spec.shape.iter().zip(&tensor.shape) {
                if found > 0 && found % dim.times == 0 {
                    votes.add(dim.size, found / dim.times);
                }
            }
        }
        let known: HashSet<Size> = votes.count.keys().map(|&(size, _)| size).collect();
        for hint in hints.iter().filter(|hint| known.contains(&hint.size)) {
            votes.add(hint.size, hint.value);
        }
        votes.decide()
    }

    /// Reports missing, unexpected, wrongly shaped and wrongly stored tensors. Names for which `foreign` holds belong
    /// to something else in the same file.
    pub fn check(&self, index: &TensorIndex<'_>, sizes: &Sizes, foreign: impl Fn(&str) -> bool, report: &mut Report) {
        for spec in self.0.iter().filter(|spec| spec.required && !index.has(&spec.name)) {
            report.problem(format!("missing: {}", spec.name));
        }
        let known: HashSet<&str> = self.0.iter().map(|spec| spec.name.as_str()).collect();
        for name in index.names() {
            // Rotary frequencies that old exporters saved are computed, never read.
            let ignored = foreign(name) || name.ends_with(".rotary_emb.inv_freq");
            if !known.contains(name) && !ignored {
                report.problem(format!("unexpected: {}", shown(name)));
            }
        }
        for spec in &self.0 {
            if let Some(tensor) = index.get(&spec.name) {
                spec.check_shape(&tensor.shape, sizes, report);
                spec.check_dtype(&tensor.dtype, report);
            }
        }
    }
}

impl Spec {
    fn check_shape(&self, found: &[usize], sizes: &Sizes, report: &mut Report) {
        // Eight bytes per element is the widest type there is.
        let bytes = found.iter().try_fold(8usize, |bytes, &size| bytes.checked_mul(size));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return report.problem(format!("wrong shape: {} is {}, beyond any memory", self.name, shown_shape(found)));
        }
        let expected: Vec<Option<usize>> =
            self.shape.iter().map(|dim| sizes.get(dim.size).map(|size| size.saturating_mul(dim.times))).collect();
        // A size that no tensor tells fits anything but zero.
        let fits = |(found, expected): (&usize, &Option<usize>)| *found > 0 && expected.is_none_or(|e| e == *found);
        if found.len() == expected.len() && found.iter().zip(&expected).all(fits) {
            return;
        }
        let expected: Vec<String> =
            expected.iter().map(|size| size.map_or_else(|| "?".into(), |size| size.to_string())).collect();
        let found = shown_shape(found);
        report.problem(format!("wrong shape: {} is {found}, expected [{}]", self.name, expected.join(", ")));
    }

    fn check_dtype(&self, found: &str, report: &mut Report) {
        let known = self.kind.dtypes();
        if !known.iter().any(|dtype| dtype.eq_ignore_ascii_case(found)) {
            let (name, found) = (&self.name, shown(found));
            report.problem(format!("unsupported type: {name} is {found}, expected {}", known.join(" or ")));
        }
    }
}

/// A size that a config names.
#[derive(Clone, Debug)]
pub(super) struct SizeHint {
    /// The keys it says so with.
    pub key: String,
    pub size: Size,
    pub value: usize,
}

/// Sizes as most tensors tell them.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<Size, usize>);

impl Sizes {
    pub fn get(&self, size: Size) -> Option<usize> {
        self.0.get(&size).copied()
    }

    /// The size, or 0 where no tensor tells it; then some tensor is missing or misshapen and reported.
    pub fn or_zero(&self, size: Size) -> usize {
        self.get(size).unwrap_or(0)
    }

    /// Reports sizes of a config that the tensors contradict.
    pub fn check_hints(&self, hints: &[SizeHint], report: &mut Report) {
        for SizeHint { key, size, value } in hints {
            if let Some(found) = self.get(*size).filter(|found| found != value) {
                report.problem(format!("config.json: {key} is {value}, but the tensors say {found}"));
            }
        }
    }
}

#[derive(Default)]
struct Votes {
    /// How many tensors say that a size is a value, and when the first did.
    count: HashMap<(Size, usize), (usize, usize)>,
}

impl Votes {
    fn add(&mut self, size: Size, value: usize) {
        let order = self.count.len();
        self.count.entry((size, value)).or_insert((0, order)).0 += 1;
    }

    /// The value most tensors name; of equals the one named first.
    fn decide(self) -> Sizes {
        let mut ranked: Vec<_> = self.count.into_iter().collect();
        ranked.sort_by_key(|&((size, _), (votes, order))| (size, std::cmp::Reverse(votes), order));
        let mut sizes = Sizes::default();
        for ((size, value), _) in ranked {
            sizes.0.entry(size).or_insert(value);
        }
        sizes
    }
}
