//! A chat corpus of the project's own making: deterministic, checkable, and split so that held-out prompts differ from
//! the training ones in wording and in operands.
//!
//! Each [`Kind`] writes one sort of task with a [`Writer`], the only source of chance. Wordings of a user's turn go
//! through [`Writer::wording`] and operands through [`Writer::operands`]; both keep the two splits apart.

mod agendas;
mod arithmetic;
mod check;
mod code;
mod dialogue;
mod follow_ups;
mod kind;
mod lexicon;
mod lists;
mod mixed;
mod phrase;
mod recipes;
mod stories;
mod strings;
mod systems;
mod tables;
mod talk;
mod units;
mod writer;

pub use check::Check;
pub use dialogue::{Dialogue, Exchange, Split};
pub use kind::Kind;
pub use writer::Writer;

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
    of_any(kinds(), &mut Writer::new(seed, split, index))
}

/// A dialogue of which a share is of the kinds with these names.
pub fn dialogue_among(seed: u64, split: Split, index: u64, names: &[String], share: f64) -> Dialogue {
    let mut writer = Writer::new(seed, split, index);
    let named = || kinds().filter(|kind| names.iter().any(|name| name == kind.name));
    if writer.chance(share) && named().next().is_some() {
        of_any(named(), &mut writer)
    } else {
        of_any(kinds(), &mut writer)
    }
}

fn of_any(kinds: impl Iterator<Item = &'static Kind> + Clone, writer: &mut Writer) -> Dialogue {
    let total: f64 = kinds.clone().map(|kind| kind.weight).sum();
    let mut left = writer.uniform() * total;
    let mut chosen = None;
    for kind in kinds {
        chosen = Some(kind);
        left -= kind.weight;
        if left < 0.0 {
            break;
        }
    }
    chosen.map_or_else(|| unreachable!("there are kinds"), |kind| (kind.write)(writer))
}

#[cfg(test)]
mod tests;
