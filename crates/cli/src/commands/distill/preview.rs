//! Conversations as they would be trained on, for people.

use crate::printer;
use gorgon_workflows::distill::Preview;
use gorgon_workflows::failure::Failure;
use std::io::IsTerminal;

/// Prints conversations token by token: the assistant's in colour on a terminal (two shades in turn, so that tokens can
/// be told apart), in brackets elsewhere.
pub fn show(shown: &Preview) -> Result<(), Failure> {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let Preview { rows, renderer } = shown;
    for row in rows {
        let (labels, tokens) = (row.example.labels(), row.example.ids.len());
        printer::line(&format!(
            "--- row {}: {} ({} line {}), {tokens} tokens, {labels} of them labels",
            row.row, row.id, row.source, row.line
        ));
        let mut text = String::new();
        // One decoder for all of them: how a token reads can depend on those before it.
        let mut stream = renderer.text().stream(false);
        for (i, (&id, &own)) in row.example.ids.iter().zip(&row.example.assistant).enumerate() {
            let piece = stream.push(id)?;
            let piece = piece.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}");
            match (own, colour) {
                (true, true) => text.push_str(&format!("\x1b[{}m{piece}\x1b[0m", if i % 2 == 0 { 32 } else { 36 })),
                (true, false) => text.push_str(&format!("[{piece}]")),
                (false, true) => text.push_str(&format!("\x1b[2m{piece}\x1b[0m")),
                (false, false) => text.push_str(&piece),
            }
        }
        printer::document(&text);
    }
    Ok(())
}
