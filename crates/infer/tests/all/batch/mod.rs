//! A batch decodes every sequence as if it were alone, plainly and with any drafter, however slots are refilled.

mod answers;
mod errors;
mod talks;
