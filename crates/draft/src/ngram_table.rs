//! The table of n-grams beside draft heads: `ngrams.safetensors`.

use gorgon_core::tree::{NgramEntries, NgramTable};
use gorgon_runs::tensors::{self, Stored};
use safetensors::{Dtype, SafeTensors};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Its name in a folder of heads.
pub const FILE: &str = "ngrams.safetensors";
/// The largest one that is read.
const MOST_BYTES: u64 = 256 << 20;

/// Writes the table into a folder of heads: hashes as `U64`, counts as `U32`, and the numbers of tokens in all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(folder: &Path, table: &NgramTable) -> Result<()> {
    let NgramEntries { counts, followed, tokens, different } = table.entries();
    let u64s = |name: &str, values: Vec<u64>| Stored {
        name: name.into(),
        dtype: Dtype::U64,
        shape: vec![values.len()],
        bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    let u32s = |name: &str, entries: &[(u64, u32)]| Stored {
        name: name.into(),
        dtype: Dtype::U32,
        shape: vec![entries.len()],
        bytes: entries.iter().flat_map(|(_, count)| count.to_le_bytes()).collect(),
    };
    let hashes = |entries: &[(u64, u32)]| entries.iter().map(|(hash, _)| *hash).collect();
    let stored = [
        u64s("runs", hashes(&counts)),
        u32s("runs.counts", &counts),
        u64s("contexts", hashes(&followed)),
        u32s("contexts.counts", &followed),
        u64s("tokens", vec![tokens, different]),
    ];
    let sources: Vec<_> = stored.iter().map(Stored::source).collect();
    tensors::write(&folder.join(FILE), &sources)
}

/// The table in a folder of heads, if there is one.
///
/// # Errors
/// When the file cannot be read, or holds something else.
pub fn read(folder: &Path) -> Result<Option<Arc<NgramTable>>> {
    let bytes = match gorgon_runs::file::read(&folder.join(FILE), MOST_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let wrong = |reason: String| Error::new(ErrorKind::InvalidData, reason);
    let file = SafeTensors::deserialize(&bytes).map_err(|error| wrong(error.to_string()))?;
    let tensor = |name: &str, dtype: Dtype| {
        let found = file.tensor(name).map_err(|_| wrong(format!("tensor {name} is missing")))?;
        match found.dtype() == dtype && found.shape().len() == 1 {
            true => Ok(found.data().to_vec()),
            false => {
                Err(wrong(format!("tensor {name} is {:?} {:?}, expected {dtype:?} [N]", found.dtype(), found.shape())))
            }
        }
    };
    let u64s = |name: &str| {
        let bytes = tensor(name, Dtype::U64)?;
        Ok::<Vec<u64>, Error>(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    };
    let entries = |name: &str| {
        let counts = tensor(&format!("{name}.counts"), Dtype::U32)?;
        let counts = counts.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        Ok::<Vec<(u64, u32)>, Error>(u64s(name)?.into_iter().zip(counts).collect())
    };
    let totals = u64s("tokens")?;
    let [tokens, different] = totals[..] else {
        return Err(wrong(format!("tensor tokens has {} numbers, expected 2", totals.len())));
    };
    let (counts, followed) = (entries("runs")?, entries("contexts")?);
    Ok(Some(NgramTable::from_entries(&NgramEntries { counts, followed, tokens, different })))
}

#[cfg(test)]
mod tests;
