//! A chat corpus of the project's own making: deterministic, checkable, and split so that held-out prompts differ from
//! the training ones in wording and in operands.
//!
//! Each [`Kind`] writes one sort of task with a [`Pen`], the only source of chance. Wordings of a user's turn go
//! through [`Pen::wording`] and operands through [`Pen::operands`]; both keep the two splits apart.

mod agendas;
mod arithmetic;
mod check;
mod code;
mod follow_ups;
mod lexicon;
mod lists;
mod mixed;
mod pen;
mod phrase;
#[cfg(test)]
mod prose_tests;
mod recipes;
mod stories;
mod strings;
mod systems;
mod tables;
mod talk;
mod units;

pub use check::Check;
pub use pen::Pen;

/// Every kind of dialogue, file by file.
pub fn kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    let all: [&'static [Kind]; 13] = [
        arithmetic::KINDS,
        lists::KINDS,
        tables::KINDS,
        strings::KINDS,
        units::KINDS,
        stories::KINDS,
        recipes::KINDS,
        agendas::KINDS,
        code::KINDS,
        talk::KINDS,
        follow_ups::KINDS,
        systems::KINDS,
        mixed::KINDS,
    ];
    all.into_iter().flatten()
}

/// Dialogue `index` of a split: its kind is drawn by weight, then written.
pub fn dialogue(seed: u64, split: Split, index: u64) -> Dialogue {
    of_any(kinds(), &mut Pen::new(seed, split, index))
}

/// The same, a share of them of the kinds with these names.
pub fn dialogue_among(seed: u64, split: Split, index: u64, names: &[String], share: f64) -> Dialogue {
    let mut pen = Pen::new(seed, split, index);
    let named = || kinds().filter(|kind| names.iter().any(|name| name == kind.name));
    if pen.chance(share) && named().next().is_some() { of_any(named(), &mut pen) } else { of_any(kinds(), &mut pen) }
}

fn of_any(kinds: impl Iterator<Item = &'static Kind> + Clone, pen: &mut Pen) -> Dialogue {
    let total: f64 = kinds.clone().map(|kind| kind.weight).sum();
    let mut left = pen.uniform() * total;
    let mut chosen = None;
    for kind in kinds {
        chosen = Some(kind);
        left -= kind.weight;
        if left < 0.0 {
            break;
        }
    }
    chosen.map_or_else(|| unreachable!("there are kinds"), |kind| (kind.write)(pen))
}

/// Which half of the corpus a dialogue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// For training.
    Train,
    /// Never trained on.
    HeldOut,
}

/// A user's turn and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// What the user says.
    pub user: String,
    /// A right answer.
    pub assistant: String,
    /// How to tell whether another answer is right; `None` where there is no right or wrong.
    pub check: Option<Check>,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialogue {
    /// The kind's name.
    pub kind: &'static str,
    /// The system prompt, if there is one.
    pub system: Option<String>,
    /// The turns.
    pub exchanges: Vec<Exchange>,
}

/// A sort of task.
pub struct Kind {
    /// Its name, in snake case.
    pub name: &'static str,
    /// Its share of the corpus, relative to the others.
    pub weight: f64,
    /// Writes one dialogue.
    pub write: fn(&mut Pen) -> Dialogue,
}

impl Exchange {
    /// An exchange whose answer can be checked.
    pub fn checked(user: impl Into<String>, assistant: impl Into<String>, check: Check) -> Self {
        Self { user: user.into(), assistant: assistant.into(), check: Some(check) }
    }

    /// An exchange without a right or wrong answer.
    pub fn open(user: impl Into<String>, assistant: impl Into<String>) -> Self {
        Self { user: user.into(), assistant: assistant.into(), check: None }
    }
}

impl Dialogue {
    /// A dialogue of one exchange.
    pub fn single(kind: &'static str, exchange: Exchange) -> Self {
        Self { kind, system: None, exchanges: vec![exchange] }
    }
}
