//! Safetensors headers, checked before anything is allocated for the contents.

use super::bytes::read_at;
use safetensors::tensor::Metadata;
use std::fs::File;

/// Why a header cannot be used.
pub(super) enum HeaderError {
    /// Error of the operating system.
    Io(std::io::Error),
    /// Reason why it is refused.
    Bad(String),
}

/// Reads and checks a safetensors header; returns it with the offset of the tensor data.
pub(super) fn read_header(file: &File, length: u64) -> Result<(Metadata, u64), HeaderError> {
    const LIMIT: u64 = 100_000_000;
    let bad = |reason: String| Err(HeaderError::Bad(reason));
    if length < 8 {
        return bad(format!("{length} bytes long, too short for a header"));
    }
    let mut size = [0u8; 8];
    read_at(file, &mut size, 0).map_err(HeaderError::Io)?;
    let size = u64::from_le_bytes(size);
    if size > LIMIT || size > length - 8 {
        return bad(format!("the header claims {size} bytes, but the file has {length}"));
    }
    let mut header = vec![0u8; size as usize];
    read_at(file, &mut header, 8).map_err(HeaderError::Io)?;
    // The crate checks that offsets are in order without gaps or overlaps and that they fit shapes and types.
    let metadata: Metadata =
        gorgon_runs::json::read(&header).map_err(|error| HeaderError::Bad(format!("header: {error}")))?;
    let data = metadata.tensors().values().map(|info| info.data_offsets.1 as u64).max().unwrap_or(0);
    let held = length - 8 - size;
    if data > held {
        return bad(format!("truncated: the header describes {data} bytes of tensors, the file holds {held}"));
    }
    if data < held {
        return bad(format!("{} bytes follow the last tensor", held - data));
    }
    Ok((metadata, 8 + size))
}
