//! Every format, and what is put right or refused in the content of a record.

use crate::source_help;

use gorgon_data::source::{Format, Options, Repair};
use serde_json::json;
use source_help::{ids, one, read, refused, skipped, try_read, turn};

#[test]
fn names_go_both_ways() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
        assert_eq!(serde_json::to_value(format).unwrap(), json!(format.name()));
    }
    let names = "sharegpt messages turns alpaca prompt text";
    assert_eq!(Format::ALL.map(Format::name).join(" "), names);
    let error = "ShareGPT\u{1b}".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("`ShareGPT\\u{1b}`") && error.contains("alpaca"), "{error}");
}

#[test]
fn sharegpt() {
    for key in ["conversations", "conversation"] {
        let record = json!({ "id": "a", key: [
            { "from": "system", "value": "Be brief." },
            { "from": "human", "value": " Hi " }, { "from": "gpt", "value": "Hello\n" },
            { "role": "user", "content": "Bye" }, { "role": "assistant", "content": "Bye!" },
        ] });
        let (conversation, report) = one(&record.to_string());
        assert_eq!((conversation.id.as_str(), conversation.line), ("a", 1));
        assert_eq!(conversation.system.as_deref(), Some("Be brief."));
        assert_eq!(conversation.turns, [turn(" Hi ", Some("Hello\n")), turn("Bye", Some("Bye!"))]);
        assert_eq!((report.kept, report.formats[&Format::ShareGpt], report.repaired.len()), (1, 1, 0));
    }
}

#[test]
fn messages_with_parts() {
    let record = json!({ "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
        { "role": "assistant", "content": "c" },
    ] });
    let (conversation, report) = one(&record.to_string());
    assert_eq!(conversation.turns, [turn("ab", Some("c"))]);
    assert_eq!((conversation.id.as_str(), report.formats[&Format::Messages]), ("line-1", 1));
    let image = json!({ "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": {} }] },
    ] });
    let why = "part that is not text: `messages[0].content[1]` is of type `image_url`";
    assert_eq!(refused(&image.to_string()), ("not_text_part", why.to_owned()));
    let of = |part: serde_json::Value| json!({ "messages": [{ "role": "user", "content": [part] }] }).to_string();
    assert_eq!(refused(&of(json!({ "type": "text" }))).0, "missing_key");
    assert_eq!(refused(&of(json!({ "text": "a" }))).0, "missing_key");
    assert_eq!(refused(&of(json!("a"))).0, "wrong_type");
    assert_eq!(refused(&of(json!({ "type": "text", "text": 1 }))).0, "wrong_type");
}

#[test]
fn alpaca() {
    let (conversation, report) = one(r#"{"instruction": "Add.", "input": "1 2", "output": "3", "system": "S"}"#);
    assert_eq!(conversation.turns, [turn("Add.\n\n1 2", Some("3"))]);
    assert_eq!((conversation.system.as_deref(), report.formats[&Format::Alpaca]), (Some("S"), 1));
    for input in [r#""""#, r#"" ""#, "null"] {
        let (conversation, report) = one(&format!(r#"{{"instruction": "Add.", "input": {input}, "output": ""}}"#));
        assert_eq!(conversation.turns, [turn("Add.", None)]);
        assert_eq!(report.times(Repair::EmptyAnswer), 1);
    }
    let (conversation, report) = one(r#"{"instruction": "Add.", "context": "1 2", "response": "3", "category": "qa"}"#);
    assert_eq!(conversation.turns, [turn("Add.\n\n1 2", Some("3"))]);
    assert_eq!((conversation.category.as_deref(), report.unknown_keys.len()), (Some("qa"), 0));
}

#[test]
fn turns_of_the_user() {
    let line = r#"{"question_id": 81, "category": "writing", "turns": ["One", "Two"], "reference": ["x", "y"]}"#;
    let (conversation, report) = one(line);
    assert_eq!(conversation.turns, [turn("One", None), turn("Two", None)]);
    assert_eq!((conversation.id.as_str(), conversation.category.as_deref()), ("81", Some("writing")));
    assert_eq!(report.unknown_keys.iter().collect::<Vec<_>>(), [(&"reference".to_owned(), &1)]);
    assert_eq!((report.formats[&Format::Turns], report.repaired.len()), (1, 0));
}

#[test]
fn prompt_or_question() {
    for (key, answer) in
        [("prompt", "completion"), ("question", "answer"), ("prompt", "response"), ("question", "output")]
    {
        let (conversation, report) = one(&json!({ key: "a", answer: "b" }).to_string());
        assert_eq!(conversation.turns, [turn("a", Some("b"))]);
        assert_eq!((report.formats[&Format::Prompt], report.unknown_keys.len()), (1, 0));
    }
    let (conversation, report) = one(r#"{"prompt": "a", "answer": null}"#);
    assert_eq!((conversation.turns, report.repaired.len()), (vec![turn("a", None)], 0));
}

#[test]
fn plain_text() {
    let (conversations, report) = read("\n One \r\n\n\t \nTwo {\"a\": 1}\nThree");
    let texts = conversations.iter().map(|conversation| conversation.turns[0].user.as_str()).collect::<Vec<_>>();
    assert_eq!(texts, [" One ", "Two {\"a\": 1}", "Three"]);
    assert_eq!(ids(&conversations), ["line-2", "line-5", "line-6"]);
    assert_eq!((report.formats[&Format::Text], report.skipped.len()), (3, 0));
    // Asked for, it is read even where JSON would be.
    let options = Options { format: Some(Format::Text), ..Options::default() };
    let (conversations, _) = try_read(b"[1]\n{}", &options).unwrap();
    assert_eq!(conversations[1].turns, [turn("{}", None)]);
    let (conversations, report) = try_read(b"good\nb\xffd\n", &options).unwrap();
    assert_eq!((conversations.len(), skipped(&report)), (1, vec![(2, "invalid_utf8")]));
}

#[test]
fn formats_mix_and_a_format_can_be_asked_for() {
    let text =
        "{\"prompt\": \"a\"}\n{\"turns\": [\"b\"]}\n{\"prompt\": \"c\", \"turns\": [\"d\"]}\n{\"body\": \"e\"}\n";
    let (conversations, report) = read(text);
    let users = |list: &[gorgon_data::source::Conversation]| {
        list.iter().map(|conversation| conversation.turns[0].user.clone()).collect::<String>()
    };
    assert_eq!((users(&conversations).as_str(), skipped(&report)), ("abd", vec![(4, "unknown_format")]));
    assert_eq!((report.formats[&Format::Prompt], report.formats[&Format::Turns]), (1, 2));
    let options = Options { format: Some(Format::Prompt), ..Options::default() };
    let (conversations, report) = try_read(text.as_bytes(), &options).unwrap();
    assert_eq!(
        (users(&conversations).as_str(), skipped(&report)),
        ("ac", vec![(2, "other_format"), (4, "other_format")])
    );
    assert_eq!(report.skipped[0].reason.to_string(), "not of the format asked for, prompt: its keys are turns");
}

/// The turns, as `user>assistant` or `user>`, and the repairs of a list of `role:text`.
fn fold(messages: &str) -> Result<(String, Vec<Repair>), &'static str> {
    let list = messages.split(' ').map(|message| message.split_once(':').unwrap());
    let list = list.map(|(role, text)| json!({ "role": role, "content": text })).collect::<Vec<_>>();
    let (conversations, report) = read(&json!({ "messages": list }).to_string());
    let Some(conversation) = conversations.first() else {
        return Err(report.skipped[0].reason.code());
    };
    let turns = conversation.turns.iter();
    let turns = turns.map(|turn| format!("{}>{}", turn.user, turn.assistant.as_deref().unwrap_or_default()));
    Ok((turns.collect::<Vec<_>>().join(" "), report.repaired.iter().map(|repaired| repaired.repair).collect()))
}

#[test]
fn lists_of_messages_are_put_right() {
    use Repair::{EmptyAnswer, JoinedAssistants, JoinedUsers, LeadingAssistant, OpenEnd, RoleAlias};
    for (messages, turns, repairs) in [
        ("user:a assistant:b user:c assistant:d", "a>b c>d", vec![]),
        ("assistant:x assistant:y user:a assistant:b", "a>b", vec![LeadingAssistant]),
        ("user:a user:b user:c assistant:d", "a\n\nb\n\nc>d", vec![JoinedUsers]),
        ("user:a assistant:b assistant:c", "a>b\n\nc", vec![JoinedAssistants]),
        ("user:a assistant: assistant:c", "a>c", vec![JoinedAssistants, EmptyAnswer]),
        ("user:a assistant:b user:c", "a>b c>", vec![OpenEnd]),
        ("user:a", "a>", vec![OpenEnd]),
        ("user:a assistant: user:c assistant:d", "a> c>d", vec![EmptyAnswer]),
        ("human:a gpt:b", "a>b", vec![]),
        ("Human:a ChatGPT:b", "a>b", vec![RoleAlias]),
        ("prompter:a bing:b user:c bard:d", "a>b c>d", vec![RoleAlias]),
        ("developer:s user:a model:b", "a>b", vec![RoleAlias]),
        ("assistant:x user:a user:b bot:c", "a\n\nb>c", vec![LeadingAssistant, JoinedUsers, RoleAlias]),
    ] {
        assert_eq!(fold(messages), Ok((turns.to_owned(), repairs)), "{messages}");
    }
}

#[test]
fn lists_of_messages_are_refused() {
    for (messages, reason) in [
        ("assistant:a", "no_user"),
        ("system:a", "no_user"),
        ("user:a wizard:b", "unknown_role"),
        (":a", "unknown_role"),
        ("user:a tool:b", "tool_turn"),
        ("user:a Function_Call:b", "tool_turn"),
        ("user: assistant:b", "empty_user"),
        ("user:\u{3000} assistant:b", "empty_user"),
        ("user:a user: assistant:b", "empty_user"),
        ("user:a system:s assistant:b", "late_system"),
        ("system:s system:t user:a", "late_system"),
        ("assistant:x system:s user:a", "late_system"),
        ("user:a assistant:b\0", "nul"),
        ("system:\0 user:a", "nul"),
    ] {
        assert_eq!(fold(messages), Err(reason), "{messages}");
    }
}

/// Records that are refused, the reason's code and its words.
const REFUSED: &[(&str, &str, &str)] = &[
    (r#"{"prompt": 7}"#, "wrong_type", "wrong type: `prompt` is a number, not text"),
    (r#"{"prompt": null}"#, "wrong_type", "wrong type: `prompt` is null, not text"),
    (r#"{"prompt": {"a": 1}}"#, "wrong_type", "wrong type: `prompt` is an object, not text"),
    (r#"{"prompt": "a", "answer": false}"#, "wrong_type", "wrong type: `answer` is a boolean, not text"),
    (r#"{"instruction": "a", "input": 5}"#, "wrong_type", "wrong type: `input` is a number, not text"),
    (r#"{"prompt": "a", "category": ["b"]}"#, "wrong_type", "wrong type: `category` is a list, not text"),
    (r#"{"prompt": "a", "id": {}}"#, "wrong_type", "wrong type: `id` is an object, not text"),
    (r#"{"turns": "a"}"#, "wrong_type", "wrong type: `turns` is a text, not a list"),
    (r#"{"turns": ["a", 2]}"#, "wrong_type", "wrong type: `turns[1]` is a number, not text"),
    (r#"{"messages": ["a"]}"#, "wrong_type", "wrong type: `messages[0]` is a text, not an object"),
    (
        r#"{"messages": [{"role": 1, "content": "a"}]}"#,
        "wrong_type",
        "wrong type: `messages[0].role` is a number, not text",
    ),
    (
        r#"{"conversations": [{"from": "human", "value": 3}]}"#,
        "wrong_type",
        "wrong type: `conversations[0].value` is a number, not text",
    ),
    (r#"{"messages": [{"content": "a"}]}"#, "missing_key", "missing key: `messages[0]` has no `role`"),
    (r#"{"messages": [{"role": "user"}]}"#, "missing_key", "missing key: `messages[0]` has no `content`"),
    (r#"{"messages": []}"#, "empty_list", "empty list: `messages`"),
    (r#"{"turns": []}"#, "empty_list", "empty list: `turns`"),
    (r#"{"turns": ["a", "\n"]}"#, "empty_user", "empty user turn: `turns[1]`"),
    (r#"{"prompt": "  "}"#, "empty_user", "empty user turn: `prompt`"),
    (r#"{"prompt": "a\u0000"}"#, "nul", "U+0000 in a text: `prompt`"),
    (
        r#"{"messages": [{"role": "\u001b[2J", "content": "a"}]}"#,
        "unknown_role",
        "unknown role: `messages[0]` is by `\\u{1b}[2J`",
    ),
    (
        r#"{"words": "a", "n": 1}"#,
        "unknown_format",
        "unknown format of record: its keys are words, n; one of conversations, conversation, messages, turns, instruction, prompt, question, text is needed",
    ),
    (
        r#"{}"#,
        "unknown_format",
        "unknown format of record: its keys are none; one of conversations, conversation, messages, turns, instruction, prompt, question, text is needed",
    ),
    (
        r#"{"data": [{"prompt": "a"}]}"#,
        "holds_list",
        "a list of records within an object: take the list under `data` out of it",
    ),
    (
        r#"{"system": "a", "messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "c"}]}"#,
        "two_systems",
        "two system messages",
    ),
    (
        r#"{"id": 123456789012345678901234567890, "prompt": "a"}"#,
        "wrong_type",
        "wrong type: `id` is a number that is not held exactly, not a text or a 64-bit number",
    ),
];

#[test]
fn content_is_refused_in_words() {
    for (text, code, words) in REFUSED {
        assert_eq!(refused(text), (*code, (*words).to_owned()));
    }
}

#[test]
fn control_characters_other_than_nul_are_kept() {
    let (conversation, _) = one(r#"{"prompt": "a\u0001\u001b\t\u007f\ufeff"}"#);
    assert_eq!(conversation.turns[0].user, "a\u{1}\u{1b}\t\u{7f}\u{feff}");
}

#[test]
fn ids_are_texts_numbers_or_lines() {
    let text = [
        r#"{"id": "x", "prompt": "a"}"#,
        r#"{"id": 7, "prompt": "a"}"#,
        r#"{"question_id": "7", "prompt": "a"}"#,
        r#"{"id": -2.5, "prompt": "a"}"#,
        r#"{"id": "", "prompt": "a"}"#,
        r#"{"id": null, "conversation_id": "c", "prompt": "a"}"#,
        r#"{"id": "x", "prompt": "another"}"#,
        r#"{"id": "line-9", "prompt": "a"}"#,
        r#"{"prompt": "a"}"#,
        r#"{"prompt_id": 18446744073709551615, "prompt": "a"}"#,
    ]
    .join("\n");
    let (conversations, report) = read(&text);
    let expected = ["x", "7", "-2.5", "line-5", "c", "line-9", "line-9-2", "18446744073709551615"];
    assert_eq!(ids(&conversations), expected);
    assert_eq!(skipped(&report), [(3, "duplicate_id"), (7, "duplicate_id")]);
    assert_eq!(report.skipped[1].id.as_deref(), Some("x"));
    assert_eq!(report.skipped[1].reason.to_string(), "duplicate id: line 1 has it already");
}

#[test]
fn answers_can_be_required() {
    let text = "{\"turns\": [\"a\"]}\n{\"prompt\": \"b\", \"answer\": \"c\"}\n{\"id\": 4, \"messages\": \
                [{\"role\": \"user\", \"content\": \"d\"}]}\n{\"prompt\": \"e\", \"answer\": \"\"}";
    let options = Options { answers_required: true, ..Options::default() };
    let (conversations, report) = try_read(text.as_bytes(), &options).unwrap();
    assert_eq!(ids(&conversations), ["line-2"]);
    assert_eq!(skipped(&report), [(1, "no_assistant"), (3, "no_assistant"), (4, "no_assistant")]);
    // What a skipped record would have needed is not counted.
    assert_eq!((report.skipped[1].id.as_deref(), report.repaired.len()), (Some("4"), 0));
}

#[test]
fn unknown_keys_are_named_once() {
    let record = json!({ "id": 1, "source": "s", "a\u{7}": 2,
        "conversations": [{ "from": "human", "value": "a", "weight": 1 }, { "from": "gpt", "value": "b", "weight": 0 }] });
    let second = json!({ "prompt": "p", "source": "s" });
    let (_, report) = read(&format!("{record}\n{second}\n{{\"source\": 3}}"));
    let keys = report.unknown_keys.iter().map(|(key, count)| format!("{key} {count}")).collect::<Vec<_>>();
    assert_eq!(keys, ["a\\u{7} 1", "conversations[].weight 1", "source 2"]);
    let many = (0..200).map(|index| format!("\"k{index}\": 0, ")).collect::<String>();
    let (_, report) = read(&format!("{{{many}\"prompt\": \"p\"}}\n{{\"other\": 1, \"prompt\": \"p\"}}"));
    assert_eq!((report.unknown_keys.len(), report.more_unknown_keys, report.kept), (64, true, 2));
}
