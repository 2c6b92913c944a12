//! The JSON Schema of a tagged union as one object.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// Turns an object whose variants are told apart by `method` into one object with the keys of all variants. `allOf`
/// then forbids, method by method, the tables of the others. Editors complete such a schema; most of them make
/// nothing of `oneOf`.
pub(super) fn one_object(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return };
    let mut names = vec![];
    let mut tables: Map<String, Value> = Map::new();
    for variant in &variants {
        let Some(properties) = variant["properties"].as_object() else { continue };
        let own: Vec<&String> = properties.keys().filter(|key| *key != "method").collect();
        names.push((properties["method"]["const"].clone(), variant["description"].clone(), own));
        tables.extend(properties.iter().filter(|(key, _)| *key != "method").map(|(k, v)| (k.clone(), v.clone())));
    }
    let choice = |(name, description, _): &(Value, Value, _)| json!({"const": name, "description": description});
    let methods: Vec<Value> = names.iter().map(choice).collect();
    let rules = names.iter().map(|(name, _, own)| {
        let others = tables.keys().filter(|key| !own.contains(key)).map(|key| (key.clone(), Value::Bool(false)));
        json!({"if": {"properties": {"method": {"const": name}}}, "then": {"properties": others.collect::<Map<_, _>>()}})
    });
    let rules: Vec<Value> = rules.collect();
    let mut all = Map::new();
    all.insert("method".into(), json!({"description": "The training method.", "oneOf": methods}));
    if let Some(Value::Object(common)) = schema.remove("properties") {
        let last = ["training"];
        let (early, late): (Vec<_>, Vec<_>) = common.into_iter().partition(|(key, _)| !last.contains(&key.as_str()));
        all.extend(early);
        all.extend(tables);
        all.extend(late);
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.insert(0, "method".into());
    }
    schema.remove("unevaluatedProperties");
    schema.insert("properties".into(), Value::Object(all));
    schema.insert("additionalProperties".into(), false.into());
    schema.insert("allOf".into(), rules.into());
}
