//! GGUF files as checkpoints.

use super::{Checkpoint, Entry, WeightsError};
use crate::quantisation::Quantisation;
use gorgon_gguf::kind::Kind;
use gorgon_gguf::{Gguf, names};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

impl Checkpoint {
    /// Opens a GGUF file: its tensors under their names in a Hugging Face folder, those of blocks as bytes.
    pub(super) fn open_gguf(path: &Path, quantisation: Option<Arc<Quantisation>>) -> Result<Self, WeightsError> {
        let gguf = Gguf::open(path)?;
        let mut entries = BTreeMap::new();
        for named in names::named(&gguf).map_err(|reason| gguf.invalid(reason))? {
            let mut shape = named.tensor.shape.clone();
            let dtype = match named.tensor.kind {
                Kind::F32 => Dtype::F32,
                Kind::F16 => Dtype::F16,
                Kind::Bf16 => Dtype::BF16,
                _ => {
                    if let Some(row) = shape.last_mut() {
                        *row = named.tensor.row_bytes();
                    }
                    Dtype::U8
                }
            };
            let (offset, bytes) = (named.tensor.offset, named.tensor.bytes);
            let entry = Entry { file: 0, dtype, shape, offset, bytes, interleaved_heads: named.interleaved_heads };
            if entries.insert(named.name.clone(), entry).is_some() {
                return Err(gguf.invalid(format!("tensor {} is there twice", named.name)).into());
            }
        }
        tracing::debug!(file = %path.display(), tensors = entries.len(), "GGUF file opened");
        let files = vec![(path.to_path_buf(), gguf.reopen()?)];
        Ok(Self { dir: path.into(), files, entries, finite: false, quantisation })
    }

    /// Fills `bytes` with those from byte `from` on of a tensor whose heads' rows are interleaved: row `i · D/2 + j` of a
    /// head of `D` rows is stored as row `2j + i`.
    pub(super) fn read_interleaved(
        &self,
        entry: &Entry,
        heads: usize,
        mut from: usize,
        mut bytes: &mut [u8],
    ) -> Result<(), WeightsError> {
        let rows = entry.shape.first().copied().unwrap_or(0);
        let half = (rows / heads / 2).max(1);
        let row_bytes = (entry.bytes / rows.max(1)).max(1);
        while !bytes.is_empty() {
            let (row, within) = (from / row_bytes, from % row_bytes);
            let (head, place) = (row / (2 * half), row % (2 * half));
            let stored = head * 2 * half + 2 * (place % half) + place / half;
            let (first, rest) = bytes.split_at_mut((row_bytes - within).min(bytes.len()));
            from += first.len();
            self.read_place(entry, entry.offset + (stored * row_bytes + within) as u64, first)?;
            bytes = rest;
        }
        Ok(())
    }
}
