//! Conversations that go from one task to another.

use crate::dialogue::Dialogue;
use crate::kind::Kind;
use crate::writer::Writer;
use crate::{agendas, code, recipes, stories, talk};

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[Kind { name: "mixed", weight: 4.0, write: mixed }];

/// The exchanges of one dialogue of a named kind.
fn add(writer: &mut Writer, to: &mut Dialogue, kinds: &[Kind], name: &str) {
    if let Some(kind) = kinds.iter().find(|kind| kind.name == name) {
        to.exchanges.extend((kind.write)(writer).exchanges);
    }
}

fn mixed(writer: &mut Writer) -> Dialogue {
    let mut dialogue = Dialogue { kind: "mixed", system: None, exchanges: Vec::new() };
    if writer.chance(0.5) {
        let first = writer.pick(&["greeting", "how_are_you", "who_are_you", "what_can_you_do"]);
        add(writer, &mut dialogue, talk::KINDS, first);
    }
    let tasks = [stories::KINDS, recipes::KINDS, agendas::KINDS, code::KINDS, talk::KINDS, talk::KINDS];
    let n = 1 + writer.below(2);
    for _ in 0..n {
        let kinds = tasks[writer.below(tasks.len())];
        let name = kinds[writer.below(kinds.len())].name;
        add(writer, &mut dialogue, kinds, name);
    }
    if writer.chance(0.6) {
        let last = writer.pick(&["thanks", "goodbye"]);
        add(writer, &mut dialogue, talk::KINDS, last);
    }
    dialogue
}
