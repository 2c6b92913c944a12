use super::*;
use std::path::{Path, PathBuf};

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny")
}

fn renderer() -> Renderer {
    Renderer::load(&tiny()).unwrap()
}

/// A message and its answer, a hundred tokens or so.
fn exchange(number: usize) -> (String, String) {
    (format!("{number} {}", "what is it? ".repeat(16)), "it is a word of this. ".repeat(8))
}

/// Holds a conversation of `turns` in a context. Says for each turn how many turns were left out and how many tokens
/// of its prompt the one before did not begin with.
fn talk(turns: usize, context: usize, renderer: &Renderer) -> Vec<(usize, usize)> {
    let mut conversation = Conversation::new(Some("Be kind.".into()));
    let mut known: Vec<Token> = vec![];
    let mut seen = vec![];
    for number in 0..turns {
        let (user, answer) = exchange(number);
        let prompt = conversation.ask(&user, renderer, (context, context), 64).unwrap();
        assert!(prompt.len() < context);
        let common = known.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        seen.push((conversation.left_out(), prompt.len() - common));
        let ids = renderer.text().encode(&answer, false).unwrap();
        conversation.answer(&user, &ids, renderer).unwrap();
        known = [prompt, ids].concat();
    }
    assert_eq!(conversation.exchanges().len(), turns);
    seen
}

#[test]
fn a_turn_adds_its_own_tokens_only() {
    let seen = talk(6, 100_000, &renderer());
    let most = seen.iter().map(|(_, new)| *new).max().unwrap();
    let least = seen.iter().skip(1).map(|(_, new)| *new).min().unwrap();
    assert!(most <= least + 12, "{seen:?}");
}

#[test]
fn the_oldest_turns_are_left_out_seldom() {
    let seen = talk(24, 900, &renderer());
    let left_out: Vec<usize> = seen.iter().map(|(left_out, _)| *left_out).collect();
    assert!(left_out.is_sorted() && left_out[23] > 12, "{left_out:?}");
    let mut distinct = left_out.clone();
    distinct.dedup();
    // Several turns at once, so most turns still add their own tokens only.
    assert!(distinct.len() <= 10, "{left_out:?}");
    // The newest exchanges stay.
    assert!(left_out[23] < 23);
}

#[test]
fn a_message_that_fits_nowhere_changes_nothing() {
    let renderer = renderer();
    let mut conversation = Conversation::new(None);
    conversation.ask("hello", &renderer, (200, 200), 64).unwrap();
    conversation.answer("hello", &renderer.text().encode("hi", false).unwrap(), &renderer).unwrap();
    let error = conversation.ask(&"word ".repeat(400), &renderer, (200, 200), 64).unwrap_err();
    assert!(error.message().contains("too long") && error.message().contains("200"), "{}", error.message());
    assert_eq!(error.advice(), Some("shorten the message"));
    let error = conversation.ask(&"word ".repeat(400), &renderer, (200, 1000), 64).unwrap_err();
    assert!(error.advice().unwrap().ends_with("a greater --context, 1000 at most"));
    assert_eq!((conversation.left_out(), conversation.exchanges().len()), (0, 1));
    let prompt = conversation.ask("still here", &renderer, (200, 200), 64).unwrap();
    assert!(prompt.len() < 100);
}

/// As Qwen3's template does with thoughts: earlier answers are shown without a part of them.
#[test]
fn a_template_that_rewrites_answers_costs_the_last_answer_only() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(tiny().join(file), folder.path().join(file)).unwrap();
    }
    let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('#')[-1] }}<|end|>{% endfor %}\
                    {% if add_generation_prompt %}<|assistant|>{% endif %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let renderer = Renderer::load(folder.path()).unwrap();
    let mut conversation = Conversation::new(None);
    let mut known: Vec<Token> = vec![];
    for number in 0..5 {
        let user = format!("question {number}");
        let prompt = conversation.ask(&user, &renderer, (10_000, 10_000), 64).unwrap();
        let common = known.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
        let text = renderer.text().decode(&prompt, false).unwrap();
        assert!(!text.contains("thought"), "{text}");
        assert!(prompt.len() - common < 40, "{number}: {} of {}", prompt.len() - common, prompt.len());
        let ids = renderer.text().encode("a long thought # the answer", false).unwrap();
        conversation.answer(&user, &ids, &renderer).unwrap();
        known = [prompt, ids].concat();
    }
    assert!(conversation.exchanges()[0].assistant.contains("thought"));
}

#[test]
fn the_system_message_stays_when_turns_go() {
    let renderer = renderer();
    let mut conversation = Conversation::new(Some("Always be kind.".into()));
    for number in 0..12 {
        let (user, answer) = exchange(number);
        let prompt = conversation.ask(&user, &renderer, (600, 600), 64).unwrap();
        assert!(renderer.text().decode(&prompt, true).unwrap().contains("Always be kind."));
        conversation.answer(&user, &renderer.text().encode(&answer, false).unwrap(), &renderer).unwrap();
    }
    assert!(conversation.left_out() > 0);
    assert_eq!(conversation.messages(0).len(), 25);
    conversation.pop();
    assert_eq!(conversation.exchanges().len(), 11);
}
