//! Safetensors files, written as a stream: no copy of the data, and whole or absent like every file.

use crate::atomic;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensorError};
use std::io::{self, Write};
use std::path::Path;

/// Writes a tensor's values.
pub type Fill<'a> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'a;

/// A tensor to be written.
pub struct Source<'a> {
    /// Its name.
    pub name: String,
    /// Its number format.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Writes its values, row-major and little-endian: exactly as many bytes as shape and format say.
    pub fill: Box<Fill<'a>>,
}

/// A tensor as its bytes, of any number format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its number format.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values, row-major and little-endian.
    pub bytes: Vec<u8>,
}

impl Stored {
    /// To be written.
    pub fn source(&self) -> Source<'_> {
        let fill = Box::new(|file: &mut dyn Write| file.write_all(&self.bytes));
        Source { name: self.name.clone(), dtype: self.dtype, shape: self.shape.clone(), fill }
    }
}

/// Writes the tensors in the order given.
///
/// # Errors
/// When the file cannot be written, a size overflows, or a source writes another number of bytes than its shape says.
pub fn write(path: &Path, sources: &[Source<'_>]) -> io::Result<()> {
    let mut infos = vec![];
    let mut end = 0usize;
    for source in sources {
        let overflow = || io::Error::other(format!("{}: its size overflows", source.name));
        let bytes = source.bytes().ok_or_else(overflow)?;
        let next = end.checked_add(bytes).ok_or_else(overflow)?;
        let info = TensorInfo { dtype: source.dtype, shape: source.shape.clone(), data_offsets: (end, next) };
        end = next;
        infos.push((source.name.clone(), info));
    }
    let wrong = |error: SafeTensorError| io::Error::other(error.to_string());
    let mut header = serde_json::to_vec(&Metadata::new(None, infos).map_err(wrong)?)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    atomic::write(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for source in sources {
            let mut counted = Counted { inner: file, bytes: 0 };
            (source.fill)(&mut counted)?;
            if Some(counted.bytes) != source.bytes() {
                return Err(io::Error::other(format!("{}: {} bytes were written", source.name, counted.bytes)));
            }
        }
        Ok(())
    })
}

/// Writes `f32` values, little-endian.
///
/// # Errors
/// When the writer fails.
pub fn write_f32(file: &mut dyn Write, values: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * values.len().min(1 << 14));
    for part in values.chunks(1 << 14) {
        bytes.clear();
        bytes.extend(part.iter().flat_map(|value| value.to_le_bytes()));
        file.write_all(&bytes)?;
    }
    Ok(())
}

impl Source<'_> {
    fn bytes(&self) -> Option<usize> {
        let elements = self.shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
        Some(elements.checked_mul(self.dtype.bitsize())? / 8)
    }
}

struct Counted<'a> {
    inner: &'a mut dyn Write,
    bytes: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.bytes += n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
