//! A document against the JSON Schema of its kind: unknown keys, missing ones, wrong types and values.

use super::document::joined;
use super::suggest::nearest;
use serde_json::Value as Json;
use toml::{Table, Value};

/// A wrong or missing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The path of the key, `a.b` or `a[0].b`.
    pub key: String,
    pub message: String,
}

/// Problems of a config table.
pub(super) fn problems(table: &Table, schema: &Json) -> Vec<Problem> {
    let mut found = vec![];
    let mut known = vec![];
    paths(schema, "", &mut known);
    check_table(table, schema, "", &known, &mut found);
    found
}

/// The paths of all keys of a schema, tables included.
pub(super) fn paths(schema: &Json, path: &str, all: &mut Vec<String>) {
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = joined(path, key);
        paths(present(inner), &path, all);
        all.push(path);
    }
}

fn check_table(table: &Table, schema: &Json, path: &str, known: &[String], found: &mut Vec<Problem>) {
    let foreign = foreign(table, schema);
    for (key, value) in table {
        let at = joined(path, key);
        if let Some((_, method)) = foreign.iter().find(|(other, _)| other == key) {
            let message = format!("[{key}] belongs to another method; this config has method = {method}");
            found.push(Problem { key: at, message });
        } else if let Some(inner) = schema["properties"].get(key) {
            check_value(value, inner, &at, known, found);
        } else if schema["additionalProperties"] == false {
            let near = nearest(&at, known.iter().map(String::as_str).filter(|key| !foreign_key(&foreign, key)));
            let hint = near.map(|key| format!("; did you mean {key:?}?")).unwrap_or_default();
            found.push(Problem { message: format!("unknown key {at:?}{hint}"), key: at });
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    for key in required.filter(|key| !table.contains_key(*key)) {
        found.push(Problem { key: path.into(), message: format!("the key {:?} is missing", joined(path, key)) });
    }
}

/// Keys that another value of a key rules out, with the value that does: `allOf` with `if` and `then`.
fn foreign(table: &Table, schema: &Json) -> Vec<(String, String)> {
    let mut found = vec![];
    for rule in schema["allOf"].as_array().into_iter().flatten() {
        let Some((key, wanted)) = rule["if"]["properties"].as_object().and_then(|keys| keys.iter().next()) else {
            continue;
        };
        let Some(is) = table.get(key).and_then(Value::as_str).filter(|is| wanted["const"] == *is) else { continue };
        let keys = rule["then"]["properties"].as_object().into_iter().flatten();
        found.extend(keys.filter(|(_, allowed)| **allowed == false).map(|(key, _)| (key.clone(), format!("{is:?}"))));
    }
    found
}

fn foreign_key(foreign: &[(String, String)], path: &str) -> bool {
    foreign.iter().any(|(table, _)| path.split('.').next() == Some(table))
}

/// A schema without the choice of `null`, which TOML has not.
pub(super) fn present(schema: &Json) -> &Json {
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    let mut others = choices.filter(|choice| choice["type"] != "null");
    match (others.next(), others.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

/// The texts of a closed set, each with its description; `None` where other values are possible.
pub(super) fn choices(schema: &Json) -> Option<Vec<(&str, &str)>> {
    match (schema["oneOf"].as_array(), schema["enum"].as_array()) {
        (Some(list), _) => list.iter().map(choice_of).collect::<Option<Vec<_>>>().map(|lists| lists.concat()),
        (None, Some(_)) => choice_of(schema),
        (None, None) => None,
    }
}

/// The texts of `const` or `enum`.
fn choice_of(schema: &Json) -> Option<Vec<(&str, &str)>> {
    let description = schema["description"].as_str().unwrap_or_default();
    if let Some(text) = schema["const"].as_str() {
        return Some(vec![(text, description)]);
    }
    let list = schema["enum"].as_array()?;
    Some(list.iter().filter_map(Json::as_str).map(|text| (text, "")).collect())
}

fn check_value(value: &Value, schema: &Json, path: &str, known: &[String], found: &mut Vec<Problem>) {
    let schema = present(schema);
    let mut wrong = |message: String| found.push(Problem { key: path.into(), message: format!("{path} = {message}") });
    if let Some(choices) = choices(schema) {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        if !value.as_str().is_some_and(|text| names.contains(&text)) {
            let near = value.as_str().and_then(|text| nearest(text, names.iter().copied()));
            let hint = near.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            wrong(format!("{}: expected {}{hint}", shown(value), names.join(", ")));
        }
        return;
    }
    if let Some(list) = schema["anyOf"].as_array() {
        return check_any_of(value, list, path, known, found);
    }
    if schema["const"].as_str().is_some_and(|text| value.as_str() != Some(text)) || !has_type(value, schema) {
        return wrong(format!("{}: expected {}", shown(value), expected(schema)));
    }
    if let Some(message) = out_of_range(value, schema) {
        wrong(message);
    }
    match value {
        Value::Table(table) => check_table(table, schema, path, known, found),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let one = if schema["items"].is_array() { &schema["items"][i] } else { &schema["items"] };
                check_value(item, one, &format!("{path}[{i}]"), known, found);
            }
        }
        _ => {}
    }
}

/// A value that may be of several kinds. Where its type is that of one of them alone, this one's problems are named.
fn check_any_of(value: &Value, list: &[Json], path: &str, known: &[String], found: &mut Vec<Problem>) {
    let problems_of = |kind: &Json| {
        let mut problems = vec![];
        check_value(value, kind, path, known, &mut problems);
        problems
    };
    if list.iter().any(|kind| problems_of(kind).is_empty()) {
        return;
    }
    let alike: Vec<&Json> = list.iter().filter(|kind| has_type(value, kind)).collect();
    if let [only] = alike[..] {
        return found.extend(problems_of(only));
    }
    let kinds: Vec<String> = list.iter().map(expected).collect();
    let message = format!("{path} = {}: expected {}", shown(value), kinds.join(" or "));
    found.push(Problem { key: path.into(), message });
}

/// An empty text, or a number that the schema's bounds rule out, in words.
fn out_of_range(value: &Value, schema: &Json) -> Option<String> {
    // Texts are names, paths and addresses: an empty path would mean the current folder.
    if value.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Some(format!("{}: it is empty", shown(value)));
    }
    let number = value.as_integer().map(|n| n as f64).or(value.as_float())?;
    if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
        return Some(format!("{}: it has to be at least {least}", shown(value)));
    }
    let most = schema["maximum"].as_f64().filter(|most| number > *most)?;
    Some(format!("{}: it can be {most} at most", shown(value)))
}

/// The types of a schema by name, `null` left out.
pub(super) fn types(schema: &Json) -> Vec<&str> {
    let of = &schema["type"];
    let list = of.as_str().into_iter().chain(of.as_array().into_iter().flatten().filter_map(Json::as_str));
    list.filter(|name| *name != "null").collect()
}

fn has_type(value: &Value, schema: &Json) -> bool {
    let types = types(schema);
    let fits = |name: &&str| match *name {
        "integer" => value.is_integer(),
        "number" => value.is_integer() || value.is_float(),
        "string" => value.is_str(),
        "boolean" => value.is_bool(),
        "array" => value.is_array(),
        "object" => value.is_table(),
        _ => false,
    };
    types.is_empty() || types.iter().any(fits)
}

/// A type in words.
pub(super) fn expected(schema: &Json) -> String {
    if let Some(text) = schema["const"].as_str() {
        return format!("{text:?}");
    }
    let word = |name: &str| match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a table",
        _ => "a value",
    };
    types(schema).into_iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// A value as it is written, cut short.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
