//! Conversations that go from one task to another.

use super::{Dialogue, Kind, Pen, agendas, code, recipes, stories, talk};

/// The kinds of this file.
pub(super) const KINDS: &[Kind] = &[Kind { name: "mixed", weight: 4.0, write: mixed }];

/// The exchanges of one dialogue of a named kind.
fn add(pen: &mut Pen, to: &mut Dialogue, kinds: &[Kind], name: &str) {
    if let Some(kind) = kinds.iter().find(|kind| kind.name == name) {
        to.exchanges.extend((kind.write)(pen).exchanges);
    }
}

fn mixed(pen: &mut Pen) -> Dialogue {
    let mut dialogue = Dialogue { kind: "mixed", system: None, exchanges: Vec::new() };
    if pen.chance(0.5) {
        let first = pen.pick(&["greeting", "how_are_you", "who_are_you", "what_can_you_do"]);
        add(pen, &mut dialogue, talk::KINDS, first);
    }
    let tasks = [stories::KINDS, recipes::KINDS, agendas::KINDS, code::KINDS, talk::KINDS, talk::KINDS];
    let n = 1 + pen.below(2);
    for _ in 0..n {
        let kinds = tasks[pen.below(tasks.len())];
        let name = kinds[pen.below(kinds.len())].name;
        add(pen, &mut dialogue, kinds, name);
    }
    if pen.chance(0.6) {
        let last = pen.pick(&["thanks", "goodbye"]);
        add(pen, &mut dialogue, talk::KINDS, last);
    }
    dialogue
}
