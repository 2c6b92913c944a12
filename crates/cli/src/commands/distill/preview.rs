//! Conversations as they would be trained on, for people.

use crate::printer;
use gorgon_workflows::distill::Preview;
use gorgon_workflows::failure::Failure;
use serde_json::{Value, json};

/// Prints conversations token by token: the assistant's in colour on a terminal (two shades in turn, so that tokens can
/// be told apart), in brackets elsewhere.
pub fn show(shown: &Preview) -> Result<(), Failure> {
    let colour = printer::colour_wanted(&std::io::stdout());
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
            let piece = printer::without_controls(&piece);
            match (own, colour) {
                (true, true) => text.push_str(&format!("\x1b[{}m{piece}\x1b[0m", if i % 2 == 0 { 32 } else { 36 })),
                (true, false) => text.push_str(&format!("[{piece}]")),
                (false, true) => text.push_str(&format!("\x1b[2m{piece}\x1b[0m")),
                (false, false) => text.push_str(&piece),
            }
        }
        printer::piece(&(text + "\n"));
    }
    Ok(())
}

/// The previewed conversations as a JSON document: token ids, and which of them are the assistant's.
pub fn document(shown: &Preview) -> Value {
    let rows = shown.rows.iter().map(|row| {
        json!({
            "row": row.row, "id": row.id, "source": row.source, "line": row.line, "ids": row.example.ids,
            "assistant": row.example.assistant, "labels": row.example.labels(),
        })
    });
    json!({ "rows": rows.collect::<Vec<_>>() })
}
