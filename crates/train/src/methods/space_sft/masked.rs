//! Conversations with masks behind them.

use crate::llama::Packed;
use gorgon_core::Token;
use gorgon_data::render::Example;

/// Some conversations with masks and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Masked {
    /// Their tokens; of a mask any one.
    pub packed: Packed,
    /// Which rows are masks.
    pub masks: Vec<bool>,
    /// The rows that have a label.
    pub rows: Vec<i32>,
    /// Their labels.
    pub tokens: Vec<Token>,
    /// The place of the mask that a label is of, from 1; 0 of a token of the text.
    pub places: Vec<usize>,
}

impl Masked {
    /// Adds a conversation that is read whole, or ends at token `cut` with at most `masks` masks behind it. Labels in
    /// the text are left out where `text` is false.
    pub fn push(&mut self, example: &Example, cut: Option<usize>, masks: usize, text: bool) {
        let start = self.packed.tokens.len();
        let end = cut.map_or(example.ids.len(), |cut| cut + 1);
        self.packed.tokens.extend(&example.ids[..end]);
        for at in (1..example.ids.len().min(end + 1)).filter(|&at| text && example.is_label(at)) {
            self.label(start + at - 1, example.ids[at], 0);
        }
        if let Some(cut) = cut {
            for place in (1..=masks).take_while(|place| example.counts(place - 1, cut)) {
                self.label(self.packed.tokens.len(), example.ids[cut + place + 1], place);
                self.packed.tokens.push(0);
            }
        }
        self.masks.resize(start + end, false);
        self.masks.resize(self.packed.tokens.len(), true);
        self.packed.segments.push(start..self.packed.tokens.len());
    }

    fn label(&mut self, row: usize, token: Token, place: usize) {
        self.rows.push(row as i32);
        self.tokens.push(token);
        self.places.push(place);
    }
}

/// Where a conversation can be cut: behind it the assistant goes on for two tokens at least.
pub(super) fn places(example: &Example) -> Vec<usize> {
    (0..example.ids.len()).filter(|&t| example.counts(0, t)).collect()
}

/// The positions whose next token is the assistant's.
pub(super) fn counted(example: &Example) -> Vec<usize> {
    (1..example.ids.len()).filter(|&t| example.is_label(t)).map(|t| t - 1).collect()
}
