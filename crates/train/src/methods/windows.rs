//! Conversations in short windows, so that a step of a layer that reads sequences has tokens of many conversations.

use gorgon_data::render::Example;
use gorgon_data::shard::Row;

/// Tokens that a window has in common with the one before. Position `t` needs the tokens up to `t + 2` for its first
/// label, so with two of them every position with a label counts in exactly one window.
const SHARED: usize = 2;

/// The first token of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowStart {
    /// The conversation, of those that were cut.
    pub conversation: usize,
    /// The token's place in it.
    pub token: usize,
}

/// The conversations that windows were cut from; none where steps read whole conversations.
#[derive(Debug, Default)]
pub struct Windows {
    whole: Vec<Row>,
    starts: Vec<WindowStart>,
}

impl Windows {
    /// The windows of conversations, and where they were cut from.
    pub(super) fn cut(whole: Vec<Row>, tokens: usize) -> (Vec<Row>, Self) {
        let (windows, starts) = windows_of(&whole, tokens);
        (windows, Self { whole, starts })
    }

    /// The conversations that were cut; none where steps read whole ones.
    pub(super) fn whole(&self) -> &[Row] {
        &self.whole
    }

    /// Where each window starts; `None` where steps read whole conversations.
    pub fn starts(&self) -> Option<&[WindowStart]> {
        (!self.whole.is_empty()).then_some(&self.starts)
    }
}

/// Windows of `tokens` tokens (the last one of a conversation has fewer) that share two tokens with the one before.
/// Windows without a label of a first draft are left out.
fn windows_of(rows: &[Row], tokens: usize) -> (Vec<Row>, Vec<WindowStart>) {
    let (mut windows, mut starts) = (vec![], vec![]);
    for (conversation, row) in rows.iter().enumerate() {
        let length = row.example.ids.len();
        let stride = tokens.saturating_sub(SHARED).max(1);
        for token in (0..length.saturating_sub(SHARED)).step_by(stride) {
            let example = row.example.part(token..length.min(token + tokens));
            if (0..example.ids.len()).any(|t| example.counts(0, t)) {
                windows.push(of_row(row, example));
                starts.push(WindowStart { conversation, token });
            }
        }
    }
    (windows, starts)
}

/// A part of a conversation under its name and place.
fn of_row(row: &Row, example: Example) -> Row {
    let Row { row: number, key, line, .. } = *row;
    let (id, source, shard, category) = (row.id.clone(), row.source.clone(), row.shard.clone(), row.category.clone());
    Row { row: number, key, id, source, line, category, example, ends: vec![], shard }
}

#[cfg(test)]
mod tests;
