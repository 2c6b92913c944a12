//! Conversations in which tools are called.

use crate::model;

use gorgon_data::config::DistillConfig;
use gorgon_data::prompts::{Gathered, PromptFile, gather, given_row};
use gorgon_data::render::Renderer;
use gorgon_data::source::SourceError;
use serde_json::{Value, json};
use std::path::Path;

/// A template that writes definitions, calls and results.
const TEMPLATE: &str = "{{ bos_token }}{% if tools %}tools:{{ tools | tojson }}{% endif %}{% for m in messages %}\
     [{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}call:{{ c.function.name }}\
     {{ c.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endfor %}\
     {% if add_generation_prompt %}[assistant]{% endif %}";

fn renderer(template: &str) -> Renderer {
    let dir = tempfile::tempdir().unwrap();
    model::write(dir.path(), Some(template));
    Renderer::load(dir.path()).unwrap()
}

fn gathered(renderer: &Renderer, dir: &Path, records: &[Value]) -> Gathered {
    let path = dir.join("p.jsonl");
    std::fs::write(&path, records.iter().map(|record| format!("{record}\n")).collect::<String>()).unwrap();
    let config = json!({"model": "m", "out": "o", "prompts": path, "answers": "data"});
    let config: DistillConfig = serde_json::from_value(config).unwrap();
    let file = Ok::<_, SourceError>(PromptFile { path, name: "p".into() });
    gather(&config, [[file]], renderer).unwrap()
}

/// One conversation as the two usual sources write it, and one without tools.
fn records() -> [Value; 3] {
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"in\": \"Rome\"}"}});
    [
        json!({"tools": [{"name": "weather"}], "messages": [
            {"role": "user", "content": "Rome?"}, {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"}, {"role": "assistant", "content": "It is sunny."},
            {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Bye."},
        ]}),
        json!({"tools": "[{\"name\": \"weather\"}]", "conversations": [
            {"from": "human", "value": "Rome?"},
            {"from": "function_call", "value": "{\"name\": \"weather\", \"arguments\": {\"in\": \"Rome\"}}"},
            {"from": "observation", "value": "sunny"}, {"from": "gpt", "value": "It is sunny."},
            {"from": "human", "value": "Thanks!"}, {"from": "gpt", "value": "Bye."},
        ]}),
        json!({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}),
    ]
}

#[test]
fn calls_and_results_are_rendered_and_are_no_labels() {
    let (renderer, dir) = (renderer(TEMPLATE), tempfile::tempdir().unwrap());
    assert!(renderer.has_tools());
    let all = gathered(&renderer, dir.path(), &records());
    assert_eq!(all.prompts.len(), 3, "{:?}", all.reports);
    for (prompt, given) in all.prompts.iter().zip(&all.given).take(2) {
        let row = given_row(&renderer, prompt, given).unwrap();
        let part = |own: bool| {
            let ids = row.example.ids.iter().zip(&row.example.assistant).filter(|(_, a)| **a == own).map(|(id, _)| *id);
            renderer.text().decode(&ids.collect::<Vec<_>>(), false).unwrap()
        };
        assert_eq!(part(true), "It is sunny.</s>Bye.</s>");
        let others = "<s>tools:[{\"name\":\"weather\"}][user]Rome?</s>[assistant]call:weather{\"in\":\"Rome\"}</s>\
                      [tool]sunny</s>[assistant][user]Thanks!</s>[assistant]";
        assert_eq!(part(false).replace(": \"", ":\""), others);
    }
}

#[test]
fn without_a_template_for_them_they_are_skipped_and_counted() {
    let (renderer, dir) = (renderer(model::TEMPLATE), tempfile::tempdir().unwrap());
    assert!(!renderer.has_tools());
    let all = gathered(&renderer, dir.path(), &records());
    assert_eq!(all.prompts.len(), 1);
    assert!(all.reports[0].to_string().contains("skipped: turn of a tool: 2"), "{}", all.reports[0]);
}

#[test]
fn broken_uses_of_tools_are_skipped_or_repaired() {
    let (renderer, dir) = (renderer(TEMPLATE), tempfile::tempdir().unwrap());
    let of = |turns: &[(&str, &str)]| json!({"conversations": turns.iter().map(|(by, said)| json!({"from": by, "value": said})).collect::<Vec<_>>()});
    let all = gathered(
        &renderer,
        dir.path(),
        &[
            of(&[("human", "a"), ("function_call", "weather(Rome)"), ("observation", "b"), ("gpt", "c")]),
            of(&[("human", "a"), ("observation", "b"), ("gpt", "c")]),
            of(&[("human", "a"), ("gpt", "b"), ("human", "c"), ("function_call", "{\"name\": \"weather\"}")]),
        ],
    );
    let report = all.reports[0].to_string();
    assert!(report.contains("skipped: tool call") && report.contains("skipped: turn of a tool: 1"), "{report}");
    assert!(report.contains("repaired: tool call without a result dropped: 1"), "{report}");
    assert_eq!((all.prompts.len(), all.prompts[0].calls.len()), (1, 0));
}

#[test]
fn variables_reach_the_template() {
    let template = "{% if thinking is defined and not thinking %}[quiet]{% endif %}".to_owned() + model::TEMPLATE;
    let plain = renderer(&template);
    let quiet = plain.clone().with([("thinking".to_owned(), false.into())].into_iter().collect()).unwrap();
    let ids = |renderer: &Renderer| {
        let mut transcript = renderer.transcript(None).unwrap();
        transcript.ask("Hi").unwrap();
        transcript.text().to_owned()
    };
    assert_eq!(ids(&quiet), format!("[quiet]{}", ids(&plain)));
}
