//! Limits of one rendering: bytes of new values, and work.

use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

/// The limits of one rendering. A template comes with the model, so it is as untrusted as the weights.
///
/// The defaults let through conversations of up to a mebibyte (some 250,000 tokens of English), and stop a hostile
/// template within a tenth of a second and some tens of MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest template, in bytes.
    pub template_bytes: usize,
    /// The longest rendered text, in bytes; also the largest string or list that an operation takes or makes.
    pub output_bytes: usize,
    /// Bytes of all strings and lists that are made, together.
    pub memory_bytes: u64,
    /// Work of all operations together: an element of a list counts as 16, eight bytes of text as 1.
    pub work: u64,
    /// Instructions.
    pub fuel: u64,
    /// Frames of nested loops and macro calls; a macro call counts as about five.
    pub recursion: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            template_bytes: 256 << 10,
            output_bytes: 1 << 20,
            memory_bytes: 16 << 20,
            work: 1 << 25,
            fuel: 750_000,
            recursion: 250,
        }
    }
}

/// The deepest nesting of lists and maps.
const MAX_DEPTH: usize = 128;
/// The most elements of one value, nested ones included.
const MAX_ELEMENTS: usize = 1 << 16;
/// Memory of one list element: the value itself and, where it is small, its content.
const ELEMENT_BYTES: u64 = 64;
/// Work of reading one element, where eight bytes of a string are 1.
const ELEMENT_WORK: u64 = 16;

/// Remainder of the limits during one rendering.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    memory: AtomicU64,
    work: AtomicU64,
}

/// The size of a value with everything in it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Size {
    pub elements: usize,
    pub bytes: usize,
}

impl Budget {
    pub fn new(limits: &Limits) -> Self {
        let (memory, work) = (AtomicU64::new(limits.memory_bytes), AtomicU64::new(limits.work));
        Self { limits: *limits, memory, work }
    }

    /// All of it again, for the next rendering.
    pub fn refill(&self) {
        self.memory.store(self.limits.memory_bytes, Ordering::Relaxed);
        self.work.store(self.limits.work, Ordering::Relaxed);
    }

    /// The size of a value that goes into an operation.
    ///
    /// # Errors
    /// It is too large or too deep for any operation, or no work is left.
    pub fn admit(&self, value: &Value) -> Result<Size, Error> {
        let mut size = Size::default();
        self.measure(value, 0, &mut size)?;
        spend(&self.work, size.elements as u64 * ELEMENT_WORK + size.bytes as u64 / 8, "work")?;
        Ok(size)
    }

    /// As [`admit`](Self::admit), but only strings cost anything.
    pub fn touch(&self, value: &Value) -> Result<(), Error> {
        if value.kind() == ValueKind::String { self.admit(value).map(drop) } else { Ok(()) }
    }

    /// Accounts for a value that an operation made, and turns a lazy one into a list.
    ///
    /// Laziness would defer the cost to a place that does not ask, and chains of lazy values recurse.
    pub fn settle(&self, value: Value) -> Result<Value, Error> {
        match value.kind() {
            ValueKind::String => {
                let len = value.as_str().map_or(0, str::len);
                self.check_bytes(len)?;
                spend(&self.memory, len as u64, "memory")?;
                Ok(value)
            }
            ValueKind::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()?.checked() {
                    if items.len() == MAX_ELEMENTS {
                        return Err(too_large(&format!("a list of more than {MAX_ELEMENTS} elements")));
                    }
                    items.push(item?);
                }
                self.settle(Value::from(items))
            }
            ValueKind::Seq | ValueKind::Map => {
                self.admit(&value)?;
                spend(&self.memory, value.len().unwrap_or(0) as u64 * ELEMENT_BYTES, "memory")?;
                Ok(value)
            }
            _ => Ok(value),
        }
    }

    /// As [`settle`](Self::settle) for what a namespace stores: one namespace inside another could form a cycle.
    pub fn store(&self, value: Value) -> Result<Value, Error> {
        if is_stateful(&value) {
            return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot hold a namespace or a loop"));
        }
        self.admit(&value)?;
        Ok(value)
    }

    /// The operator `*`: repeats strings and lists, multiplies numbers.
    pub fn repeat(&self, left: &Value, right: &Value) -> Result<Value, Error> {
        let (value, times) = if left.is_number() { (right, left) } else { (left, right) };
        if value.is_number() && times.is_number() {
            return multiply(value, times);
        }
        let Ok(times) = i64::try_from(times.clone()) else {
            let message = format!("cannot multiply {} with {}", left.kind(), right.kind());
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        };
        let times = usize::try_from(times).unwrap_or(0);
        if let Some(text) = value.as_str() {
            self.check_bytes(text.len().saturating_mul(times))?;
            return self.settle(Value::from(text.repeat(times)));
        }
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("cannot repeat a {}", value.kind())));
        }
        let items: Vec<Value> = value.try_iter()?.collect();
        if items.len().saturating_mul(times) > MAX_ELEMENTS {
            return Err(too_large(&format!("a list of more than {MAX_ELEMENTS} elements")));
        }
        self.settle(std::iter::repeat_n(items, times).flatten().collect())
    }

    /// Checks the length of a string before it is made.
    pub fn check_bytes(&self, bytes: usize) -> Result<(), Error> {
        match bytes <= self.limits.output_bytes {
            true => Ok(()),
            false => Err(too_large(&format!("a text of more than {} bytes", self.limits.output_bytes))),
        }
    }

    /// Accounts for text that goes to the output or into a captured block.
    pub fn emit(&self, bytes: usize) -> Result<(), Error> {
        spend(&self.memory, bytes as u64, "memory")
    }

    fn measure(&self, value: &Value, depth: usize, size: &mut Size) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(too_large(&format!("a value nested more than {MAX_DEPTH} deep")));
        }
        if depth > 0 && is_stateful(value) {
            return Err(Error::new(ErrorKind::InvalidOperation, "a list or map cannot hold a namespace or a loop"));
        }
        size.elements += 1;
        size.bytes += value.as_str().map_or(0, str::len);
        self.check_bytes(size.bytes)?;
        if size.elements > MAX_ELEMENTS {
            return Err(too_large(&format!("a value of more than {MAX_ELEMENTS} elements")));
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        let feature_tokens = object.repr() == ObjectRepr::Map;
        if !feature_tokens && !matches!(object.repr(), ObjectRepr::Seq | ObjectRepr::Iterable) {
            return Ok(());
        }
        for (key, item) in object.try_iter_pairs().into_iter().flatten() {
            if feature_tokens {
                self.measure(&key, depth + 1, size)?;
            }
            self.measure(&item, depth + 1, size)?;
        }
        Ok(())
    }
}

/// Values that can change after they were made, and so could come to contain themselves.
fn is_stateful(value: &Value) -> bool {
    let name = value.as_object().map_or("", |object| object.type_name());
    name.ends_with("::Namespace") || name.ends_with("::Loop")
}

fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let overflow = || Error::new(ErrorKind::InvalidOperation, "the product is too large");
    if left.is_integer() && right.is_integer() {
        let (left, right) = (i64::try_from(left.clone())?, i64::try_from(right.clone())?);
        return left.checked_mul(right).map(Value::from).ok_or_else(overflow);
    }
    Ok(Value::from(f64::try_from(left.clone())? * f64::try_from(right.clone())?))
}

fn spend(left: &AtomicU64, amount: u64, what: &str) -> Result<(), Error> {
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)) {
        Ok(_) => Ok(()),
        Err(_) => Err(too_large(&format!("more {what} than one rendering may use"))),
    }
}

pub(super) fn too_large(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the template asks for {what}"))
}
