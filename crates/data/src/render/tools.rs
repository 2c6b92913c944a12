//! Whether a chat template writes tool calls.

use gorgon_text::template::message;
use serde_json::{Value, json};

/// A name and a text that no template writes of its own.
const NAME: &str = "gorgon_probe";
const RESULT: &str = "gorgon-probe-result";

/// Renders a call with its result, and looks whether both are there: with the tool's definition too, for which some
/// models have a template of its own.
pub(super) fn are_rendered(render: impl Fn(&[Value], Option<&Value>) -> Option<String>) -> bool {
    // Some templates ask for ids of nine letters.
    let call = json!({"type": "function", "id": "gorgon123", "function": {"name": NAME, "arguments": {}}});
    let messages = [
        message("user", "Hello"),
        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
        json!({"role": "tool", "name": NAME, "tool_call_id": "gorgon123", "content": RESULT}),
    ];
    let parameters = json!({"type": "object", "properties": {}, "required": []});
    let function = json!({"name": NAME, "description": "A tool.", "parameters": parameters});
    let tools = json!([{"type": "function", "function": function}]);
    let writes = |tools| render(&messages, tools).is_some_and(|text| text.contains(NAME) && text.contains(RESULT));
    writes(None) || writes(Some(&tools))
}
