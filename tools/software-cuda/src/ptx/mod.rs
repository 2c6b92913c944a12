//! Modules of PTX as text, and the kernels in them.

pub mod arithmetic;
mod decode;
pub mod number;
mod op;
mod statements;
mod symbols;

pub use op::{Access, Address, Compute, Fragment, GateOp, Instruction, Op, Shuffle, Source, Space, Vote, With};
pub use symbols::{SPECIAL, Unsupported};

use statements::{Statement, body, top_level};
use std::collections::HashMap;
use std::sync::Arc;
use symbols::Symbol;

/// A kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Where each parameter lies in the parameters' memory, and how many bytes it has.
    pub params: Vec<(usize, usize)>,
    /// The instructions; branches name their places.
    pub code: Vec<Instruction>,
    /// Registers of a thread, special ones and constants included, as they are at first.
    pub registers: Vec<u64>,
    /// Bytes of shared memory that it declares; what a launch adds comes after them.
    pub shared: usize,
    /// Bytes of local memory of each thread.
    pub local: usize,
    /// Arrays of the module, which kernels point to.
    pub globals: Arc<Globals>,
}

/// Memory of a module's arrays.
#[derive(Debug, Default)]
pub struct Globals {
    arrays: Vec<Box<[u64]>>,
}

impl Globals {
    /// First byte and number of bytes of every array.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.arrays.iter().map(|array| (array.as_ptr() as u64, size_of_val::<[u64]>(array) as u64))
    }
}

/// Reads the kernels of a module.
///
/// # Errors
/// Feature that this program cannot run: an instruction, a type, a function that is called.
pub fn kernels(text: &str) -> Result<HashMap<String, Arc<Kernel>>, Unsupported> {
    let parts = top_level(text);
    let mut globals = Globals::default();
    let mut symbols = HashMap::new();
    for array in &parts.arrays {
        let (name, bytes, values) = declared(array)?;
        if array.contains(".extern") {
            symbols.insert(name, Symbol::AfterShared);
            continue;
        }
        let mut memory = vec![0u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
        for (to, value) in memory.iter_mut().zip(values.chunks(8)) {
            let mut word = [0; 8];
            word[..value.len()].copy_from_slice(value);
            *to = u64::from_le_bytes(word);
        }
        symbols.insert(name, Symbol::At(memory.as_ptr() as u64));
        globals.arrays.push(memory);
    }
    let globals = Arc::new(globals);
    let kernel = |(name, params, code): &(String, String, String)| {
        let kernel = kernel(name, params, code, symbols.clone(), &globals);
        kernel.map(|kernel| (name.clone(), Arc::new(kernel)))
    };
    parts.kernels.iter().map(kernel).collect()
}

fn kernel(
    name: &str,
    params: &str,
    code: &str,
    mut symbols: HashMap<String, Symbol>,
    globals: &Arc<Globals>,
) -> Result<Kernel, Unsupported> {
    let mut places = vec![];
    let mut end = 0usize;
    for param in params.split(',').map(str::trim).filter(|param| !param.is_empty()) {
        let (name, bytes, _) = declared(param)?;
        let at = end.next_multiple_of(alignment(param).unwrap_or(bytes.clamp(1, 8)));
        symbols.insert(name, Symbol::At(at as u64));
        places.push((at, bytes));
        end = at + bytes;
    }
    let (mut shared, mut local) = (0, 0);
    let statements = body(code);
    for statement in &statements {
        let Statement::Declaration(text) = statement else { continue };
        let memory = if text.starts_with(".shared") { &mut shared } else { &mut local };
        let (name, bytes, _) = declared(text)?;
        *memory = usize::next_multiple_of(*memory, alignment(text).unwrap_or(16));
        symbols.insert(name, Symbol::At(*memory as u64));
        *memory += bytes;
    }
    let shared = shared.next_multiple_of(128);
    let (code, registers) = decode::all(&statements, &symbols, shared as u64)?;
    Ok(Kernel { name: name.into(), params: places, code, registers, shared, local, globals: globals.clone() })
}

/// Value of `.align`.
fn alignment(declaration: &str) -> Option<usize> {
    let mut words = declaration.split_whitespace().skip_while(|word| *word != ".align");
    words.nth(1)?.parse().ok().filter(|bytes: &usize| bytes.is_power_of_two())
}

/// Name, bytes and first values of a declared variable.
fn declared(declaration: &str) -> Result<(String, usize, Vec<u8>), Unsupported> {
    let wrong = || Unsupported(format!("the declaration {declaration}"));
    let (variable, values) = declaration.split_once('=').unwrap_or((declaration, ""));
    let words: Vec<&str> = variable.split_whitespace().collect();
    let ty = words.iter().find_map(|word| number::Type::named(word.strip_prefix('.')?)).ok_or_else(wrong)?;
    let last = words.last().ok_or_else(wrong)?;
    let (name, length) = match last.split_once('[') {
        None => (*last, 1),
        // An array without a length is the launch's shared memory.
        Some((name, length)) => (name, length.trim_end_matches(']').parse().unwrap_or(0)),
    };
    let numbers = values.split(['{', '}', ',']).map(str::trim).filter(|value| !value.is_empty());
    let mut bytes = vec![];
    for number in numbers {
        let value = decode::constant(number).ok_or_else(wrong)?;
        bytes.extend_from_slice(&value.to_le_bytes()[..ty.bytes()]);
    }
    Ok((name.to_owned(), length * ty.bytes(), bytes))
}
