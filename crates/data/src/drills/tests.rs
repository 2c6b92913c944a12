//! Tests of `drills`.

use super::*;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;

#[test]
fn every_label_of_a_drill_stands_in_its_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let shape = LlamaShape {
        hidden_size: 8,
        intermediate_size: 8,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        vocab_size: 258,
        max_positions: 64,
    };
    shape.write(dir.path(), FloatFormat::F32, 1).unwrap();
    let template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}\
         {% if add_generation_prompt %}[assistant]{% endif %}";
    let config = serde_json::json!({"bos_token": "<s>", "eos_token": "</s>", "chat_template": template});
    std::fs::write(dir.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    let renderer = Renderer::load(dir.path()).unwrap();
    let drills = Drills::new(&renderer, 3).unwrap();
    for i in 0..50 {
        let drill = drills.drill(i);
        let part = |own: bool| {
            let ids = drill.ids.iter().zip(&drill.assistant).filter(move |(_, a)| **a == own);
            ids.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let (prompt, answer) = (part(false), part(true));
        assert_eq!(answer.last(), renderer.end_tokens().first());
        assert!(answer[..answer.len() - 1].iter().all(|id| prompt.contains(id)));
        assert!(answer.len() > 4 && !drill.assistant[0]);
    }
    assert_ne!(drills.drill(0), drills.drill(1));
    assert_eq!(drills.drill(7), Drills::new(&renderer, 3).unwrap().drill(7));
}
