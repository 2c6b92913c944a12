//! `/v1/models`.

use crate::options::Model;
use serde_json::{Value, json};

/// The model as the list shows it.
pub(crate) fn model(model: &Model) -> Value {
    json!({
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "gorgon",
        "max_model_len": model.context,
    })
}

/// The list.
pub(crate) fn list(only: &Model) -> Value {
    json!({"object": "list", "data": [model(only)]})
}
