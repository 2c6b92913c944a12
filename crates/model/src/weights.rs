//! Safetensors checkpoints: one file, or shards with an index; every byte untrusted.
//!
//! Headers are read and checked first, so that all problems of a checkpoint are reported at once and nothing is
//! allocated for a file that lies about its contents. Tensor data is then read piecewise at known offsets: no mapping,
//! no second copy of a tensor.

mod bytes;
mod error;
mod header;
mod index;

pub use self::error::{Problems, WeightsError};

use self::bytes::{all_finite, all_finite_bits, read_at, widen};
use self::header::{HeaderError, read_header};
use self::index::{read_index, shard_path};
use crate::device::{Compute, DraftWeights, FloatFormat, Weights};
use crate::{config::ModelConfig, layout};
use safetensors::Dtype;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A tensor in a file.
#[derive(Clone, Debug)]
pub struct Entry {
    file: usize,
    /// Storage type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    /// First byte within the file.
    offset: u64,
    /// Length in bytes.
    bytes: usize,
}

/// An opened checkpoint: checked headers and open files.
pub struct Checkpoint {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    entries: BTreeMap<String, Entry>,
    /// Whether numbers that are not finite are refused.
    finite: bool,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({}, {} tensors)", self.dir.display(), self.entries.len())
    }
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Checkpoint {
    /// Opens the checkpoint of a model folder: `model.safetensors`, or the shards that the index names.
    ///
    /// # Errors
    /// When a file is missing, truncated or inconsistent, or the index points outside the folder.
    pub fn open(dir: &Path) -> Result<Self, WeightsError> {
        // A link that leads nowhere counts as there: opening it then says what is wrong.
        if dir.join(SINGLE).symlink_metadata().is_ok() {
            return Self::open_files(dir, &[dir.join(SINGLE)]);
        }
        let index = dir.join(INDEX);
        if index.symlink_metadata().is_err() {
            let pickled = ["pytorch_model.bin", "pytorch_model.bin.index.json"].iter().any(|f| dir.join(f).exists());
            let hint = if pickled { " (PyTorch .bin weights must be converted to safetensors first)" } else { "" };
            return Err(WeightsError::NotFound { dir: dir.into(), hint });
        }
        let map = read_index(&index)?;
        let shards: BTreeSet<&String> = map.values().collect();
        let paths = shards.iter().map(|name| shard_path(dir, &index, name)).collect::<Result<Vec<_>, _>>()?;
        let opened = Self::open_files(dir, &paths)?;
        for (tensor, shard) in &map {
            let found = opened.entries.get(tensor).map(|entry| &opened.files[entry.file].0);
            if found != Some(&dir.join(shard)) {
                let reason = format!("weight_map puts tensor {tensor} in {shard}, but that file does not hold it");
                return Err(WeightsError::Index { path: index, reason });
            }
        }
        Ok(opened)
    }

    /// Opens exactly these safetensors files.
    ///
    /// # Errors
    /// When a file is missing, truncated or inconsistent, or two files hold a tensor of the same name.
    pub fn open_files(dir: &Path, paths: &[PathBuf]) -> Result<Self, WeightsError> {
        let mut opened = Self { dir: dir.into(), files: vec![], entries: BTreeMap::new(), finite: false };
        for path in paths {
            opened.add_file(path)?;
        }
        Ok(opened)
    }

    /// This checkpoint, of which no number is read that is not finite. Those of a target would make all its logits so;
    /// draft heads are not trusted with more than speed.
    #[must_use]
    pub fn finite(self) -> Self {
        Self { finite: true, ..self }
    }

    /// A checkpoint that is nowhere: weights of a config's shapes are drawn on the device that they are asked for on,
    /// for measuring. Norms are one, biases zero.
    pub fn drawn(config: &ModelConfig) -> Self {
        let entry = |spec: layout::TensorSpec| {
            let bytes = 4 * spec.shape.iter().product::<usize>();
            (spec.name, Entry { file: usize::MAX, dtype: Dtype::F32, shape: spec.shape, offset: 0, bytes })
        };
        let entries = layout::tensors(config).into_iter().map(entry).collect();
        Self { dir: "random weights".into(), files: vec![], entries, finite: false }
    }

    /// True if its weights are drawn.
    pub(crate) fn is_drawn(&self) -> bool {
        self.files.is_empty()
    }

    fn add_file(&mut self, path: &Path) -> Result<(), WeightsError> {
        let read = |source| WeightsError::Read { path: path.into(), source };
        let invalid = |reason: String| WeightsError::Invalid { path: path.into(), reason };
        let file = gorgon_runs::file::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        let (metadata, data_start) = read_header(&file, length).map_err(|error| match error {
            HeaderError::Io(source) => read(source),
            HeaderError::Bad(reason) => invalid(reason),
        })?;
        let index = self.files.len();
        for (name, info) in metadata.tensors() {
            let (start, end) = info.data_offsets;
            let entry = Entry {
                file: index,
                dtype: info.dtype,
                shape: info.shape.clone(),
                offset: data_start + start as u64,
                bytes: end - start,
            };
            if let Some(other) = self.entries.insert(name.clone(), entry) {
                let first = self.files[other.file].0.display();
                return Err(invalid(format!("tensor {name} is also in {first}")));
            }
        }
        tracing::debug!(file = %path.display(), tensors = metadata.tensors().len(), bytes = length, "weights opened");
        self.files.push((path.into(), file));
        Ok(())
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The files, in order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// All tensors by name.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Bytes of tensor data.
    pub fn bytes(&self) -> usize {
        self.entries.values().map(|entry| entry.bytes).sum()
    }

    /// Bytes that the weights take once loaded, norms and biases counted like the rest.
    pub fn loaded_bytes(&self, compute: &Compute) -> usize {
        let elements: usize = self.entries.values().map(|entry| entry.shape.iter().product::<usize>()).sum();
        // Asked for `f32`, the CPU keeps 16 bits where a whole matrix has them; of a mixed checkpoint it may not.
        let mut dtypes = self.entries.values().map(|entry| entry.dtype);
        let first = dtypes.next();
        let half = matches!(first, Some(Dtype::F16 | Dtype::BF16)) && dtypes.all(|dtype| Some(dtype) == first);
        let head = || self.entries.get(layout::LM_HEAD).or_else(|| self.entries.get(layout::EMBEDDING));
        let integers = compute.integers();
        let copied = match (integers.weights, integers.draft_weights) {
            (Weights::Int8, _) => return elements,
            // A scale of two bytes for each 32 weights.
            (Weights::Int4, _) => return elements / 2 + elements / 16,
            (Weights::Stored, DraftWeights::Int8) => head().map_or(0, |entry| entry.shape.iter().product()),
            (Weights::Stored, DraftWeights::Stored) => 0,
        };
        copied
            + match compute.format() {
                FloatFormat::F32 if compute.is_host() && half => elements * 2,
                format => elements * format.bytes(),
            }
    }

    /// Compares the tensors with those that `config` calls for.
    pub fn problems(&self, config: &ModelConfig) -> Problems {
        let specs = layout::tensors(config);
        let mut problems = Problems::default();
        for spec in &specs {
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
        let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let module =
            |name: &str| layout::module_mark(config, name).is_some_and(|mark| self.entries.contains_key(&mark));
        let harmless = |name: &str| layout::is_harmless_extra(config, name) || module(name);
        let extra = |name: &&String| !known.contains(name.as_str()) && !harmless(name);
        problems.unexpected = self.entries.keys().filter(extra).cloned().collect();
        problems
    }

    /// Fails if the tensors are not those that `config` calls for.
    ///
    /// # Errors
    /// [`WeightsError::Mismatch`] with every problem.
    pub fn check(&self, config: &ModelConfig) -> Result<(), WeightsError> {
        let problems = self.problems(config);
        if problems.is_empty() {
            return Ok(());
        }
        Err(WeightsError::Mismatch { dir: self.dir.clone(), problems })
    }

    /// Reads elements `range` of a tensor, widened to `f32`.
    ///
    /// # Errors
    /// When the tensor is absent, no float, or the file cannot be read.
    pub fn read(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let (entry, offset) = self.locate(name, &range, out.len())?;
        let size = entry.dtype.bitsize() / 8;
        if entry.dtype == Dtype::F32 {
            // SAFETY: any bytes are an `f32`, and the slice covers exactly the elements' memory.
            let bytes = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), 4 * out.len()) };
            self.read_bytes(entry, offset, bytes)?;
            // Files are little-endian.
            out.iter_mut().for_each(|v| *v = f32::from_bits(u32::from_le(v.to_bits())));
            return self.check_finite(entry, name, range.start, out);
        }
        // Pieces keep the staging buffer in the second-level cache and the memory peak at the result alone.
        const PIECE: usize = 1 << 15;
        let mut bytes = vec![0u8; size * PIECE.min(out.len())];
        for (i, out) in out.chunks_mut(PIECE).enumerate() {
            let bytes = &mut bytes[..out.len() * size];
            self.read_bytes(entry, offset + (i * PIECE * size) as u64, bytes)?;
            widen(entry.dtype, bytes, out);
            self.check_finite(entry, name, range.start + i * PIECE, out)?;
        }
        Ok(())
    }

    /// Reads elements `range` of a tensor of a 16-bit type as they are stored.
    ///
    /// # Errors
    /// As [`Self::read`], or when the type has another size.
    pub fn read_bits(&self, name: &str, range: Range<usize>, out: &mut [u16]) -> Result<(), WeightsError> {
        let (entry, offset) = self.locate(name, &range, out.len())?;
        if entry.dtype.bitsize() != 16 {
            return Err(self.wrong(entry, name, format!("{:?} has no 16 bits", entry.dtype)));
        }
        // SAFETY: any bytes are a `u16`, and the slice covers exactly the elements' memory.
        let bytes = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), 2 * out.len()) };
        self.read_bytes(entry, offset, bytes)?;
        // Files are little-endian.
        out.iter_mut().for_each(|bits| *bits = u16::from_le(*bits));
        let infinity =
            if entry.dtype == Dtype::F16 { half::f16::INFINITY.to_bits() } else { half::bf16::INFINITY.to_bits() };
        if !self.finite || all_finite_bits(out, infinity) {
            return Ok(());
        }
        let at = out.iter().position(|bits| bits & 0x7fff >= infinity).unwrap_or(0);
        Err(self.not_finite(entry, name, range.start + at))
    }

    fn check_finite(&self, entry: &Entry, name: &str, first: usize, values: &[f32]) -> Result<(), WeightsError> {
        if !self.finite || all_finite(values) {
            return Ok(());
        }
        let at = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
        Err(self.not_finite(entry, name, first + at))
    }

    fn not_finite(&self, entry: &Entry, name: &str, at: usize) -> WeightsError {
        self.wrong(entry, name, format!("element {at} is not finite: the weights are damaged"))
    }

    /// The bytes of a whole tensor of any type, as they are stored.
    ///
    /// # Errors
    /// When the tensor is absent or the file cannot be read.
    pub fn read_stored(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let entry = self.entry(name)?;
        let mut bytes = vec![0u8; entry.bytes];
        self.read_bytes(entry, entry.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn entry(&self, name: &str) -> Result<&Entry, WeightsError> {
        self.entries.get(name).ok_or_else(|| WeightsError::Mismatch {
            dir: self.dir.clone(),
            problems: Problems { missing: vec![name.into()], ..Problems::default() },
        })
    }

    /// The entry of a float tensor, and where in its file elements `range` begin.
    fn locate(&self, name: &str, range: &Range<usize>, room: usize) -> Result<(&Entry, u64), WeightsError> {
        let entry = self.entry(name)?;
        if !matches!(entry.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            return Err(self.wrong(entry, name, format!("{:?} is no supported float type", entry.dtype)));
        }
        let size = entry.dtype.bitsize() / 8;
        if range.len() != room || range.end * size > entry.bytes {
            return Err(self.wrong(entry, name, format!("elements {range:?} of {} bytes", entry.bytes)));
        }
        Ok((entry, entry.offset + (range.start * size) as u64))
    }

    fn wrong(&self, entry: &Entry, name: &str, reason: String) -> WeightsError {
        let path = self.files.get(entry.file).map_or(self.dir.clone(), |(path, _)| path.clone());
        WeightsError::Tensor { path, tensor: name.into(), reason }
    }

    fn read_bytes(&self, entry: &Entry, offset: u64, bytes: &mut [u8]) -> Result<(), WeightsError> {
        let Some((path, file)) = self.files.get(entry.file) else {
            return Err(self.wrong(entry, "any", "drawn weights exist on a GPU only".into()));
        };
        read_at(file, bytes, offset).map_err(|source| WeightsError::Read { path: path.clone(), source })
    }

    /// Reads a whole tensor, widened to `f32`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let elements = self.entries.get(name).map_or(0, |entry| entry.shape.iter().product());
        let mut out = vec![0f32; elements];
        self.read(name, 0..elements, &mut out)?;
        Ok(out)
    }
}
