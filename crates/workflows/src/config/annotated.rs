//! A config in which every key is explained, from the config types' own descriptions.

use super::Kind;
use super::check::present;
use super::document::joined;
use super::reference::wrapped;
use serde_json::Value as Json;
use toml::{Table, Value};

/// A config file with these values: the comment `head`, then every key under a comment that explains it.
pub fn annotated(kind: Kind, values: &Table, head: &str) -> String {
    let mut text = comment(head);
    let schema = kind.schema();
    write_table(values, &schema, "", &mut text);
    text
}

fn comment(text: &str) -> String {
    text.lines().map(|line| format!("# {}\n", wrapped(line, "# "))).collect()
}

/// A description with each paragraph and each item of a list in a line of its own, to be wrapped anew.
fn paragraphs(text: &str) -> String {
    text.lines().fold(String::new(), |mut joined, line| {
        if !joined.is_empty() {
            let begins = line.trim().is_empty() || line.starts_with("- ") || joined.ends_with('\n');
            joined.push(if begins { '\n' } else { ' ' });
        }
        joined + line.trim()
    })
}

fn write_table(table: &Table, schema: &Json, path: &str, text: &mut String) {
    let (tables, keys): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    for (key, value) in keys {
        text.push_str(&comment(&paragraphs(description(&schema["properties"][key]))));
        text.push_str(&format!("{key} = {value}\n"));
    }
    for (key, value) in tables {
        let (path, inner) = (joined(path, key), &schema["properties"][key]);
        text.push_str(&format!("\n{}[{path}]\n", comment(&paragraphs(description(inner)))));
        if let Value::Table(table) = value {
            write_table(table, present(inner), &path, text);
        }
    }
}

fn description(schema: &Json) -> &str {
    schema["description"].as_str().or(present(schema)["description"].as_str()).unwrap_or_default()
}
