//! The head of a file: metadata, and where tensors lie.

use crate::error::GgufError;
use crate::kind::Kind;
use crate::reader::{ReadError, Reader};
use crate::value::{Metadata, Value, quoted};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A parsed file.
#[derive(Debug)]
pub struct Gguf {
    path: PathBuf,
    /// Values by their keys.
    pub metadata: Metadata,
    /// Tensors by their names in the file.
    pub tensors: BTreeMap<String, Tensor>,
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Storage type.
    pub kind: Kind,
    /// Shape, the size of a row last.
    pub shape: Vec<usize>,
    /// First byte within the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: usize,
}

impl Tensor {
    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.shape.last().copied().unwrap_or(0) / self.kind.block() * self.kind.block_bytes()
    }
}

const MAGIC: u32 = u32::from_le_bytes(*b"GGUF");
const ALIGNMENT: &str = "general.alignment";
/// The longest name of a tensor or key. The format allows 64 and 65535 bytes.
const LONGEST_NAME: usize = 1024;

impl Gguf {
    /// Opens a file and checks its head.
    ///
    /// # Errors
    /// When it cannot be read, is no GGUF file of version 2 or 3, has tensors of types that are not supported, or its
    /// tensors overlap or lie outside the file.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let read = |source| GgufError::Read { path: path.into(), source };
        let file = gorgon_runs::file::open(path).map_err(read)?;
        let length = file.metadata().map_err(read)?.len();
        match parse(Reader::new(file, length), length) {
            Ok((metadata, tensors)) => Ok(Self { path: path.into(), metadata, tensors }),
            Err(ReadError::Io(source)) => Err(read(source)),
            Err(ReadError::Bad(reason)) => {
                Err(GgufError::Invalid { path: path.into(), reason: format!("not a valid GGUF file: {reason}") })
            }
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error about this file.
    pub fn invalid(&self, reason: impl Into<String>) -> GgufError {
        GgufError::Invalid { path: self.path.clone(), reason: reason.into() }
    }

    /// Opens the file for reading tensors.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn reopen(&self) -> Result<File, GgufError> {
        gorgon_runs::file::open(&self.path).map_err(|source| GgufError::Read { path: self.path.clone(), source })
    }
}

type Head = (Metadata, BTreeMap<String, Tensor>);

fn parse(mut reader: Reader, length: u64) -> Result<Head, ReadError> {
    let magic = reader.u32()?;
    if magic != MAGIC {
        return Err(format!("it begins with the bytes {:02x?}, not with GGUF", magic.to_le_bytes()).into());
    }
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        let big = if (2..=3).contains(&version.swap_bytes()) { " (big-endian)" } else { "" };
        return Err(format!("version {version}{big} is not supported; supported: 2 and 3").into());
    }
    let (tensors, values) = (reader.u64()?, reader.u64()?);
    // A value has a key's length, a type and a byte at least; a tensor a name's length, dimensions, type and place.
    let values = reader.check_room("values", values, 13)?;
    let mut metadata = Metadata::default();
    for _ in 0..values {
        let key = name(&mut reader, "key")?;
        let value = Value::read(&mut reader, &key)?;
        if metadata.0.insert(key.clone(), value).is_some() {
            return Err(format!("the key {} is there twice", quoted(&key)).into());
        }
    }
    if let Some(count @ 2..) = metadata.count("split.count")? {
        return Err(format!("it is one of {count} parts; merge them first (llama-gguf-split --merge)").into());
    }
    let alignment = metadata.count(ALIGNMENT)?.unwrap_or(32);
    if !alignment.is_power_of_two() || alignment > 1 << 20 {
        return Err(format!("{ALIGNMENT} is {alignment}; a power of two up to 1048576 is expected").into());
    }
    let count = reader.check_room("tensors", tensors, 24)?;
    let mut list = Vec::new();
    for _ in 0..count {
        let name = name(&mut reader, "name of a tensor")?;
        let tensor = tensor(&mut reader, alignment).map_err(|error| match error {
            ReadError::Bad(reason) => ReadError::Bad(format!("tensor {}: {reason}", quoted(&name))),
            error => error,
        })?;
        list.push((name, tensor));
    }
    let start = reader.position().next_multiple_of(alignment);
    Ok((metadata, placed(list, start, length)?))
}

fn name(reader: &mut Reader, what: &str) -> Result<String, ReadError> {
    let text = reader.text(what)?;
    if text.is_empty() || text.len() > LONGEST_NAME || text.chars().any(char::is_control) {
        return Err(format!("{} is no {what}", quoted(&text)).into());
    }
    Ok(text)
}

/// A tensor whose place counts from the first byte of all tensors.
fn tensor(reader: &mut Reader, alignment: u64) -> Result<Tensor, ReadError> {
    const MOST: u64 = 1 << 41;
    let dimensions = reader.u32()?;
    if !(1..=4).contains(&dimensions) {
        return Err(format!("{dimensions} dimensions; 1 to 4 are expected").into());
    }
    let mut shape = vec![];
    let mut elements = 1u64;
    for _ in 0..dimensions {
        let size = reader.u64()?;
        let product = elements.checked_mul(size).filter(|product| (1..=MOST).contains(product));
        elements = product.ok_or_else(|| format!("dimensions {shape:?} and {size} are absurd"))?;
        shape.push(usize::try_from(size).map_err(|_| format!("a dimension of {size}"))?);
    }
    let kind = Kind::of_number(reader.u32()?)?;
    let offset = reader.u64()?;
    if !shape[0].is_multiple_of(kind.block()) {
        let (width, block) = (shape[0], kind.block());
        return Err(
            format!("rows of {width} are no multiple of the {block} numbers of a block of {}", kind.name()).into()
        );
    }
    if !offset.is_multiple_of(alignment) {
        return Err(format!("its place {offset} is no multiple of {alignment}").into());
    }
    shape.reverse();
    let bytes = elements / kind.block() as u64 * kind.block_bytes() as u64;
    let bytes = usize::try_from(bytes).map_err(|_| format!("{bytes} bytes"))?;
    Ok(Tensor { kind, shape, offset, bytes })
}

/// Tensors with their places in the file, which they do not share and which are in it.
fn placed(list: Vec<(String, Tensor)>, start: u64, length: u64) -> Result<BTreeMap<String, Tensor>, String> {
    let mut placed = BTreeMap::new();
    let mut places = vec![];
    for (name, mut tensor) in list {
        let first = start.checked_add(tensor.offset);
        let end = first.and_then(|first| first.checked_add(tensor.bytes as u64));
        let (Some(first), Some(end)) = (first, end.filter(|end| *end <= length)) else {
            let (offset, bytes) = (tensor.offset, tensor.bytes);
            return Err(format!(
                "tensor {}: {bytes} bytes from byte {offset} of the data on; the file has {length} bytes",
                quoted(&name)
            ));
        };
        tensor.offset = first;
        places.push((first, end, name.clone()));
        if placed.insert(name.clone(), tensor).is_some() {
            return Err(format!("tensor {} is there twice", quoted(&name)));
        }
    }
    places.sort();
    match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(format!("tensors {} and {} overlap", quoted(&pair[0].2), quoted(&pair[1].2))),
        None => Ok(placed),
    }
}
