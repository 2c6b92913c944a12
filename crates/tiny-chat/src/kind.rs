//! Kinds of dialogue.

use crate::dialogue::Dialogue;
use crate::writer::Writer;

/// A sort of task.
pub struct Kind {
    /// Its name, in snake case.
    pub name: &'static str,
    /// Its share of the corpus, relative to the others.
    pub weight: f64,
    /// Writes one dialogue.
    pub write: fn(&mut Writer) -> Dialogue,
}
