use super::*;

fn answer() -> Answer {
    Answer {
        pieces: vec![],
        ids: (0..41).collect(),
        accepted: vec![1; 20],
        finish: Finish::EndToken,
        decode_time: Duration::from_millis(200),
        step_time: Duration::from_millis(200),
        prefill_time: Duration::from_millis(50),
        prompt_tokens: 100,
        read_tokens: 12,
        context: 1024,
        trimmed_turns: 0,
        drafted: true,
        lossless: true,
        plain_step: Some(Duration::from_millis(10)),
    }
}

#[test]
fn the_status_line_has_the_numbers() {
    let answer = answer();
    let line = "[41 tokens, 200 tokens/s, 2.00 tokens per step, 2.00 × plain · prompt: 12 new, 88 cached]";
    assert_eq!(answer.to_string(), line);
    let short = Answer { accepted: vec![1; 7], finish: Finish::Length, ..answer.clone() };
    let line = "[41 tokens (cut off), 200 tokens/s, 2.00 tokens per step · prompt: 12 new, 88 cached]";
    assert_eq!(short.to_string(), line);
    let plain = Answer { drafted: false, lossless: false, trimmed_turns: 3, ..answer };
    let line = "[41 tokens, 200 tokens/s, no drafts, not lossless · prompt: 12 new, 88 cached, 3 old turns left out]";
    assert_eq!(plain.to_string(), line);
}

#[test]
fn an_answer_of_one_token_has_no_speed() {
    let answer =
        Answer { ids: vec![1], accepted: vec![], decode_time: Duration::ZERO, step_time: Duration::ZERO, ..answer() };
    assert_eq!((answer.tokens_per_second(), answer.speedup(), answer.tokens_per_step()), (None, None, None));
    assert_eq!(answer.to_string(), "[1 token · prompt: 12 new, 88 cached]");
}

#[test]
fn totals_add_up() {
    let mut totals = Totals::default();
    totals.add(&answer());
    totals.add(&answer());
    let text = totals.to_string();
    assert!(text.starts_with("2 answers, 82 tokens, 200 tokens/s, 2.00 tokens per step, 2.00 × plain\n"), "{text}");
    assert!(text.ends_with("24 tokens read, 176 taken from the cache"), "{text}");
}

#[test]
fn a_comparison_says_whether_the_text_is_the_same() {
    let plain = Answer { step_time: Duration::from_millis(400), drafted: false, ..answer() };
    let comparison = Comparison { plain, drafted: answer() };
    assert_eq!(comparison.to_string(), "plain 0.400 s, drafted 0.200 s: 2.00 times as fast, the same text");
    let other = Comparison { plain: Answer { ids: vec![1, 2], ..answer() }, ..comparison };
    assert!(other.to_string().ends_with("another text"));
}
