//! Checkpoints in safetensors (one file, or shards with an index) and in GGUF files; every byte untrusted.
//!
//! Headers are read and checked first, so that all problems of a checkpoint are reported at once and nothing is
//! allocated for a file that lies about its contents. Tensor data is then read piecewise at known offsets: no mapping,
//! no second copy of a tensor.

mod bytes;
mod entry;
mod error;
mod gguf;
mod header;
mod index;
mod matrices;

pub use self::entry::Entry;
pub use self::error::{Problems, WeightsError};

use self::bytes::{all_finite, all_finite_bits, read_at, widen};
use self::header::{HeaderError, read_header};
use self::index::{read_index, shard_path};
use crate::quantisation::{self, Quantisation};
use crate::{config::ModelConfig, layout};
use safetensors::Dtype;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened checkpoint: checked headers and open files.
pub struct Checkpoint {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    entries: BTreeMap<String, Entry>,
    /// Whether numbers that are not finite are refused.
    finite: bool,
    /// How linear layers are stored that are quantised.
    quantisation: Option<Arc<Quantisation>>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({}, {} tensors)", self.dir.display(), self.entries.len())
    }
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Checkpoint {
    /// Opens the checkpoint of a model: a GGUF file, or in a folder `model.safetensors` or the shards that the index
    /// names. Modules that are quantised, as `config.json` says, are read as matrices of floats.
    ///
    /// # Errors
    /// When a file is missing, truncated or inconsistent, or the index points outside the folder.
    pub fn open(dir: &Path) -> Result<Self, WeightsError> {
        let quantisation = quantisation::of_folder(dir).map(Arc::new);
        if let Some(path) = gorgon_gguf::find(dir)? {
            return Self::open_gguf(&path, quantisation);
        }
        Ok(Self { quantisation, ..Self::open_stored(dir)? })
    }

    fn open_stored(dir: &Path) -> Result<Self, WeightsError> {
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
        let mut opened =
            Self { dir: dir.into(), files: vec![], entries: BTreeMap::new(), finite: false, quantisation: None };
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
            let (file, dtype) = (usize::MAX, Dtype::F32);
            (spec.name, Entry { file, dtype, shape: spec.shape, offset: 0, bytes, interleaved_heads: None })
        };
        let entries = layout::tensors(config).into_iter().map(entry).collect();
        Self { dir: "random weights".into(), files: vec![], entries, finite: false, quantisation: None }
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
                interleaved_heads: None,
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

    /// Reads elements `range` of a tensor, widened to `f32`; the weight of a quantised module is its dequantised matrix.
    ///
    /// # Errors
    /// When the tensor is absent, no float, or the file cannot be read.
    pub fn read(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        match self.matrix(name)? {
            Some(matrix) => matrix.read_elements(range, out),
            None => self.read_floats(name, range, out),
        }
    }

    fn read_floats(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
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
        let entry = self.stored(name)?;
        let mut bytes = vec![0u8; entry.bytes];
        self.read_bytes(entry, entry.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn stored(&self, name: &str) -> Result<&Entry, WeightsError> {
        self.entries.get(name).ok_or_else(|| WeightsError::Mismatch {
            dir: self.dir.clone(),
            problems: Problems { missing: vec![name.into()], ..Problems::default() },
        })
    }

    /// The entry of a float tensor, and where in its file elements `range` begin.
    fn locate(&self, name: &str, range: &Range<usize>, room: usize) -> Result<(&Entry, u64), WeightsError> {
        let entry = self.stored(name)?;
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
        match entry.interleaved_heads {
            None => self.read_place(entry, offset, bytes),
            Some(heads) => self.read_interleaved(entry, heads, (offset - entry.offset) as usize, bytes),
        }
    }

    /// Fills `bytes` from `offset` of the file on.
    fn read_place(&self, entry: &Entry, offset: u64, bytes: &mut [u8]) -> Result<(), WeightsError> {
        let Some((path, file)) = self.files.get(entry.file) else {
            return Err(self.wrong(entry, "any", "drawn weights exist on a GPU only".into()));
        };
        read_at(file, bytes, offset).map_err(|source| WeightsError::Read { path: path.clone(), source })
    }
}
