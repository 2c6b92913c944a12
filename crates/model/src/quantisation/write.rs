//! Weights in integers, written tensor by tensor.
//!
//! A matrix becomes `weight_packed` i32 `[out, ceil(in · bits / 32)]`, `weight_scale` `[out, groups]` in the matrix's own
//! number format, and `weight_shape` i64 `[2]`. All other tensors are copied. Memory holds one matrix at a time, and the
//! scales of one file.

use super::bits;
use super::plan::{Plan, PlannedMatrix};
use crate::weight_rows::WeightRows;
use crate::weights::{Checkpoint, Entry};
use gorgon_kernels::quantised_matmul::Rounded;
use gorgon_runs::atomic;
use gorgon_runs::tensors::{self, Source};
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Why weights were not written: a tensor that cannot be read or rounded, or the file.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct WriteError {
    /// The file that was being written.
    pub path: PathBuf,
    /// The error; one of the operating system, or about a tensor.
    pub source: io::Error,
}

/// Rounding errors of all matrices of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KindErrors {
    /// Matrices.
    pub matrices: usize,
    /// Their weights.
    pub weights: usize,
    /// Inputs of a scale; `None` for all of a row.
    pub group: Option<usize>,
    /// `Σ (w - w')²`, `w'` the weight as it is read back.
    pub squared_error: f64,
    /// `Σ w²`.
    pub squared_weights: f64,
}

impl KindErrors {
    /// `sqrt(Σ (w - w')² / Σ w²)`.
    pub fn relative(&self) -> f64 {
        if self.squared_weights > 0.0 { (self.squared_error / self.squared_weights).sqrt() } else { 0.0 }
    }
}

/// Files, sizes and errors of weights that were written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files of weights.
    pub files: Vec<String>,
    /// Bytes of tensors.
    pub bytes: usize,
    /// Bytes of the codes, scales and shapes among them.
    pub quantised_bytes: usize,
    /// Rounding errors by kind of matrix and size of group.
    pub kinds: BTreeMap<(String, Option<usize>), KindErrors>,
    /// Seconds that reading and rounding took.
    pub rounding_seconds: f64,
}

/// Tensors that go into one file together.
#[derive(Clone, Copy)]
enum Unit<'a> {
    Stored(&'a str, &'a Entry),
    Matrix(&'a PlannedMatrix),
}

/// Is told each tensor that was read and its bytes in the checkpoint; an error ends the work.
pub type Progress<'a> = dyn Fn(&str, u64) -> io::Result<()> + 'a;

/// Work on all files.
struct Work<'a> {
    plan: &'a Plan,
    checkpoint: &'a Checkpoint,
    progress: &'a Progress<'a>,
    /// Scales of matrices whose codes were written.
    scales: RefCell<HashMap<&'a str, Vec<f32>>>,
    kinds: RefCell<BTreeMap<(String, Option<usize>), KindErrors>>,
    seconds: Cell<f64>,
}

impl Plan {
    /// Writes the weights of a checkpoint into a folder: `model.safetensors`, or shards of at most `largest_file` bytes
    /// of tensors with an index.
    ///
    /// # Errors
    /// When a tensor cannot be read or is not finite, a file cannot be written, or `progress` fails.
    pub fn write(
        &self,
        checkpoint: &Checkpoint,
        out: &Path,
        largest_file: usize,
        progress: &Progress<'_>,
    ) -> Result<Written, WriteError> {
        let (scales, kinds, seconds) = (RefCell::default(), RefCell::default(), Cell::new(0.0));
        let work = Work { plan: self, checkpoint, progress, scales, kinds, seconds };
        let files = work.files(largest_file);
        let mut written = Written::default();
        let mut map = serde_json::Map::new();
        for (index, units) in files.iter().enumerate() {
            let name = match files.len() {
                1 => "model.safetensors".to_owned(),
                count => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
            };
            let mut sources: Vec<Source<'_>> = units.iter().flat_map(|unit| work.sources(*unit)).collect();
            // Every tensor begins at a multiple of its numbers' size. Scales stay behind their codes.
            sources.sort_by_key(|source| Reverse(source.dtype.bitsize()));
            map.extend(sources.iter().map(|source| (source.name.clone(), name.clone().into())));
            let path = out.join(&name);
            tensors::write(&path, &sources).map_err(|source| WriteError { path, source })?;
            written.bytes += units.iter().map(|unit| work.bytes(*unit)).sum::<usize>();
            written.files.push(name);
        }
        if files.len() > 1 {
            index(&out.join("model.safetensors.index.json"), written.bytes, map)?;
        }
        written.quantised_bytes = self.matrices.iter().map(|matrix| work.bytes(Unit::Matrix(matrix))).sum();
        written.rounding_seconds = work.seconds.get();
        written.kinds = work.kinds.into_inner();
        Ok(written)
    }

    fn words(&self, matrix: &PlannedMatrix) -> usize {
        bits::words(matrix.shape[1], self.scheme.bits.bits() as u32)
    }
}

/// Writes the index of shards.
fn index(path: &Path, bytes: usize, map: serde_json::Map<String, serde_json::Value>) -> Result<(), WriteError> {
    let index = json!({"metadata": {"total_size": bytes}, "weight_map": map});
    let write = |file: &mut dyn Write| Ok(serde_json::to_writer_pretty(file, &index)?);
    atomic::write(path, write).map_err(|source| WriteError { path: path.into(), source })
}

impl<'a> Work<'a> {
    /// All tensors, divided into files.
    fn files(&self, largest: usize) -> Vec<Vec<Unit<'a>>> {
        let matrices: HashMap<String, &PlannedMatrix> =
            self.plan.matrices.iter().map(|matrix| (format!("{}.weight", matrix.module), matrix)).collect();
        let mut files = vec![vec![]];
        let mut size = 0;
        for (name, entry) in self.checkpoint.entries() {
            let unit = matrices.get(name).map_or(Unit::Stored(name, entry), |matrix| Unit::Matrix(matrix));
            let bytes = self.bytes(unit);
            if size > 0 && size + bytes > largest {
                files.push(vec![]);
                size = 0;
            }
            size += bytes;
            if let Some(last) = files.last_mut() {
                last.push(unit);
            }
        }
        files
    }

    fn bytes(&self, unit: Unit<'_>) -> usize {
        match unit {
            Unit::Stored(_, entry) => entry.bytes(),
            Unit::Matrix(matrix) => {
                matrix.shape[0] * (4 * self.plan.words(matrix) + matrix.groups() * matrix.dtype.bitsize() / 8) + 16
            }
        }
    }

    /// The tensors of a unit, to be written.
    fn sources<'s>(&'s self, unit: Unit<'a>) -> Vec<Source<'s>> {
        match unit {
            Unit::Stored(name, entry) => {
                let fill = Box::new(move |file: &mut dyn Write| {
                    file.write_all(&self.checkpoint.read_stored(name).map_err(io::Error::other)?)?;
                    (self.progress)(name, entry.bytes() as u64)
                });
                vec![Source { name: name.into(), dtype: entry.dtype, shape: entry.shape.clone(), fill }]
            }
            Unit::Matrix(matrix) => {
                let name = |suffix: &str| format!("{}.{suffix}", matrix.module);
                let [d_out, d_in] = matrix.shape;
                let shape = Box::new(move |file: &mut dyn Write| {
                    [d_out, d_in].iter().try_for_each(|&size| file.write_all(&(size as i64).to_le_bytes()))
                });
                let codes = Box::new(move |file: &mut dyn Write| self.write_codes(matrix, file));
                let scales = Box::new(move |file: &mut dyn Write| self.write_scales(matrix, file));
                let (words, groups) = (vec![d_out, self.plan.words(matrix)], vec![d_out, matrix.groups()]);
                vec![
                    Source { name: name("weight_packed"), dtype: Dtype::I32, shape: words, fill: codes },
                    Source { name: name("weight_scale"), dtype: matrix.dtype, shape: groups, fill: scales },
                    Source { name: name("weight_shape"), dtype: Dtype::I64, shape: vec![2], fill: shape },
                ]
            }
        }
    }

    /// Rounds a matrix and writes its codes. Its scales are kept.
    fn write_codes(&self, matrix: &'a PlannedMatrix, file: &mut dyn Write) -> io::Result<()> {
        let begun = Instant::now();
        let names = [format!("{}.weight", matrix.module)];
        let rows = WeightRows::new(self.checkpoint, &names).map_err(io::Error::other)?;
        let [d_out, d_in] = matrix.shape;
        let rounded = matrix.rounding(self.plan.scheme).round(d_in, d_out, &rows);
        let rounded = rounded.map_err(|error| io::Error::other(rows.error(error)))?;
        self.seconds.set(self.seconds.get() + begun.elapsed().as_secs_f64());
        let mut stream = vec![0u8; 4 * self.plan.words(matrix)];
        for codes in rounded.values.chunks_exact(d_in) {
            bits::pack(codes, self.plan.scheme.bits.bits() as u32, &mut stream);
            file.write_all(&stream)?;
        }
        self.count(matrix, &rounded);
        self.scales.borrow_mut().insert(&matrix.module, rounded.codes.scales);
        let size = self.checkpoint.entries().get(&names[0]).map_or(0, Entry::bytes);
        (self.progress)(&names[0], size as u64)
    }

    fn count(&self, matrix: &PlannedMatrix, rounded: &Rounded) {
        let mut kinds = self.kinds.borrow_mut();
        let kind = kinds.entry((matrix.kind().to_owned(), matrix.group)).or_default();
        kind.matrices += 1;
        kind.weights += matrix.weights();
        kind.group = matrix.group;
        kind.squared_error += rounded.squared_error;
        kind.squared_weights += rounded.squared_weights;
    }

    /// Writes the scales `[out, groups]` of a matrix whose codes were written.
    fn write_scales(&self, matrix: &PlannedMatrix, file: &mut dyn Write) -> io::Result<()> {
        let scales = self.scales.borrow_mut().remove(matrix.module.as_str()).unwrap_or_default();
        let bytes: Vec<u8> = match matrix.dtype {
            Dtype::F16 => scales.iter().flat_map(|&scale| f16::from_f32(scale).to_le_bytes()).collect(),
            Dtype::BF16 => scales.iter().flat_map(|&scale| bf16::from_f32(scale).to_le_bytes()).collect(),
            _ => scales.iter().flat_map(|scale| scale.to_le_bytes()).collect(),
        };
        file.write_all(&bytes)
    }
}
