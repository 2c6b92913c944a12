//! Templates written to a folder and rendered from there.

use gorgon_text::template::{ChatTemplate, Render, TemplateError, message};
use serde_json::{Value, json};

pub fn load(template: &str) -> Result<ChatTemplate, TemplateError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    ChatTemplate::load(folder.path())
}

pub fn render(template: &str) -> Result<String, TemplateError> {
    render_with(template, json!({}))
}

pub fn render_with(template: &str, variables: Value) -> Result<String, TemplateError> {
    let messages = [message("user", "Hi <b>&</b> 'you'"), message("assistant", "Grüße 🙂"), message("user", " bye \n")];
    let Value::Object(variables) = variables else { panic!("variables are an object") };
    load(template)?.render(&messages, &Render { variables, ..Render::default() })
}

#[track_caller]
pub fn assert_one_line(error: &TemplateError) {
    let message = error.to_string();
    assert!(message.contains("chat_template.jinja") && !message.contains('\n') && message.len() < 600, "{message}");
}
