//! Numbers and texts from the head of a file, none of them longer than the file.

use std::fs::File;
use std::io::{BufReader, Read};

/// Why a value cannot be read.
pub enum ReadError {
    /// Error of the operating system.
    Io(std::io::Error),
    /// Reason why the file is refused.
    Bad(String),
}

impl From<String> for ReadError {
    fn from(reason: String) -> Self {
        ReadError::Bad(reason)
    }
}

/// Bytes of metadata and of the list of tensors at most. Published files have less than 32 MiB.
const MOST: u64 = 256 << 20;

/// A position in the head of a file.
pub struct Reader {
    file: BufReader<File>,
    at: u64,
    length: u64,
}

impl Reader {
    /// The start of a file of `length` bytes.
    pub fn new(file: File, length: u64) -> Self {
        Self { file: BufReader::new(file), at: 0, length }
    }

    /// Bytes that were read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Fails unless `count` things of at least `each` bytes can follow.
    pub fn check_room(&self, what: &str, count: u64, each: u64) -> Result<usize, ReadError> {
        let left = self.length.min(MOST) - self.at;
        match count.checked_mul(each).filter(|bytes| *bytes <= left) {
            Some(_) => usize::try_from(count).map_err(|_| ReadError::Bad(format!("{count} {what}"))),
            None if left < self.length - self.at => {
                Err(format!("{count} {what}: the metadata would be longer than {MOST} bytes").into())
            }
            None => Err(format!("it claims {count} {what} where {left} bytes are left").into()),
        }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, what: &str, count: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0u8; self.check_room(what, count, 1)?];
        self.file.read_exact(&mut bytes).map_err(ReadError::Io)?;
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        self.check_room("bytes", N as u64, 1)?;
        let mut bytes = [0u8; N];
        self.file.read_exact(&mut bytes).map_err(ReadError::Io)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, ReadError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A whole number of `bytes` bytes, widened with its sign where it has one.
    pub fn integer(&mut self, bytes: usize, signed: bool) -> Result<i128, ReadError> {
        let value = match bytes {
            1 => u64::from(self.array::<1>()?[0]),
            2 => u64::from(u16::from_le_bytes(self.array()?)),
            4 => u64::from(self.u32()?),
            _ => self.u64()?,
        };
        let shift = 64 - 8 * bytes as u32;
        Ok(if signed { i128::from(((value << shift) as i64) >> shift) } else { i128::from(value) })
    }

    /// A text: its length, then its bytes in UTF-8.
    pub fn text(&mut self, what: &str) -> Result<String, ReadError> {
        let length = self.u64()?;
        let bytes = self.bytes(&format!("bytes of {what}"), length)?;
        String::from_utf8(bytes).map_err(|_| ReadError::Bad(format!("{what} is no UTF-8")))
    }
}
