//! Which tokens are labels.

use crate::model;

use gorgon_data::render::{RenderError, Renderer};

fn renderer(template: Option<&str>) -> Renderer {
    let dir = tempfile::tempdir().unwrap();
    model::write(dir.path(), template);
    Renderer::load(dir.path()).unwrap()
}

/// The text of the tokens that are labels, or of those that are not.
fn part(renderer: &Renderer, example: &gorgon_data::render::Example, own: bool) -> String {
    let ids = example.ids.iter().zip(&example.assistant).filter(|(_, a)| **a == own).map(|(id, _)| *id);
    renderer.text().decode(&ids.collect::<Vec<_>>(), false).unwrap()
}

#[test]
fn labels_are_the_answers_and_their_end_tokens() {
    let renderer = renderer(Some(model::TEMPLATE));
    let turns = [("Hi", "Good day."), ("Ärger?\n", "Nein — ok"), ("x", "y")];
    let example = renderer.conversation(Some("Be brief."), turns).unwrap();
    assert_eq!(part(&renderer, &example, true), "Good day.</s>Nein — ok</s>y</s>");
    let prompts = "<s>[system]Be brief.</s>[user]Hi</s>[assistant][user]Ärger?\n</s>[assistant][user]x</s>[assistant]";
    assert_eq!(part(&renderer, &example, false), prompts);
    assert_eq!(example.labels(), "Good day.".len() + "Nein — ok".len() + 1 + 3);
}

/// Head `k` (from 1) at position `t` counts iff `x_{t+k+1}` is the assistant's: the last position of a prompt takes
/// part, for it is where the answer's second token is first guessed.
#[test]
fn a_head_counts_where_its_label_is_the_assistants() {
    let renderer = renderer(Some(model::TEMPLATE));
    let example = renderer.conversation(None, [("Hi", "abc"), ("Hm", "d")]).unwrap();
    let n = example.ids.len();
    for head in 0..8 {
        for t in 0..n + 3 {
            let label = t + head + 2;
            let all = label < n && (t + 1..=label).all(|i| example.assistant[i]);
            assert_eq!(example.counts(head, t), all, "head {head} at {t}");
        }
    }
    let last_of_prompt = example.assistant.iter().position(|own| *own).unwrap() - 1;
    assert!(!example.assistant[last_of_prompt]);
    assert!(example.counts(0, last_of_prompt));
    // Its own token is the first that the model writes; no drafting begins before.
    assert!((0..8).all(|head| !example.counts(head, last_of_prompt - 1)));
    // Nothing of the second user's turn is a label, so a head that would reach into it does not count.
    let end_of_first = last_of_prompt + "abc".len() + 1;
    assert_eq!(example.ids[end_of_first], model::END);
    assert!(!example.counts(0, end_of_first - 1));
}

#[test]
fn sampled_ids_are_kept_as_they_are() {
    let renderer = renderer(Some(model::TEMPLATE));
    let mut transcript = renderer.transcript(None).unwrap();
    transcript.ask("Hi").unwrap();
    // Half a character and an end token: no text would tokenise to this.
    let sampled = vec![0xc3, u32::from(b'a'), model::END];
    transcript.answer_ids(&sampled).unwrap();
    let example = transcript.example();
    let at = example.ids.len() - 3;
    assert_eq!(example.ids[at..], sampled);
    assert!(example.assistant[at..].iter().all(|own| *own) && !example.assistant[at - 1]);
}

/// After sampled ids, the rest of the conversation is what serving would have put there.
#[test]
fn sampled_and_given_answers_render_alike() {
    let renderer = renderer(Some(model::TEMPLATE));
    let given = renderer.conversation(None, [("Hi", "abc"), ("Hm", "d")]).unwrap();
    let mut transcript = renderer.transcript(None).unwrap();
    for (user, answer) in [("Hi", "abc"), ("Hm", "d")] {
        transcript.ask(user).unwrap();
        let ids: Vec<u32> = answer.bytes().map(u32::from).chain([model::END]).collect();
        transcript.answer_ids(&ids).unwrap();
    }
    assert_eq!(transcript.into_example(), given);
}

#[test]
fn an_answer_that_was_cut_off_is_closed_by_the_template() {
    let renderer = renderer(Some(model::TEMPLATE));
    let mut transcript = renderer.transcript(None).unwrap();
    transcript.ask("Hi").unwrap();
    transcript.answer_ids(&[u32::from(b'a')]).unwrap();
    transcript.ask("Go on").unwrap();
    let example = transcript.example();
    assert_eq!(part(&renderer, example, true), "a");
    assert!(part(&renderer, example, false).contains("[assistant]</s>[user]Go on</s>[assistant]"));
}

#[test]
fn a_template_that_trims_is_followed() {
    let trims = model::TEMPLATE.replace("m.content", "m.content | trim");
    let renderer = renderer(Some(&trims));
    let example = renderer.conversation(None, [("Hi", "  abc \n")]).unwrap();
    assert_eq!(part(&renderer, &example, true), "abc</s>");
}

#[test]
fn a_template_that_rewrites_earlier_turns_is_reported() {
    let forgets = "{% for m in messages[-1:] %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}\
         {% if add_generation_prompt %}[assistant]{% endif %}";
    let renderer = renderer(Some(forgets));
    let refused = renderer.conversation(None, [("Hi", "abc"), ("Hm", "d")]);
    assert!(matches!(refused, Err(RenderError::Rewrites)));
}

#[test]
fn without_a_template_a_prompt_is_continued() {
    let renderer = renderer(None);
    assert!(!renderer.has_template());
    let example = renderer.conversation(None, [("Once", " upon")]).unwrap();
    assert_eq!(part(&renderer, &example, true), " upon</s>");
    assert_eq!(part(&renderer, &example, false), "<s>Once");
    assert!(matches!(renderer.conversation(None, [("a", "b"), ("c", "d")]), Err(RenderError::NoTemplate)));
    assert!(matches!(renderer.conversation(Some("s"), [("a", "b")]), Err(RenderError::NoTemplate)));
}

#[test]
fn the_users_turn_is_opened_as_the_template_does() {
    let renderer = renderer(Some(model::TEMPLATE));
    let mut transcript = renderer.transcript(None).unwrap();
    transcript.ask("Hi").unwrap();
    transcript.answer("abc").unwrap();
    let opening = transcript.user_opening().unwrap();
    assert_eq!(renderer.text().decode(&opening, false).unwrap(), "[user]");
}
