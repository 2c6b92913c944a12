//! Jacobi trajectories of a model's answers: what consistency training reads (Kou et al., 2024,
//! <https://arxiv.org/abs/2403.00835>).
//!
//! An answer is cut into blocks of `n` tokens. Behind a block's prefix `x`, `y^0` are random tokens of the prefix, and
//! `y^{j+1}_i = argmax p(·|x, y^j_{<i})`. After at most `n` iterations `y^k` repeats itself: it is the greedy
//! continuation `y*`. The last block of an answer may be shorter. The states of a block end with the first end token of
//! `y*`, since nothing follows it when the model answers. A trajectory is a function of the weights, the
//! conversation and the seed.
//!
//! | column | Arrow type | what |
//! |---|---|---|
//! | `row` | `UInt64` | the conversation's number, as in its shard |
//! | `prefix` | `UInt32` | tokens of the conversation in front of the block |
//! | `length` | `UInt32` | tokens of a state |
//! | `states` | `List<UInt32>` | `y^0, .., y^k`, one after another |

use crate::shard::{Row, ShardError};
use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Row as Logits;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::ModelError;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::Target;
use gorgon_runs::atomic;
use gorgon_runs::provenance::hash_bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A block whose fixed point repeats one token so often in a row is left out, as the authors do.
const REPEATED: usize = 10;
/// The key of the hash of the trajectories.
const CONTENT: &str = "gorgon.content_sha256";
/// Separates the random stream of guesses from others of the same seed.
const GUESSES: u64 = 0x6a61_636f_6269;

/// The trajectory of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trajectory {
    /// The conversation's number.
    pub row: u64,
    /// Tokens in front of the block.
    pub prefix: usize,
    /// `y^0, .., y^k`, all of one length; the last one is the fixed point.
    pub states: Vec<Vec<Token>>,
}

impl Trajectory {
    /// The fixed point.
    pub fn fixed_point(&self) -> &[Token] {
        self.states.last().map_or(&[], Vec::as_slice)
    }

    /// Drops what follows the first end token of the fixed point.
    fn end_at(&mut self, end_tokens: &[Token]) {
        if let Some(end) = self.fixed_point().iter().position(|token| end_tokens.contains(token)) {
            self.states.iter_mut().for_each(|state| state.truncate(end + 1));
            // States that differed behind the end are one now.
            self.states.dedup();
        }
    }

    /// Whether its fixed point repeats a token too often.
    fn is_repetitive(&self) -> bool {
        self.fixed_point().chunk_by(|a, b| a == b).any(|run| run.len() >= REPEATED)
    }
}

/// The file of the trajectories of shard `index`.
pub fn file_name(index: usize) -> String {
    format!("trajectories-{index:05}.parquet")
}

/// The states from `guess` to the fixed point, behind the committed tokens of a target and `root`.
///
/// # Errors
/// When the model fails.
pub fn iterate<T: Target>(target: &mut T, root: Token, guess: Vec<Token>) -> Result<Vec<Vec<Token>>, ModelError> {
    let mut states = vec![guess];
    loop {
        let last = &states[states.len() - 1];
        let rows = last.len();
        let read: Vec<Token> = std::iter::once(root).chain(last.iter().copied()).take(rows).collect();
        let hidden = target.verify(&PassPlan::of_tokens(&read, &AttentionMask::Causal { rows }))?.hidden;
        target.roll_back();
        let next: Vec<Token> = match target.top_tokens(&hidden, &PooledVec::of(1, rows)) {
            Some(top) => top.iter().map(|&(token, _)| token).collect(),
            None => {
                let logits = target.logits(&hidden);
                let argmax = |row| Logits::Logits(row).argmax() as Token;
                logits.chunks_exact(target.vocab_size()).map(argmax).collect()
            }
        };
        // Every iteration settles one more token, so a fixed point is reached; logits that are no numbers settle nothing.
        if next == *last || states.len() > rows + 1 {
            return Ok(states);
        }
        states.push(next);
    }
}

/// The blocks of a conversation's answers.
fn blocks(row: &Row, length: usize) -> Vec<Range<usize>> {
    let own = &row.example.assistant;
    let (mut blocks, mut at) = (vec![], 1);
    while at < own.len() {
        if !own[at] {
            at += 1;
            continue;
        }
        let answer = own[at..].iter().take_while(|own| **own).count();
        blocks.extend((at..at + answer).step_by(length).map(|first| first..(first + length).min(at + answer)));
        at += answer;
    }
    blocks.retain(|block| block.len() > 1);
    blocks
}

/// The trajectories of a conversation's answers, in blocks of `length` tokens at most. `target` has committed nothing.
///
/// # Errors
/// When the model fails.
pub fn of_row<T: Target>(
    target: &mut T,
    row: &Row,
    (length, end_tokens): (usize, &[Token]),
    seed: u64,
) -> Result<Vec<Trajectory>, ModelError> {
    let ids = &row.example.ids;
    let mut all = vec![];
    for block in blocks(row, length) {
        // The last token in front of a block is the root of its passes.
        let committed = target.len();
        if committed < block.start - 1 {
            target.extend(&ids[committed..block.start - 1])?;
        }
        let mut random = SeededRandom::stream(seed ^ GUESSES ^ row.key, block.start as u64);
        let any =
            |random: &mut SeededRandom| ids[((random.uniform() * block.start as f64) as usize).min(block.start - 1)];
        let guess = block.clone().map(|_| any(&mut random)).collect();
        let states = iterate(target, ids[block.start - 1], guess)?;
        let mut found = Trajectory { row: row.row, prefix: block.start, states };
        found.end_at(end_tokens);
        all.push(found);
    }
    all.retain(|trajectory| trajectory.fixed_point().len() > 1 && !trajectory.is_repetitive());
    Ok(all)
}

fn schema() -> Schema {
    let states = DataType::List(Arc::new(Field::new("item", DataType::UInt32, true)));
    Schema::new(vec![
        Field::new("row", DataType::UInt64, false),
        Field::new("prefix", DataType::UInt32, false),
        Field::new("length", DataType::UInt32, false),
        Field::new("states", states, false),
    ])
}

/// SHA-256 of trajectories.
fn hash(all: &[Trajectory]) -> String {
    let mut bytes = vec![];
    for Trajectory { row, prefix, states } in all {
        bytes.extend(row.to_le_bytes());
        bytes.extend([*prefix, states.len()].iter().flat_map(|&n| (n as u64).to_le_bytes()));
        for state in states {
            bytes.extend((state.len() as u64).to_le_bytes());
            bytes.extend(state.iter().flat_map(|token| token.to_le_bytes()));
        }
    }
    hash_bytes(&bytes)
}

/// Writes trajectories, whole or not at all.
///
/// # Errors
/// When they cannot be written.
pub fn write(path: &Path, all: &[Trajectory], metadata: &BTreeMap<String, String>) -> io::Result<()> {
    let hash = (CONTENT.to_owned(), hash(all));
    let pairs = metadata.iter().map(|(key, value)| (key.clone(), value.clone())).chain([hash]);
    let pairs = pairs.map(|(key, value)| KeyValue::new(key, value)).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("gorgon".into())
        .set_key_value_metadata(Some(pairs))
        .build();
    let mut states = ListBuilder::new(UInt32Builder::new());
    all.iter().for_each(|one| states.append_value(one.states.iter().flatten().map(|&token| Some(token))));
    let numbers = |of: fn(&Trajectory) -> usize| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|one| of(one) as u32)))
    };
    let rows: ArrayRef = Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.row)));
    let columns =
        vec![rows, numbers(|one| one.prefix), numbers(|one| one.fixed_point().len()), Arc::new(states.finish())];
    let (schema, mut bytes) = (Arc::new(schema()), vec![]);
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).map_err(io::Error::other)?;
    let batch = RecordBatch::try_new(schema, columns).map_err(io::Error::other)?;
    writer.write(&batch).map_err(io::Error::other)?;
    writer.close().map_err(io::Error::other)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// Trajectories of a file, and its metadata.
pub type Read = (Vec<Trajectory>, BTreeMap<String, String>);

/// Reads trajectories. Every one is checked: states of its length, at least one, tokens below `vocab_size`.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read(path: &Path, vocab_size: usize) -> Result<Read, ShardError> {
    // The library panics on some files that are none of its own; that is an error like any other.
    let read = std::panic::catch_unwind(|| read_valid(path, vocab_size));
    read.unwrap_or_else(|_| Err(invalid(path, &"it is damaged: the Parquet library broke down on it")))
}

fn invalid(path: &Path, reason: &dyn std::fmt::Display) -> ShardError {
    ShardError::Invalid { path: path.into(), reason: reason.to_string() }
}

fn read_valid(path: &Path, vocab_size: usize) -> Result<Read, ShardError> {
    let file = File::open(path).map_err(|source| ShardError::Io { path: path.into(), source })?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| invalid(path, &error))?;
    let pairs = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let metadata: BTreeMap<String, String> =
        pairs.into_iter().filter_map(|pair| Some((pair.key, pair.value?))).collect();
    let mut all = vec![];
    for batch in builder.build().map_err(|error| invalid(path, &error))? {
        let batch = batch.map_err(|error| invalid(path, &error))?;
        for i in 0..batch.num_rows() {
            let one = trajectory(&batch, i).ok_or_else(|| invalid(path, &format!("line {i} is no trajectory")))?;
            if let Some(token) = one.states.iter().flatten().find(|&&token| token as usize >= vocab_size) {
                return Err(invalid(path, &format!("line {i}: token {token} of a vocabulary of {vocab_size}")));
            }
            all.push(one);
        }
    }
    match metadata.get(CONTENT) {
        Some(written) if *written == hash(&all) => Ok((all, metadata)),
        Some(_) => Err(invalid(path, &"it was changed after it was written")),
        None => Err(invalid(path, &format!("it has no {CONTENT}"))),
    }
}

fn trajectory(batch: &RecordBatch, i: usize) -> Option<Trajectory> {
    let number = |name: &str| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>()?;
        column.is_valid(i).then(|| column.value(i) as usize)
    };
    let rows = batch.column_by_name("row")?.as_primitive_opt::<UInt64Type>()?;
    let states = batch.column_by_name("states")?.as_list_opt::<i32>()?;
    let states = (states.is_valid(i) && rows.is_valid(i)).then(|| states.value(i))?;
    let tokens = states.as_primitive_opt::<UInt32Type>()?.values().to_vec();
    let (prefix, length) = (number("prefix")?, number("length")?);
    let whole = prefix > 0 && length > 0 && !tokens.is_empty() && tokens.len() % length == 0;
    let states = whole.then(|| tokens.chunks_exact(length).map(<[Token]>::to_vec).collect())?;
    Some(Trajectory { row: rows.value(i), prefix, states })
}

#[cfg(test)]
mod tests;
