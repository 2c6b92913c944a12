//! JSON arrays: in any layout, valid and broken.

use crate::source_help;

use gorgon_data::source::{Options, Repair};
use serde_json::{Value, json};
use source_help::{ids, read, skipped, try_read};

/// An element that is a conversation.
fn element(index: usize) -> Value {
    json!({ "id": format!("e{index}"), "conversations": [
        { "from": "human", "value": format!("[{index}] \"quoted\" }}]{{ \\ é\n,") }, { "from": "gpt", "value": "]" },
    ] })
}

#[test]
fn any_layout_gives_the_same() {
    let list = (0..50).map(element).collect::<Vec<_>>();
    let jsonl = list.iter().map(|element| format!("{element}\n")).collect::<String>();
    let (expected, _) = read(&jsonl);
    let lines = format!("[\n{}\n]", list.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n"));
    let leading = format!("[{}\n]", list.iter().map(Value::to_string).collect::<Vec<_>>().join("\n,"));
    let pretty = serde_json::to_string_pretty(&list).unwrap();
    let dense = serde_json::to_string(&list).unwrap();
    let spaced = format!("\u{feff}\r\n \t{}\n\n", pretty.replace('\n', "\r\n\r\n"));
    let unindented = pretty.lines().map(|line| format!("{}\n", line.trim())).collect::<String>();
    for text in [lines, leading, pretty, dense, spaced, unindented] {
        let (mut conversations, report) = read(&text);
        assert_eq!((report.skipped.len(), report.repaired.len()), (0, 0), "{report}");
        for (conversation, expected) in conversations.iter_mut().zip(&expected) {
            conversation.line = expected.line;
        }
        assert_eq!(conversations, expected);
    }
}

#[test]
fn lines_are_where_elements_start() {
    let text = "\n[\n  {\n    \"prompt\": \"a\"\n  },\n\n  { \"prompt\":\n \"b\" }, {\"prompt\": \"c\"}, {\"prompt\": \"d\"}\n]";
    let (conversations, _) = read(text);
    let lines = conversations.iter().map(|conversation| conversation.line).collect::<Vec<_>>();
    assert_eq!((lines, ids(&conversations)), (vec![3, 7, 8, 8], vec!["line-3", "line-7", "line-8", "line-8-2"]));
}

#[test]
fn many_elements_without_ids_on_one_line() {
    let (conversations, _) = read(&format!("[{}]", vec!["{\"prompt\":\"a\"}"; 50_000].join(",")));
    assert_eq!((conversations.len(), conversations[49_999].id.as_str()), (50_000, "line-1-50000"));
}

/// Elements that are no use, each with the reason.
const BROKEN: &[(&str, &str)] = &[
    ("{\"prompt\": \"a\" \"b\"}", "invalid_json"),
    ("{\"prompt\": \"a\",}", "invalid_json"),
    ("{\"turns\": [\"a\"}", "invalid_json"),
    ("{\"turns\": \"a\"]}", "invalid_json"),
    ("{prompt}", "invalid_json"),
    ("{\"prompt\": \"\\ud800\"}", "lone_surrogate"),
    ("{\"prompt\": 5}", "wrong_type"),
    ("{\"x\": [{\"prompt\": 5}]}", "holds_list"),
    ("null", "not_an_object"),
    ("-1.5e3", "not_an_object"),
    ("\"a, ] {\"", "not_an_object"),
    ("[{\"prompt\": \"a\"}]", "not_an_object"),
    ("nonsense", "invalid_json"),
    ("}", "invalid_json"),
];

#[test]
fn a_broken_element_costs_only_itself() {
    for (broken, reason) in BROKEN {
        let list = [element(0).to_string(), (*broken).to_owned(), element(1).to_string()];
        for (text, line) in [(format!("[{}]", list.join(", ")), 1), (format!("[\n{}\n]\n", list.join(",\n")), 3)] {
            let (conversations, report) = read(&text);
            assert_eq!(ids(&conversations), ["e0", "e1"], "{broken}");
            assert_eq!((skipped(&report), report.repaired.len()), (vec![(line, *reason)], 0), "{text}");
        }
    }
}

#[test]
fn one_broken_element_in_a_hundred() {
    let every = 100;
    let mut texts = (0..every * BROKEN.len()).map(|index| element(index).to_string()).collect::<Vec<_>>();
    for (index, (broken, _)) in BROKEN.iter().enumerate() {
        texts[index * every + 7] = (*broken).to_owned();
    }
    let (conversations, report) = read(&format!("[\n{}\n]", texts.join(",\n")));
    let expected = BROKEN.iter().enumerate().map(|(index, (_, reason))| (index * every + 9, *reason));
    assert_eq!(skipped(&report), expected.collect::<Vec<_>>());
    let good = (0..texts.len()).filter(|index| index % every != 7).map(|index| format!("e{index}"));
    assert_eq!(ids(&conversations), good.collect::<Vec<_>>());
}

#[test]
fn an_element_that_lost_its_end_is_cut_at_the_margin() {
    let pretty = |index| serde_json::to_string_pretty(&element(index)).unwrap();
    for flat in [true, false] {
        let text = |index| if flat { element(index).to_string() } else { pretty(index) };
        let whole = text(1);
        let cut = |from: usize| whole[..whole.len() - from].trim_end().to_owned();
        for broken in
            [cut(1), whole.replace("\"human\"", "\"human"), whole.replace("\"]\"", "\"]"), "{\"prompt\": \"a".into()]
        {
            for place in 0..3 {
                let mut list = vec![text(0), text(2)];
                list.insert(place, broken.clone());
                let (conversations, report) = read(&format!("[\n{}\n]\n", list.join(",\n")));
                let line = 2 + list[..place].iter().map(|text| text.lines().count()).sum::<usize>();
                // In the last place the array's own bracket may be taken for one of the element's.
                let reason = if place == 2 { skipped(&report)[0].1 } else { "invalid_json" };
                assert_eq!(skipped(&report), [(line, reason)], "{}", list.join(",\n"));
                assert_eq!((ids(&conversations), report.repaired.len()), (vec!["e0", "e2"], 0));
            }
        }
    }
}

#[test]
fn where_no_end_can_be_told_the_rest_is_skipped() {
    let (conversations, report) =
        read("[{\"prompt\": \"a\"},\n {\"prompt\": \"b\", {\"prompt\": \"c\"}, {\"prompt\": \"d\"}]");
    assert_eq!((ids(&conversations), skipped(&report)), (vec!["line-1"], vec![(2, "never_ends")]));
    let (conversations, report) = read("[{\"prompt\": \"a\"}, {\"prompt\": \"b\"}\n, \n");
    assert_eq!((conversations.len(), skipped(&report)), (2, vec![(3, "array_not_closed")]));
    let (conversations, report) = read("[{\"prompt\": \"a\"}]\n\n]\n{\"prompt\": \"b\"}");
    assert_eq!((conversations.len(), skipped(&report)), (1, vec![(3, "after_array")]));
    let (conversations, report) = read("[{\"prompt\": \"a\"}, nul");
    assert_eq!((conversations.len(), skipped(&report)), (1, vec![(1, "invalid_json"), (1, "array_not_closed")]));
}

#[test]
fn commas_are_put_right() {
    let (conversations, report) =
        read("[{\"prompt\": \"a\"}\n{\"prompt\": \"b\"},,\n{\"prompt\": \"c\"},{\"prompt\": \"d\"},\n]");
    assert_eq!((conversations.len(), report.skipped.len(), report.times(Repair::Comma)), (4, 0, 2));
    assert_eq!(report.repaired[0].lines, [2, 3]);
}

#[test]
fn errors_have_the_place_in_the_file() {
    let (_, report) = read("[\n  {\"prompt\": \"a\"}, {\"prompt\" \"b\"},\n  {\n \"prompt\" \"c\" }]");
    let words = report.skipped.iter().map(|skipped| skipped.reason.to_string()).collect::<Vec<_>>();
    assert_eq!(
        words,
        ["invalid JSON: expected `:` (line 2, column 30)", "invalid JSON: expected `:` (line 4, column 11)"]
    );
}

#[test]
fn long_deep_and_undecodable_elements() {
    let long = json!({ "prompt": "x".repeat(10 << 20) }).to_string();
    let deep = |depth| format!("{{\"prompt\": \"a\", \"x\": {}1{}}}", "[".repeat(depth), "]".repeat(depth));
    let list = [element(0).to_string(), long, deep(126), deep(127), deep(5000), element(1).to_string()];
    let text = format!("[\n{}\n]", list.join(",\n")).into_bytes();
    let (conversations, report) = try_read(&text, &Options::default()).unwrap();
    assert_eq!(ids(&conversations), ["e0", "line-4", "e1"]);
    assert_eq!(skipped(&report), [(3, "too_long"), (5, "too_deep"), (6, "too_deep")]);
    let text = b"[{\"prompt\": \"\xff\"}, {\"prompt\": \"b\"}]";
    let (conversations, report) = try_read(text, &Options::default()).unwrap();
    assert_eq!((conversations.len(), skipped(&report)), (1, vec![(1, "invalid_utf8")]));
}

#[test]
fn an_array_without_records() {
    for text in ["[]", " [ ]\n", "[,]"] {
        let (conversations, report) = read(text);
        assert_eq!((conversations.len(), report.skipped.len()), (0, 0));
    }
    let (_, report) = read("[");
    assert_eq!(skipped(&report), [(1, "array_not_closed")]);
}
