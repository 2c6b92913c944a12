//! The order in which conversations are answered.

use super::budget::Budget;
use super::job::Prompt;
use super::journal::Journal;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// The conversations that are answered first: a tenth, and at least 32, drawn by their numbers, so that what they take
/// tells what all will take. The first ones to end would not: short answers end first.
pub fn sample<'a>(left: impl Iterator<Item = &'a Prompt>) -> BTreeSet<u64> {
    const LEAST: usize = 32;
    // The bits of a product with the golden ratio are spread evenly over neighbouring numbers and over any stride.
    let spread = |row: &u64| {
        let product = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    let mut rows: Vec<u64> = left.map(|prompt| prompt.row).collect();
    rows.sort_by_key(spread);
    rows.truncate(rows.len().div_ceil(10).max(LEAST));
    rows.into_iter().collect()
}

/// In the order in which they are begun: the sample, then the others; long conversations first, by the power of two of
/// their length, those of like length in their order: so the slots stay full to the end, and what is prefilled and
/// decoded together is of like length.
pub fn in_turn<'a>(prompts: impl Iterator<Item = &'a Prompt>) -> VecDeque<&'a Prompt> {
    let mut waiting: Vec<&Prompt> = prompts.collect();
    let first = sample(waiting.iter().copied());
    waiting.sort_by_key(|prompt| (!first.contains(&prompt.row), Reverse(prompt.bytes().checked_ilog2())));
    waiting.into()
}

/// The conversations to answer, in the order in which they are begun. With a limit it is their own, so that none is
/// answered in vain.
pub(super) fn to_come<'a>(prompts: &'a [Prompt], journal: &Journal, budget: &Budget) -> VecDeque<&'a Prompt> {
    let to_come = prompts.iter().filter(|prompt| !journal.is_done(prompt.row));
    if budget.is_limited() { to_come.collect() } else { in_turn(to_come) }
}
