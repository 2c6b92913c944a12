//! Checkpoints as matrices: dequantised ones beside those that are stored as they are.

use super::{Checkpoint, Entry, Problems, WeightsError};
use crate::config::ModelConfig;
use crate::device::{Compute, DraftWeights, FloatFormat, Weights};
use crate::layout::{self, TensorSpec};
use crate::quantisation::{self, Codes, Format, Matrix, Quantisation, Store, Tensors};
use safetensors::Dtype;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// Bytes of so many weights in 4 bits, with a scale of two bytes for each 32.
fn in_four_bits(weights: usize) -> usize {
    weights / 2 + weights / 16
}

impl Checkpoint {
    /// How quantised modules are stored; `None` if `config.json` says nothing about them.
    pub fn quantisation(&self) -> Option<&Quantisation> {
        self.quantisation.as_deref()
    }

    /// The quantised matrix of the module whose weight is tensor `name`, opened for reading; `None` if the tensor is
    /// stored as it is.
    pub(crate) fn matrix<'a>(&'a self, name: &'a str) -> Result<Option<Matrix<'a>>, WeightsError> {
        let Some((module, format)) = self.format(name) else { return Ok(None) };
        Matrix::open(format, Tensors { store: self, module }).map(Some)
    }

    /// The module whose weight is tensor `name`, and how it is quantised.
    fn format<'a>(&'a self, name: &'a str) -> Option<(&'a str, &'a dyn Format)> {
        let quantisation = self.quantisation.as_deref()?;
        let module = name.strip_suffix(".weight")?;
        let format = quantisation.format(module, &self.entries)?;
        Some((module, format))
    }

    /// Shapes of the quantised modules' matrices, `[out, in]`; those that are damaged are left out.
    pub fn quantised_modules(&self) -> BTreeMap<&str, [usize; 2]> {
        let Some(quantisation) = self.quantisation.as_deref() else { return BTreeMap::new() };
        let mut found = BTreeMap::new();
        for module in self.entries.keys().filter_map(|name| quantisation.marked(name)) {
            let Some(format) = quantisation.format(module, &self.entries) else { continue };
            let tensors = Tensors { store: self, module };
            let Ok(shape) = format.stored_shape(&tensors) else { continue };
            // Sizes that are only claimed could be anything.
            let mut problems = Problems::default();
            quantisation::check(format, &tensors, shape, &mut problems);
            if problems.is_empty() {
                found.insert(module, shape);
            }
        }
        found
    }

    /// Tensors that are no part of a quantised module: they are stored as they are.
    fn plain(&self, modules: &BTreeMap<&str, [usize; 2]>) -> Vec<&Entry> {
        let part = |name: &str| {
            !name.ends_with(".bias") && name.match_indices('.').any(|(dot, _)| modules.contains_key(&name[..dot]))
        };
        self.entries.iter().filter(|(name, _)| !part(name)).map(|(_, entry)| entry).collect()
    }

    /// Bytes of the quantised modules' tensors, as they are stored.
    pub fn quantised_bytes(&self) -> usize {
        let modules = self.quantised_modules();
        let plain: usize = self.plain(&modules).into_iter().map(Entry::bytes).sum();
        self.bytes() - plain
    }

    /// Bytes that the weights take once loaded, norms and biases counted like the rest.
    pub fn loaded_bytes(&self, compute: &Compute) -> usize {
        let modules = self.quantised_modules();
        let size = |entry: &Entry| entry.shape.iter().product::<usize>();
        let stored = self.plain(&modules);
        let plain: usize = stored.iter().map(|entry| size(entry)).sum();
        // Asked for `f32`, the CPU keeps 16 bits where a whole matrix has them; of mixed matrices it may not.
        let mut dtypes = stored.iter().filter(|entry| entry.shape.len() > 1).map(|entry| entry.dtype);
        let first = dtypes.next();
        let half = matches!(first, Some(Dtype::F16 | Dtype::BF16)) && dtypes.all(|dtype| Some(dtype) == first);
        let shape = |name: &str| {
            let quantised = name.strip_suffix(".weight").and_then(|module| modules.get(module));
            quantised.map(|[d_out, d_in]| d_out * d_in).or_else(|| self.entries.get(name).map(size))
        };
        let quantised: usize = modules.iter().map(|(module, shape)| self.module_bytes(module, *shape, compute)).sum();
        let integers = compute.integers();
        // A GPU looks embeddings up in 16 bits; an LM head that shares them has codes besides.
        let table = |coded: fn(usize) -> usize| {
            let found = shape(layout::EMBEDDING).filter(|_| !compute.is_host()).unwrap_or(0);
            let own_head = self.entries.contains_key(layout::LM_HEAD);
            found * compute.format().bytes() - if own_head { coded(found) } else { 0 }
        };
        let copied = match (integers.weights, integers.draft_weights) {
            (Weights::Int8, _) => return quantised + plain + table(|weights| weights),
            (Weights::Int4, _) => return quantised + in_four_bits(plain) + table(in_four_bits),
            (Weights::Stored, DraftWeights::Int8) => {
                shape(layout::LM_HEAD).or_else(|| shape(layout::EMBEDDING)).unwrap_or(0)
            }
            (Weights::Stored, DraftWeights::Stored) => 0,
        };
        let plain = match compute.format() {
            FloatFormat::F32 if compute.is_host() && half => plain * 2,
            format => plain * format.bytes(),
        };
        copied + quantised + plain
    }

    /// Bytes of a quantised module once loaded: codes stay codes on the CPU, other formats become numbers.
    fn module_bytes(&self, module: &str, [d_out, d_in]: [usize; 2], compute: &Compute) -> usize {
        if let Some(bytes) = compute.is_host().then(|| self.code_bytes(module, d_out, compute)).flatten() {
            return bytes;
        }
        match compute.integers().weights {
            Weights::Stored => d_out * d_in * compute.format().bytes(),
            Weights::Int8 => d_out * d_in,
            Weights::Int4 => in_four_bits(d_out * d_in),
        }
    }

    /// Bytes of a module's codes in memory; `None` where it becomes numbers, as one matrix with those beside it.
    fn code_bytes(&self, module: &str, d_out: usize, compute: &Compute) -> Option<usize> {
        let of = |group: &&[&str]| group.iter().any(|name| module.ends_with(name));
        let group = [&["q_proj", "k_proj", "v_proj"][..], &["gate_proj", "up_proj"]].into_iter().find(of);
        let names: Vec<String> = match group {
            None => vec![format!("{module}.weight")],
            Some(group) => {
                let (before, _) = module.rsplit_once('.')?;
                group.iter().map(|name| format!("{before}.{name}.weight")).collect()
            }
        };
        let matrices: Option<Vec<_>> = names.iter().map(|name| self.matrix(name).ok().flatten()).collect();
        let codes: Option<Vec<_>> = matrices.as_ref()?.iter().map(|matrix| matrix.codes()).collect();
        let whole = Codes::concat(&codes?)?;
        Some(whole.layout(compute.integers().weights)?.packed_bytes() * d_out / whole.d_out.max(1))
    }

    /// The config, as far as the tensors decide: configs of encoder-decoder models do not say whether the LM head is the
    /// embedding table.
    pub fn resolved(&self, config: &ModelConfig) -> ModelConfig {
        let tied_embeddings = match config.encoder {
            Some(_) => !self.entries.contains_key(layout::LM_HEAD),
            None => config.tied_embeddings,
        };
        ModelConfig { tied_embeddings, ..config.clone() }
    }

    /// Compares the tensors with those that `config` calls for.
    pub fn problems(&self, config: &ModelConfig) -> Problems {
        let config = &self.resolved(config);
        let specs = layout::tensors(config);
        let mut problems = Problems::default();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for spec in &specs {
            let with_embedding = self.quantisation().is_some_and(Quantisation::has_embedding);
            let shape = <[usize; 2]>::try_from(spec.shape.as_slice()).ok();
            let shape = shape.filter(|_| with_embedding || spec.name != layout::embedding(config));
            match shape.zip(self.format(&spec.name)) {
                Some((shape, (module, format))) => {
                    let tensors = Tensors { store: self, module };
                    known.extend(quantisation::check(format, &tensors, shape, &mut problems));
                }
                None => {
                    self.check_stored(spec, &mut problems);
                    known.insert(spec.name.clone());
                }
            }
        }
        let module =
            |name: &str| layout::module_mark(config, name).is_some_and(|mark| self.entries.contains_key(&mark));
        let harmless = |name: &str| layout::is_harmless_extra(config, name) || module(name) || self.has_no_effect(name);
        let extra = |name: &&String| !known.contains(name.as_str()) && !harmless(name);
        problems.unexpected = self.entries.keys().filter(extra).cloned().collect();
        let table = layout::embedding(config);
        let copies = layout::copies_of_embedding(config).into_iter();
        let differs = |name: &&str| self.entries.contains_key(*name) && !self.is_copy(name, table);
        let reason = |name: &str| match name {
            layout::LM_HEAD => format!("{name} differs from {table}, though tie_word_embeddings is true"),
            _ => format!("{name} differs from {table}, of which it should be a copy"),
        };
        problems.wrong.extend(copies.filter(differs).map(reason));
        problems
    }

    /// Compares the bytes of two tensors in their files. True if they are equal, or if one is absent or cannot be read.
    fn is_copy(&self, name: &str, original: &str) -> bool {
        const PIECE: usize = 1 << 20;
        let (Some(copy), Some(entry)) = (self.entries.get(name), self.entries.get(original)) else { return true };
        if (copy.dtype, &copy.shape, copy.bytes) != (entry.dtype, &entry.shape, entry.bytes) {
            return false;
        }
        let mut pieces = [vec![0u8; PIECE.min(entry.bytes)], vec![0u8; PIECE.min(entry.bytes)]];
        (0..entry.bytes).step_by(PIECE).all(|start| {
            let size = PIECE.min(entry.bytes - start);
            let [a, b] = &mut pieces;
            let read = |of: &Entry, out: &mut [u8]| self.read_bytes(of, of.offset + start as u64, out);
            // A file that cannot be read fails where it is loaded, and says why.
            match (read(copy, &mut a[..size]), read(entry, &mut b[..size])) {
                (Ok(()), Ok(())) => a[..size] == b[..size],
                _ => true,
            }
        })
    }

    fn check_stored(&self, spec: &TensorSpec, problems: &mut Problems) {
        match self.entries.get(&spec.name) {
            None => problems.missing.push(spec.name.clone()),
            Some(entry) if entry.shape != spec.shape => {
                problems.wrong.push(format!("{} is {:?}, expected {:?}", spec.name, entry.shape, spec.shape));
            }
            Some(entry) if !matches!(entry.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) => {
                problems.wrong.push(format!("{} is {:?}, expected F32, F16 or BF16", spec.name, entry.dtype));
            }
            Some(_) => {}
        }
    }

    /// Whether a tensor of a quantised checkpoint changes nothing: a scale of cached keys and values, which are not
    /// quantised here, or a bias of zeros, which exporters of GPTQ write for layers without bias.
    fn has_no_effect(&self, name: &str) -> bool {
        const CACHE_SCALES: [&str; 4] = [".q_scale", ".k_scale", ".v_scale", ".kv_scale"];
        if self.quantisation.is_none() {
            return false;
        }
        let zero_bias = || {
            let module = name.strip_suffix(".bias")?;
            self.entries.get(&format!("{module}.qweight"))?;
            Some(self.read_all_stored(name).ok()?.iter().all(|value| *value == 0.0))
        };
        CACHE_SCALES.iter().any(|suffix| name.ends_with(suffix)) || zero_bias().unwrap_or(false)
    }

    /// Reads a whole tensor, widened to `f32`; the weight of a quantised module is its dequantised matrix.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let Some(matrix) = self.matrix(name)? else { return self.read_all_stored(name) };
        let elements = matrix.shape().iter().product();
        let mut out = vec![0f32; elements];
        matrix.read_elements(0..elements, &mut out)?;
        Ok(out)
    }

    /// All numbers of a float tensor.
    fn read_all_stored(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let elements = self.entries.get(name).map_or(0, |entry| entry.shape.iter().product());
        let mut out = vec![0f32; elements];
        self.read_floats(name, 0..elements, &mut out)?;
        Ok(out)
    }

    /// An error about a tensor, which may be missing.
    pub(crate) fn tensor_error(&self, name: &str, reason: String) -> WeightsError {
        let file = self.entries.get(name).and_then(|entry| self.files.get(entry.file));
        let path = file.map_or_else(|| self.dir.clone(), |(path, _)| path.clone());
        WeightsError::Tensor { path, tensor: name.into(), reason }
    }
}

impl Store for Checkpoint {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.read_all_stored(name)
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        self.read_stored(name)
    }

    fn read_bytes(&self, name: &str, range: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        let entry = self.stored(name)?;
        if range.end > entry.bytes || range.len() != out.len() {
            return Err(self.wrong(entry, name, format!("bytes {range:?} of {}", entry.bytes)));
        }
        // The inherent method, by the place in the file.
        self.read_bytes(entry, entry.offset + range.start as u64, out)
    }

    fn error(&self, name: &str, reason: String) -> WeightsError {
        self.tensor_error(name, reason)
    }
}
