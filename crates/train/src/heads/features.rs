//! Hidden states of the frozen backbone: computed in process, and kept on disk if asked to.

use crate::error::{TrainError, io};
use crate::parameters::from_values;
use burn::tensor::{DType, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_data::shard::Row;
use gorgon_kernels::tree_attention::Visible;
use gorgon_model::decoder::Decoder;
use gorgon_model::taps::Taps;
use gorgon_model::target::read;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Tokens per forward pass of a long conversation.
const CHUNK: usize = 512;

/// Where hidden states come from.
pub struct Features {
    /// The backbone.
    pub decoder: Arc<Decoder>,
    /// States that were computed before.
    pub cache: Option<FeatureCache>,
}

impl Features {
    /// The states after the final norm at some positions of a conversation, which is read alone: nothing of another one
    /// can reach it.
    ///
    /// # Shapes
    /// `[positions, d]`, in `f32`.
    ///
    /// # Errors
    /// When the backbone fails or the cache cannot be read.
    pub fn states(
        &self,
        row: &Row,
        held_out: bool,
        index: usize,
        positions: &[usize],
    ) -> Result<Tensor<2>, TrainError> {
        self.tapped(row, held_out, index, positions, &Taps::none())
    }

    /// The same with tapped states in front of them, side by side.
    ///
    /// # Shapes
    /// `[positions, (taps + 1) · d]`, in `f32`.
    ///
    /// # Errors
    /// As of [`Self::states`].
    pub fn tapped(
        &self,
        row: &Row,
        held_out: bool,
        index: usize,
        positions: &[usize],
        taps: &Taps,
    ) -> Result<Tensor<2>, TrainError> {
        match &self.cache {
            Some(cache) => cache.states(held_out, index, &self.decoder),
            None => self.compute(&row.example.ids, positions, taps),
        }
    }

    fn compute(&self, ids: &[Token], positions: &[usize], taps: &Taps) -> Result<Tensor<2>, TrainError> {
        let failed = |error: gorgon_model::decoder::ModelError| TrainError::Data(error.to_string());
        let last = positions.iter().max().map_or(0, |last| last + 1);
        let mut cache = self.decoder.new_cache(last);
        let mut parts = vec![];
        for chunk in ids[..last].chunks(CHUNK) {
            cache.reserve(chunk.len()).map_err(|error| TrainError::Data(error.to_string()))?;
            let visible = Visible::Causal { rows: chunk.len() };
            let output = self.decoder.forward(chunk, &visible, &mut cache, taps).map_err(failed)?;
            let all: Vec<usize> = (0..chunk.len()).collect();
            cache.commit(&all).map_err(|error| TrainError::Data(error.to_string()))?;
            parts.push(match output.taps.is_empty() {
                true => output.hidden,
                false => Tensor::cat(output.taps.into_iter().chain([output.hidden]).collect(), 2),
            });
        }
        let hidden = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) };
        let index: Vec<i32> = positions.iter().map(|&t| t as i32).collect();
        let n = index.len();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &hidden.device());
        let [_, rows, d] = hidden.dims();
        Ok(hidden.reshape([rows, d]).select(0, index).cast(DType::F32))
    }
}

/// States on disk, in `f32`, so that training with them is bitwise the same as without.
pub struct FeatureCache {
    path: PathBuf,
    file: Mutex<File>,
    /// Values of a position.
    width: usize,
    /// First state and number of states of each conversation: those to fit to, then those to measure on.
    rows: [Vec<(u64, usize)>; 2],
}

impl FeatureCache {
    /// Bytes that `positions` positions of `width` values take.
    pub fn bytes(positions: usize, width: usize) -> u64 {
        positions as u64 * width as u64 * 4
    }

    /// Computes the states of all conversations and writes them to `path`; a whole file of the right size is taken as it
    /// is.
    ///
    /// # Errors
    /// When the backbone fails or the file cannot be written.
    pub fn build(
        path: &Path,
        features: &Features,
        rows: [&[Row]; 2],
        positions: impl Fn(&Row) -> Vec<usize>,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Self, TrainError> {
        Self::build_tapped(path, features, &Taps::none(), rows, positions, observe)
    }

    /// The same with tapped states in front of them, as [`Features::tapped`] has them.
    ///
    /// # Errors
    /// As of [`Self::build`].
    pub fn build_tapped(
        path: &Path,
        features: &Features,
        taps: &Taps,
        rows: [&[Row]; 2],
        positions: impl Fn(&Row) -> Vec<usize>,
        observe: &mut dyn FnMut(usize),
    ) -> Result<Self, TrainError> {
        let width = features.decoder.config().hidden_size * (taps.layers().len() + 1);
        let mut next = 0u64;
        let places = rows.map(|rows| {
            let place = |row: &Row| {
                let n = positions(row).len();
                let first = next;
                next += n as u64;
                (first, n)
            };
            rows.iter().map(place).collect::<Vec<_>>()
        });
        let bytes = next * width as u64 * 4;
        if path.metadata().map(|there| there.len()).ok() != Some(bytes) {
            let mut failed = None;
            let written = gorgon_runs::atomic::write(path, |file| {
                for row in rows.iter().flat_map(|rows| rows.iter()) {
                    let positions = positions(row);
                    if positions.is_empty() {
                        continue;
                    }
                    match features.compute(&row.example.ids, &positions, taps) {
                        Ok(states) => gorgon_runs::tensors::write_f32(file, &read(states))?,
                        Err(error) => {
                            failed = Some(error);
                            return Err(std::io::Error::other("the backbone failed"));
                        }
                    }
                    observe(positions.len());
                }
                Ok(())
            });
            if let Some(error) = failed {
                return Err(error);
            }
            written.map_err(io(path))?;
        }
        let file = Mutex::new(File::open(path).map_err(io(path))?);
        Ok(Self { path: path.into(), file, width, rows: places })
    }

    fn states(&self, held_out: bool, index: usize, decoder: &Decoder) -> Result<Tensor<2>, TrainError> {
        let width = self.width;
        let (first, n) = self.rows[usize::from(held_out)][index];
        let mut bytes = vec![0u8; n * width * 4];
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(first * width as u64 * 4)).and_then(|_| file.read_exact(&mut bytes));
        read.map_err(io(&self.path))?;
        drop(file);
        let values = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(from_values(values, decoder.compute().device()).reshape([n, width]))
    }
}
