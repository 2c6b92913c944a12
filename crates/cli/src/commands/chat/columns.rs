//! Two texts side by side.

use crate::printer;
use gorgon_workflows::chat::Piece;
use textwrap::core::display_width;

/// Columns where the terminal has no width of its own, and at most: longer lines are hard to read.
const WIDEST: usize = 160;
/// Between the columns.
const GAP: &str = " │ ";

/// Rows of two texts with headings, each wrapped to half the terminal.
pub fn side_by_side(left: (String, &[Piece]), right: (String, &[Piece]), colour: bool) -> Vec<String> {
    let width = (textwrap::termwidth().clamp(20, WIDEST) - display_width(GAP)) / 2;
    let column = |(heading, pieces): (String, &[Piece])| {
        let mut rows = vec![heading, "─".repeat(width)];
        rows.extend(wrapped(pieces, width, colour));
        rows
    };
    let (left, right) = (column(left), column(right));
    let row = |rows: &[String], at: usize| rows.get(at).cloned().unwrap_or_default();
    let padded = |text: String| text.clone() + &" ".repeat(width.saturating_sub(display_width(&text)));
    let rows = (0..left.len().max(right.len())).map(|at| padded(row(&left, at)) + GAP + &row(&right, at));
    rows.map(|row| row.trim_end().to_owned()).collect()
}

fn wrapped(pieces: &[Piece], width: usize, colour: bool) -> Vec<String> {
    let text: String = pieces.iter().map(|piece| painted(piece, colour && piece.drafted)).collect();
    let line = |line: &str| textwrap::wrap(line, width).into_iter().map(String::from).collect::<Vec<_>>();
    text.trim().split('\n').flat_map(line).collect()
}

/// Each word in colour by itself, so that no colour reaches into the other column.
fn painted(piece: &Piece, colour: bool) -> String {
    let text = printer::without_controls(&piece.text);
    if !colour {
        return text;
    }
    let words = text.split_inclusive(char::is_whitespace);
    let word = |word: &str| match word.trim_end() {
        "" => word.to_owned(),
        bare => format!("{}{}", printer::accepted(bare), &word[bare.len()..]),
    };
    words.map(word).collect()
}
