//! Random bytes and random damage.

use crate::source_help;

use gorgon_data::source::{Conversation, Format, Options, Reason, SourceError};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;
use source_help::try_read;

/// Pieces that the reader cares about.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b"\r\n",
    b" ",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"1",
    b"null",
    b"\"prompt\":",
    b"\"messages\":",
    b"\"role\":\"user\"",
    b"\"content\":",
    b"\"a\"",
    b"\\u",
    b"d83d",
    b"\"turns\":[",
    b"{\"prompt\": \"a\"}",
    b"[{",
    b"}]",
    b"},",
    b"\"conversations\":[{",
    b"\"from\":\"gpt\",\"value\":\"",
    "é".as_bytes(),
];

/// Options of every sort.
fn options() -> impl Strategy<Value = Options> {
    let formats = Format::ALL.into_iter().map(Some).chain([None]).collect::<Vec<_>>();
    let limits = [None, Some(0), Some(1), Some(3)].to_vec();
    (select(formats), any::<bool>(), any::<bool>(), select(vec![0, 1, 15, 64, 4 << 20]), select(limits)).prop_map(
        |(format, answers_required, tools, max_line_bytes, limit)| Options {
            format,
            answers_required,
            tools,
            max_line_bytes,
            limit,
        },
    )
}

/// Whatever was read, it keeps the promises made for it.
fn check(bytes: &[u8], options: &Options) {
    let Ok((conversations, report)) = try_read(bytes, options) else { return };
    assert_eq!(report.kept, conversations.len());
    assert_eq!(report.formats.values().sum::<usize>(), report.kept);
    assert!(options.limit.is_none_or(|limit| report.kept <= limit));
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    let mut ids = std::collections::HashSet::new();
    for conversation in &conversations {
        assert!(ids.insert(&conversation.id) && (1..=lines).contains(&conversation.line));
        assert!(!conversation.turns.is_empty());
        let blank = |text: &str| text.trim().is_empty() || text.contains('\0');
        let bad =
            conversation.turns.iter().any(|turn| blank(&turn.user) || turn.assistant.as_deref().is_some_and(blank));
        assert!(!bad, "{conversation:?}");
        assert!(!options.answers_required || conversation.turns.iter().any(|turn| turn.assistant.is_some()));
    }
    assert!(conversations.is_sorted_by_key(|conversation| conversation.line));
    assert!(report.skipped.is_sorted_by_key(|skipped| skipped.line));
    assert!(report.skipped.iter().all(|skipped| (1..=lines).contains(&skipped.line)));
    assert!(report.to_json().is_object() && !report.to_string().is_empty());
}

/// A good record of the format that `index` chooses.
fn record(index: usize) -> String {
    let (user, answer) = (format!("Question {index} \"é\" [{{]}}"), format!("Answer\n{index}"));
    let record = match index % 5 {
        0 => {
            json!({ "id": index, "conversations": [{ "from": "human", "value": user }, { "from": "gpt", "value": answer }] })
        }
        1 => json!({ "id": index, "messages": [{ "role": "user", "content": user }] }),
        2 => json!({ "id": index, "instruction": user, "input": "x", "output": answer }),
        3 => json!({ "question_id": index, "category": "c", "turns": [user, answer] }),
        _ => json!({ "id": index, "prompt": user, "response": answer }),
    };
    record.to_string()
}

/// Changes to a line.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Replace(Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop_oneof![select(PIECES).prop_map(<[u8]>::to_vec), vec(any::<u8>(), 0..6)];
    let piece = piece.prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'\n').collect::<Vec<_>>());
    prop_oneof![
        (0..200_usize).prop_map(Damage::Cut),
        (0..200_usize, piece.clone()).prop_map(|(place, bytes)| Damage::Insert(place, bytes)),
        (0..200_usize, 1..9_usize).prop_map(|(place, count)| Damage::Remove(place, count)),
        vec(piece, 0..12).prop_map(|pieces| Damage::Replace(pieces.concat())),
    ]
}

impl Damage {
    fn of(&self, line: &[u8]) -> Vec<u8> {
        let split = |place: usize| line.split_at(place % (line.len() + 1));
        match self {
            Self::Cut(place) => split(*place).0.to_vec(),
            Self::Insert(place, bytes) => [split(*place).0, bytes, split(*place).1].concat(),
            Self::Remove(place, count) => {
                let (left, right) = split(*place);
                [left, &right[(*count).min(right.len())..]].concat()
            }
            Self::Replace(bytes) => bytes.clone(),
        }
    }
}

/// The conversations on lines that are not among the `damaged`.
fn untouched(conversations: Vec<Conversation>, damaged: &[usize]) -> Vec<Conversation> {
    conversations.into_iter().filter(|conversation| !damaged.contains(&conversation.line)).collect()
}

/// Reads `lines` and finds on those not `damaged` what was `expected`.
fn check_lines(lines: &[Vec<u8>], damaged: &[usize], expected: &[Conversation], options: &Options) {
    let (conversations, report) = match try_read(&lines.join(&b'\n'), options) {
        // Damage may make the mark of another kind of file.
        Err(SourceError::Kind { .. }) => return,
        result => result.expect("a file that is read"),
    };
    // A damaged line may have taken the id of a later one, which is reported as a duplicate then.
    let duplicates = report.skipped.iter().filter(|skipped| skipped.reason.code() == "duplicate_id");
    let duplicates = duplicates.map(|skipped| skipped.line).collect::<Vec<_>>();
    let expected = untouched(expected.to_vec(), &[damaged, &duplicates].concat());
    assert_eq!(untouched(conversations, damaged), expected);
    // A first line that was made a bracket makes an array of the file, which lacks commas and an end.
    let strange = report.skipped.iter().find(|skipped| {
        ![damaged, &duplicates].concat().contains(&skipped.line) && skipped.reason != Reason::ArrayNotClosed
    });
    assert_eq!(strange, None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..400), options in options()) {
        check(&bytes, &options);
    }

    #[test]
    fn random_pieces(pieces in vec(select(PIECES), 0..60), options in options()) {
        check(&pieces.concat(), &options);
    }

    #[test]
    fn damaged_arrays(changes in vec((0..4000_usize, damage()), 1..4), pretty in any::<bool>(), options in options()) {
        let list = (0..12).map(record).collect::<Vec<_>>();
        let mut text = format!("[\n{}\n]\n", list.join(if pretty { ",\n  " } else { "," })).into_bytes();
        for (place, damage) in changes {
            let (left, right) = text.split_at(place % text.len().max(1));
            text = [left, &damage.of(right)].concat();
        }
        check(&text, &options);
    }

    #[test]
    fn damaged_lines_cost_no_other_line(changes in vec((1..30_usize, damage()), 1..6), first in damage()) {
        let mut lines = (0..30).map(|index| record(index).into_bytes()).collect::<Vec<_>>();
        let (expected, _) = try_read(&lines.join(&b'\n'), &Options::default()).unwrap();
        prop_assert_eq!(expected.len(), 30);
        let mut damaged = Vec::new();
        for (index, damage) in changes {
            lines[index] = damage.of(&lines[index]);
            damaged.push(index + 1);
        }
        check_lines(&lines, &damaged, &expected, &Options::default());
        // The first line too, as long as it does not make the file one of another kind.
        lines[0] = [b"{", first.of(&lines[0][1..]).as_slice()].concat();
        damaged.push(1);
        check_lines(&lines, &damaged, &expected, &Options::default());
    }

    #[test]
    fn a_damaged_first_line_of_a_format_asked_for(first in damage()) {
        let mut lines = (0..30).map(|index| record(index * 5).into_bytes()).collect::<Vec<_>>();
        let options = Options { format: Some(Format::ShareGpt), ..Options::default() };
        let (expected, _) = try_read(&lines.join(&b'\n'), &options).unwrap();
        lines[0] = first.of(&lines[0]);
        check_lines(&lines, &[1], &expected, &options);
    }
}
