//! Reference pages of the configs, in Markdown, from their schemas.

use super::Kind;
use super::check::{choices, expected, present};
use super::document::joined;
use serde_json::Value;

/// The page of a kind: a section for each table, an entry for each key with type, default and description.
pub fn reference(kind: Kind) -> String {
    let schema = kind.schema();
    let description = schema["description"].as_str().unwrap_or_default();
    let mut page = format!(
        "<!-- Generated from the config types. Do not edit: `GORGON_WRITE_REFERENCE=1 make test` writes it. -->\n\n\
         # Config: {kind}\n\n{description}\n\n\
         `gorgon config schema {kind}` prints the JSON Schema. `gorgon config check FILE` checks a file.\n\n"
    );
    section(&schema, "", &mut page);
    format!("{}\n", page.trim_end())
}

fn section(schema: &Value, path: &str, page: &mut String) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let (tables, keys): (Vec<_>, Vec<_>) = properties.partition(|(_, inner)| table(inner).is_some());
    for (key, inner) in keys {
        entry(&joined(path, key), inner, required.contains(&key.as_str()), page);
    }
    for (key, inner) in tables {
        let path = joined(path, key);
        let is_list = present(inner)["type"] == "array";
        let title = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
        let description = inner["description"].as_str().unwrap_or_default();
        page.push_str(&format!("## `{title}`\n\n{}\n\n", wrapped(description, "")));
        if let Some(inner) = table(inner) {
            section(inner, &path, page);
        }
    }
}

/// The schema of a table, or of the tables of a list.
fn table(schema: &Value) -> Option<&Value> {
    let schema = present(schema);
    let of = if schema["type"] == "array" { &schema["items"] } else { schema };
    of["properties"].is_object().then_some(of)
}

fn entry(path: &str, schema: &Value, required: bool, page: &mut String) {
    let inner = present(schema);
    let kind = match (choices(inner), inner["anyOf"].as_array()) {
        (Some(choices), _) => choices.iter().map(|(name, _)| format!("`\"{name}\"`")).collect::<Vec<_>>().join(", "),
        (None, Some(list)) => list.iter().map(expected).collect::<Vec<_>>().join(" or "),
        (None, None) => expected(inner),
    };
    let default = match (&schema["default"], required) {
        (_, true) => "required".to_owned(),
        (Value::Null, _) => "not set by default".to_owned(),
        (value, _) => format!("default `{value}`"),
    };
    page.push_str(&format!("{}\n", wrapped(&format!("- **`{path}`** ({kind}; {default})"), "  ")));
    let description = schema["description"].as_str().or(inner["description"].as_str()).unwrap_or_default();
    page.push_str(&format!("  {}\n", wrapped(description, "  ")));
    for (name, words) in choices(inner).into_iter().flatten().filter(|(_, words)| !words.is_empty()) {
        page.push_str(&format!("  - {}\n", wrapped(&format!("`\"{name}\"`: {words}"), "    ")));
    }
    page.push('\n');
}

/// Text in lines of at most 110 columns, those after the first with this indent.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (vec![], String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() + indent.len() + 4 > 110 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join(&format!("\n{indent}"))
}
