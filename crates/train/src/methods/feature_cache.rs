//! Hidden states on disk: computed once, read in every epoch.
//!
//! A cache is a folder of safetensors files of some tens of megabytes and an `index.json` that names each with its
//! SHA-256. The files are safetensors rather than Parquet because conversations are read in a shuffled order, one at a
//! time. In a raw row-major tensor the states of one are a single range of bytes. No page has to be decoded.
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `states` | `F32`, `BF16` or `I8`, `[n, (hooks + 1) · d]` | states at the positions that are fitted to, conversation by conversation; hooked ones in front of those after the final norm |
//! | `scales` | `F32 [n, hooks + 1]`, with `I8` only | a state is its part of a row of `states` times this |
//! | `lengths` | `U32 [conversations]` | states of each conversation |
//!
//! Files appear whole, and the index names a file once it is written. So a kill costs one file's work at most.

use super::feature_format::FeatureFormat;
use super::hidden_states::hidden_states;
use super::windows::WindowStart;
use crate::error::{TrainError, io};
use crate::parameters::from_values;
use burn::tensor::{Device, Tensor};
use gorgon_data::shard::Row;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::read;
use gorgon_runs::RunError;
use gorgon_runs::provenance::{hash_bytes, hash_file};
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The list of a cache's files; it is written last.
pub const INDEX: &str = "index.json";
/// Bytes of states in a file, roughly.
const SHARD_BYTES: u64 = 64 << 20;

/// Which states to keep, and how.
#[derive(Clone, Debug)]
pub struct CacheRequest {
    /// The folder.
    pub folder: PathBuf,
    /// The number format.
    pub format: FeatureFormat,
    /// The source of the states. A cache of another source is refused.
    pub identity: Value,
    /// The states that are kept beside those after the final norm; part of the identity.
    pub hooks: Hooks,
    /// Bytes of states in a file, roughly.
    pub shard_bytes: u64,
}

impl CacheRequest {
    /// A request without hooks, with files of the usual size.
    pub fn new(folder: &Path, format: FeatureFormat, identity: Value) -> Self {
        Self { folder: folder.into(), format, identity, hooks: Hooks::none(), shard_bytes: SHARD_BYTES }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Index {
    identity: Value,
    shards: Vec<Written>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Written {
    file: String,
    states: u64,
    sha256: String,
}

/// A conversation's states: which of the files, and which rows there.
#[derive(Clone, Copy, Debug)]
struct Place {
    shard: usize,
    first: u64,
    states: usize,
}

/// A file of states.
#[derive(Clone, Debug)]
struct Shard {
    /// Conversations in it, of all.
    rows: Range<usize>,
    states: u64,
    /// Where its values begin.
    data: u64,
}

/// States on disk. With [`FeatureFormat::F32`] training is bitwise what it is without a cache.
pub struct FeatureCache {
    folder: PathBuf,
    format: FeatureFormat,
    hooks: Hooks,
    /// Values of a position: those of its hooked states and of its state.
    width: usize,
    /// States of a position, with a scale each.
    parts: usize,
    shards: Vec<Shard>,
    /// The conversations to fit to, then those to measure on.
    places: Vec<Place>,
    fitted: usize,
    /// Files that were damaged and have been computed again.
    pub mended: Vec<String>,
}

/// A hash of all tokens and positions whose states are kept.
pub fn digest(rows: [&[Row]; 2], positions: impl Fn(&Row) -> Vec<usize>) -> String {
    let mut digest = String::new();
    for row in rows.iter().flat_map(|rows| rows.iter()) {
        let mut bytes = digest.into_bytes();
        bytes.extend(row.example.ids.iter().flat_map(|id| id.to_le_bytes()));
        bytes.extend(positions(row).iter().flat_map(|&t| (t as u64).to_le_bytes()));
        digest = hash_bytes(&bytes);
    }
    digest
}

impl FeatureCache {
    /// Keeps states in `f32` in a folder. Their identity is a hash of the conversations.
    ///
    /// # Errors
    /// As [`Self::open_or_build`].
    pub fn build(
        folder: &Path,
        decoder: &Decoder,
        rows: [&[Row]; 2],
        positions: impl Fn(&Row) -> Vec<usize>,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Self, TrainError> {
        let request = CacheRequest::new(folder, FeatureFormat::F32, json!({"rows": digest(rows, &positions)}));
        Self::open_or_build(&request, decoder, rows, positions, observe)
    }

    /// Opens the files of a folder that are as they were written. Missing and damaged files are computed. `observe`
    /// gets the number of states after each file or conversation.
    ///
    /// # Errors
    /// When the folder holds states of something else, the backbone fails, or a file cannot be written.
    pub fn open_or_build(
        request: &CacheRequest,
        decoder: &Decoder,
        rows: [&[Row]; 2],
        positions: impl Fn(&Row) -> Vec<usize>,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Self, TrainError> {
        std::fs::create_dir_all(&request.folder).map_err(io(&request.folder))?;
        let all: Vec<&Row> = rows.iter().flat_map(|rows| rows.iter()).collect();
        let counts: Vec<usize> = all.iter().map(|row| positions(row).len()).collect();
        let mut cache = Self::plan(request, decoder.config().hidden_size, &counts, rows[0].len());
        let mut index = cache.known(request)?;
        for number in 0..cache.shards.len() {
            if let Err(damage) = cache.check(number, index.shards.get(number)) {
                cache.mended.extend(damage);
                let (rows, positions, counts) = (&all, &positions, &counts);
                let writing = Writing { decoder, hooks: &request.hooks, rows, positions, counts };
                let written = cache.write(number, &writing, observe)?;
                match index.shards.get_mut(number) {
                    Some(known) => *known = written,
                    None => index.shards.push(written),
                }
                cache.store(&index)?;
            } else {
                observe(cache.shards[number].states as usize);
            }
            cache.shards[number].data = data_start(&cache.path(number))?;
        }
        if index.shards.len() != cache.shards.len() {
            index.shards.truncate(cache.shards.len());
            cache.store(&index)?;
        }
        Ok(cache)
    }

    /// Which conversation goes into which file: whole ones, in their order.
    fn plan(request: &CacheRequest, hidden: usize, counts: &[usize], fitted: usize) -> Self {
        let parts = request.hooks.layers().len() + 1;
        let most = (request.shard_bytes / request.format.bytes(parts as u64, hidden)).max(1);
        let (mut shards, mut places) = (Vec::<Shard>::new(), vec![]);
        for (i, &states) in counts.iter().enumerate() {
            if shards.last().is_none_or(|shard| shard.states > 0 && shard.states + states as u64 > most) {
                shards.push(Shard { rows: i..i, states: 0, data: 0 });
            }
            let number = shards.len() - 1;
            let shard = &mut shards[number];
            places.push(Place { shard: number, first: shard.states, states });
            shard.states += states as u64;
            shard.rows.end = i + 1;
        }
        let (folder, format, hooks) = (request.folder.clone(), request.format, request.hooks.clone());
        Self { folder, format, hooks, width: parts * hidden, parts, shards, places, fitted, mended: vec![] }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(file_name(number))
    }

    /// The stored index, or an empty one.
    fn known(&mut self, request: &CacheRequest) -> Result<Index, TrainError> {
        let path = self.folder.join(INDEX);
        let mut identity = json!({"format": self.format.name(), "width": self.width, "of": request.identity});
        if self.parts > 1 {
            identity["taps"] = json!(self.hooks.layers());
        }
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Index { identity, shards: vec![] });
            }
            Err(error) => return Err(io(&path)(error)),
        };
        match gorgon_runs::json::read::<Index>(&text) {
            Ok(index) if index.identity == identity => Ok(index),
            Ok(index) => {
                let (was, is) = (index.identity, &identity);
                let reason = format!("it holds states of something else: {was}, not {is}; delete it or name another");
                Err(TrainError::Checkpoint { path: self.folder.clone(), reason })
            }
            Err(error) => {
                self.mended.push(format!("{}: {error}", path.display()));
                Ok(Index { identity, shards: vec![] })
            }
        }
    }

    /// Whether a file is as it was written. The error is the damage, or `None` if the file was never written.
    fn check(&self, number: usize, written: Option<&Written>) -> Result<(), Option<String>> {
        let Some(written) = written else { return Err(None) };
        let path = self.path(number);
        let damaged = |reason: String| Err(Some(format!("{}: {reason}", path.display())));
        if written.file != file_name(number) || written.states != self.shards[number].states {
            return damaged("the index describes other contents".into());
        }
        match hash_file(&path) {
            Ok(found) if found == written.sha256 => Ok(()),
            Ok(found) => damaged(format!("its SHA-256 is {found}, and {} when it was written", written.sha256)),
            Err(error) => damaged(error.to_string()),
        }
    }

    fn store(&self, index: &Index) -> Result<(), TrainError> {
        let path = self.folder.join(INDEX);
        let text = serde_json::to_string_pretty(index).map_err(|error| TrainError::Data(error.to_string()))?;
        gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes())).map_err(io(&path))
    }

    /// Computes and writes one file, a conversation at a time.
    fn write(&self, number: usize, from: &Writing<'_>, observe: &mut dyn FnMut(usize)) -> Result<Written, TrainError> {
        let (path, shard) = (self.path(number), &self.shards[number]);
        let states = shard.states as usize;
        let (scales, failed) = (RefCell::new(vec![]), RefCell::new(None));
        let observe = RefCell::new(observe);
        let fill = |file: &mut dyn Write| {
            for row in shard.rows.clone() {
                match from.compute(row) {
                    Ok(values) => {
                        scales.borrow_mut().extend(self.format.write(file, &values, self.width / self.parts)?)
                    }
                    Err(error) => {
                        *failed.borrow_mut() = Some(error);
                        return Err(std::io::Error::other("the backbone failed"));
                    }
                }
                (observe.borrow_mut())(from.counts[row]);
            }
            Ok(())
        };
        let source = |name: &str, dtype, shape, fill| Source { name: name.into(), dtype, shape, fill };
        let mut sources = vec![source("states", self.format.dtype(), vec![states, self.width], Box::new(fill))];
        if self.format == FeatureFormat::Int8 {
            let fill = |file: &mut dyn Write| write_f32(file, &scales.borrow());
            sources.push(source("scales", Dtype::F32, self.scale_shape(states), Box::new(fill)));
        }
        let lengths =
            from.counts[shard.rows.clone()].iter().flat_map(|&n| (n as u32).to_le_bytes()).collect::<Vec<_>>();
        let fill = move |file: &mut dyn Write| file.write_all(&lengths);
        sources.push(source("lengths", Dtype::U32, vec![shard.rows.len()], Box::new(fill)));
        let written = tensors::write(&path, &sources);
        drop(sources);
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        written.map_err(io(&path))?;
        let sha256 = hash_file(&path).map_err(io(&path))?;
        Ok(Written { file: file_name(number), states: shard.states, sha256 })
    }

    /// Bytes on the disk of the states at so many positions, each with so many hooks and `width` values a state.
    pub fn bytes(positions: usize, hooks: usize, width: usize, format: FeatureFormat) -> u64 {
        format.bytes((positions * (hooks + 1)) as u64, width)
    }

    /// The shape of the scales of so many positions.
    fn scale_shape(&self, positions: usize) -> Vec<usize> {
        if self.parts > 1 { vec![positions, self.parts] } else { vec![positions] }
    }

    /// Cuts the conversations to fit to into windows: each with its start and its number of states, which follow one
    /// another in its conversation's.
    ///
    /// # Errors
    /// When a window reaches beyond the states of its conversation.
    pub fn cut(&mut self, windows: &[(WindowStart, usize)]) -> Result<(), TrainError> {
        let of = |&(start, states): &(WindowStart, usize)| {
            let whole = self.places[..self.fitted].get(start.conversation).filter(|w| start.token + states <= w.states);
            let beyond = || TrainError::Data(format!("a window reaches beyond its conversation's states: {start:?}"));
            let whole = whole.ok_or_else(beyond)?;
            Ok(Place { first: whole.first + start.token as u64, states, ..*whole })
        };
        let cut = windows.iter().map(of).collect::<Result<Vec<_>, TrainError>>()?;
        self.places.splice(..self.fitted, cut);
        self.fitted = windows.len();
        Ok(())
    }

    /// The states that are kept beside those after the final norm.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Files.
    pub fn files(&self) -> usize {
        self.shards.len()
    }

    /// The states of a conversation, `[n, (hooks + 1) · d]`, in `f32`: one read of one range.
    pub(super) fn states(&self, held_out: bool, index: usize, device: &Device) -> Result<Tensor<2>, TrainError> {
        let Place { shard, first, states } = self.places[if held_out { self.fitted + index } else { index }];
        let (path, width) = (self.path(shard), self.width);
        let Shard { data, states: in_shard, .. } = self.shards[shard];
        let mut file = File::open(&path).map_err(io(&path))?;
        let mut range = |from: u64, bytes: u64| {
            let mut buffer = vec![0u8; bytes as usize];
            file.seek(SeekFrom::Start(data + from)).and_then(|_| file.read_exact(&mut buffer)).map(|()| buffer)
        };
        let size = self.format.bytes_per_value() * width as u64;
        let values = range(first * size, states as u64 * size).map_err(io(&path))?;
        let scales = match self.format {
            FeatureFormat::Int8 => {
                let scales = 4 * self.parts as u64;
                range(in_shard * size + first * scales, states as u64 * scales).map_err(io(&path))?
            }
            FeatureFormat::F32 | FeatureFormat::Bf16 => vec![],
        };
        let values = self.format.read(&values, &scales, width / self.parts);
        Ok(from_values(values, device).reshape([states, width]))
    }
}

/// The source of states while a file is written.
struct Writing<'a> {
    decoder: &'a Decoder,
    hooks: &'a Hooks,
    rows: &'a [&'a Row],
    positions: &'a dyn Fn(&Row) -> Vec<usize>,
    counts: &'a [usize],
}

impl Writing<'_> {
    fn compute(&self, row: usize) -> Result<Vec<f32>, TrainError> {
        let row = self.rows[row];
        let positions = (self.positions)(row);
        if positions.is_empty() {
            return Ok(vec![]);
        }
        let values = read(hidden_states(self.decoder, &row.example.ids, &positions, self.hooks)?);
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => {
                let message = format!("{} row {}: the backbone's states are not finite", row.shard, row.row);
                Err(TrainError::Data(message))
            }
        }
    }
}

fn file_name(number: usize) -> String {
    format!("features-{number:05}.safetensors")
}

/// Where the values of a safetensors file begin.
fn data_start(path: &Path) -> Result<u64, TrainError> {
    let mut length = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut length)).map_err(io(path))?;
    let header = u64::from_le_bytes(length);
    let size = path.metadata().map_err(io(path))?.len();
    if header.saturating_add(8) > size {
        let reason = format!("a header of {header} bytes in a file of {size}");
        return Err(TrainError::Run(RunError::Damaged { path: path.into(), reason }));
    }
    Ok(8 + header)
}
