//! Broken lines among good ones: the good ones come through, and each broken one is named by its line.

use crate::source_help;

use gorgon_data::source::{Options, Repair};
use source_help::{ids, read, refused, skipped, try_read};

/// Lines that are no use, each with the reason. `{id}` stands for the id of an earlier good line.
fn broken() -> Vec<(Vec<u8>, &'static str)> {
    let deep = [b"[".repeat(200), b"]".repeat(200)].concat();
    let long = [b"{\"prompt\": \"".as_slice(), &b"x".repeat(10 << 20), b"\"}"].concat();
    let mut lines = vec![(long, "too_long")];
    lines.push(([b"{\"prompt\": \"a\", \"x\": ".as_slice(), &deep, b"}"].concat(), "too_deep"));
    for (line, reason) in [
        (b"{\"prompt\": \"a\"".as_slice(), "invalid_json"),
        (b"{\"prompt\": \"a}", "invalid_json"),
        (b"{'prompt': 'a'}", "invalid_json"),
        (b"{\"prompt\": \"a\"},", "invalid_json"),
        (b"{\"prompt\": \"a\"} {\"prompt\": \"b\"}", "invalid_json"),
        (b"{\"prompt\": \"a\tb\"}", "invalid_json"),
        (b"{\"prompt\": NaN}", "invalid_json"),
        (b"}", "invalid_json"),
        (b"not json", "invalid_json"),
        (b"\0\0\0\0", "invalid_json"),
        (b"{\"prompt\": \"a\", \"n\": 1e999}", "invalid_json"),
        (b"{\"prompt\": \"\xff\xfe\"}", "invalid_utf8"),
        (b"{\"prompt\": \"caf\xe9\"}", "invalid_utf8"),
        (b"{\"prompt\": \"\\ud800\"}", "lone_surrogate"),
        (b"{\"prompt\": \"\\udc00 a\"}", "lone_surrogate"),
        (b"{\"prompt\": \"\\ud83d\\u0041\"}", "lone_surrogate"),
        (b"null", "not_an_object"),
        (b"[{\"prompt\": \"a\"}]", "not_an_object"),
        (b"\"a\"", "not_an_object"),
        (b"12", "not_an_object"),
        (b"{\"id\": \"q\", \"prompt\": 12}", "wrong_type"),
        (b"{\"prompt\": \" \"}", "empty_user"),
        (b"{\"messages\": []}", "empty_list"),
        (b"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}", "no_user"),
        (b"{\"messages\": [{\"role\": \"elf\", \"content\": \"a\"}]}", "unknown_role"),
        (b"{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}", "tool_turn"),
        (b"{\"messages\": [{\"role\": \"user\"}]}", "missing_key"),
        (b"{\"prompt\": \"a\\u0000b\"}", "nul"),
        (b"{\"title\": \"a\"}", "unknown_format"),
        (b"{\"id\": \"{id}\", \"prompt\": \"again\"}", "duplicate_id"),
    ] {
        lines.push((line.to_vec(), reason));
    }
    lines
}

/// A file of `count` good lines with every broken one among them, and the lines and reasons of those.
fn mixed(count: usize, end: &[u8]) -> (Vec<u8>, Vec<String>, Vec<(usize, &'static str)>) {
    let broken = broken();
    let every = count / broken.len();
    let (mut file, mut good, mut bad) = (Vec::new(), Vec::new(), Vec::new());
    let mut line = 0;
    for index in 0..count {
        // A blank line now and then moves the numbers.
        if index % 97 == 5 {
            file.extend_from_slice(end);
            line += 1;
        }
        line += 1;
        let text =
            format!("{{\"id\": \"good-{index}\", \"prompt\": \"Say {index} \\u00e9\", \"answer\": \"é {index}\"}}");
        file.extend_from_slice(text.as_bytes());
        file.extend_from_slice(end);
        good.push(format!("good-{index}"));
        if let Some((text, reason)) = broken.get(index / every).filter(|_| index % every == every / 2) {
            line += 1;
            let text = if *reason == "duplicate_id" {
                format!("{{\"id\": \"good-{index}\", \"prompt\": \"again\"}}").into_bytes()
            } else {
                text.clone()
            };
            file.extend_from_slice(&text);
            file.extend_from_slice(end);
            bad.push((line, *reason));
        }
    }
    (file, good, bad)
}

/// Readers disagree on which of two values counts.
#[test]
fn a_record_with_a_key_twice_is_skipped() {
    let lines = "{\"prompt\": \"a\", \"prompt\": \"b\"}\n{\"prompt\": \"c\"}\n\
                 {\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"content\": \"b\"}]}\n";
    let (conversations, report) = try_read(lines.as_bytes(), &Options::default()).unwrap();
    assert_eq!(conversations.len(), 1);
    assert_eq!(skipped(&report), [(1, "repeated_key"), (3, "repeated_key")]);
    assert_eq!(report.skipped[1].reason.to_string(), "key that is there twice: \"content\"");
}

#[test]
fn one_broken_line_in_a_hundred_costs_only_itself() {
    for end in [b"\n".as_slice(), b"\r\n"] {
        let (file, good, bad) = mixed(3200, end);
        assert_eq!(bad.len(), 32);
        let (conversations, report) = try_read(&file, &Options::default()).unwrap();
        assert_eq!(ids(&conversations), good);
        assert_eq!(skipped(&report), bad);
        assert_eq!((report.kept, report.repaired.len()), (3200, 0));
        for conversation in &conversations {
            let number = conversation.id.trim_start_matches("good-");
            assert_eq!(conversation.turns[0].user, format!("Say {number} é"));
            assert_eq!(conversation.turns[0].assistant, Some(format!("é {number}")));
        }
    }
}

#[test]
fn any_broken_line_may_come_first_or_last() {
    for (line, reason) in broken().iter().filter(|(line, reason)| line[0] == b'{' && *reason != "duplicate_id") {
        let good = b"{\"prompt\": \"a\"}";
        let file = [line.as_slice(), good, good, line].join(&b'\n');
        let (conversations, report) = try_read(&file, &Options::default()).unwrap();
        assert_eq!(ids(&conversations), ["line-2", "line-3"], "{reason}");
        assert_eq!(skipped(&report), [(1, *reason), (4, *reason)]);
    }
}

#[test]
fn a_finished_line_in_brackets_is_a_line_of_jsonl() {
    let (conversations, report) = read("[\"prompt\", 1]\n{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n");
    assert_eq!((ids(&conversations), skipped(&report)), (vec!["line-2", "line-3"], vec![(1, "not_an_object")]));
    let (conversations, report) = read("[\"prompt\": \"x\"}\n\n{\"prompt\": \"a\"}\n");
    assert_eq!((ids(&conversations), skipped(&report)), (vec!["line-3"], vec![(1, "invalid_json")]));
}

#[test]
fn reasons_say_where() {
    let words = "invalid JSON: expected `:` (line 1, column 11)";
    assert_eq!(refused("{\"prompt\" \"a\"}").1, words);
    let bom = format!("\u{feff}{}", "{\"prompt\" \"a\"}");
    assert_eq!(refused(&bom).1, words);
    assert_eq!(refused("{\"prompt\": \"\\ud800\"}").1, "half of a surrogate pair (line 1, column 19)");
    let (_, report) = try_read(b"{\"prompt\": \"a\"}\n{\"prompt\": \"b\xff\"}", &Options::default()).unwrap();
    assert_eq!(report.skipped[0].reason.to_string(), "invalid UTF-8 at byte 13");
}

#[test]
fn the_longest_line_allowed_is_read() {
    let options = Options { max_line_bytes: 15, ..Options::default() };
    for end in ["", "\n", "\r\n"] {
        let text = ["{\"prompt\": \"a\"}", "{\"prompt\": \"bc\"}", "{\"prompt\": \"d\"}", "{\"prompt\": \"efgh\"}"];
        let file = [&text.join(if end.is_empty() { "\n" } else { end }), end].concat();
        let (conversations, report) = try_read(file.as_bytes(), &options).unwrap();
        assert_eq!(
            (ids(&conversations), skipped(&report)),
            (vec!["line-1", "line-3"], vec![(2, "too_long"), (4, "too_long")])
        );
        assert_eq!(report.skipped[0].reason.to_string(), "too long: more than 15 bytes");
    }
    let options = Options { max_line_bytes: 0, ..Options::default() };
    let (conversations, report) = try_read(b"{\n\n", &options).unwrap();
    assert_eq!((conversations.len(), skipped(&report)), (0, vec![(1, "too_long")]));
}

#[test]
fn the_limit_stops_early() {
    let text = "{\"prompt\": \"a\"}\nbad\n{\"prompt\": \"b\"}\nbad\n{\"prompt\": \"c\"}\n";
    for (limit, kept, bad) in [(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 2), (9, 3, 2)] {
        let options = Options { limit: Some(limit), ..Options::default() };
        let (conversations, report) = try_read(text.as_bytes(), &options).unwrap();
        assert_eq!((conversations.len(), report.kept, report.skipped.len()), (kept, kept, bad));
    }
}

#[test]
fn the_report_in_words_and_in_json() {
    let tail = "{\"messages\": [{\"role\": \"User\", \"content\": \"a\"}], \"x\": 1}\n";
    let text = format!("{{\"prompt\": \"a\"}}\n{}{}{{}}\n", "bad\n".repeat(13), tail.repeat(2));
    let (_, report) = read(&text);
    assert_eq!(
        report.to_string().lines().collect::<Vec<_>>(),
        [
            "test.jsonl: 3 kept (messages 2, prompt 1), 14 skipped",
            "  repaired: last user turn without an answer kept as a prompt: 2 (lines 15, 16)",
            "  repaired: other spelling of a role: 2 (lines 15, 16)",
            "  skipped: invalid JSON: 13 (lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more)",
            "  skipped: unknown format of record: 1 (line 17)",
            "  unknown keys: x (2)",
        ]
    );
    assert_eq!((report.times(Repair::OpenEnd), report.times(Repair::Comma)), (2, 0));
    let json = report.to_json();
    assert_eq!((&json["kept"], &json["formats"]["messages"]), (&3.into(), &2.into()));
    assert_eq!(json["skipped"].as_array().unwrap().len(), 14);
    assert_eq!((&json["skipped"][13]["line"], &json["skipped"][13]["reason"]), (&17.into(), &"unknown_format".into()));
    assert_eq!((&json["repaired"][0]["repair"], &json["repaired"][0]["lines"][1]), (&"open_end".into(), &16.into()));
    assert_eq!((&json["unknown_keys"]["x"], &json["path"]), (&2.into(), &"test.jsonl".into()));
}
