use super::*;

fn row(i: usize, length: usize) -> Row {
    let assistant = |t: usize| t > 4 + i && !t.is_multiple_of(11);
    Row {
        row: i as u64,
        key: i as u64,
        id: format!("conversation-{i}"),
        source: "somewhere.jsonl".into(),
        line: 1 + i as u64,
        category: None,
        example: Example {
            ids: (0..length).map(|t| (100 * i + t) as u32).collect(),
            assistant: (0..length).map(assistant).collect(),
            corrected: (i == 2).then(|| (0..length).map(|t| t.is_multiple_of(3)).collect()),
        },
        ends: vec![],
        shard: "shard-00000.parquet".into(),
    }
}

/// Conversation, position and labels of all positions with a label of head `k`.
fn labels(rows: &[Row], start: impl Fn(usize) -> (usize, usize), head: usize) -> Vec<(usize, usize, u32)> {
    let of = |(i, row): (usize, &Row)| {
        let (conversation, first) = start(i);
        let at = (0..row.example.ids.len()).filter(|&t| row.example.counts(head, t));
        at.map(|t| (conversation, first + t, row.example.ids[t + head + 2])).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of).collect()
}

#[test]
fn every_position_with_a_label_is_in_one_window() {
    let rows: Vec<Row> = [0, 1, 2, 3, 9, 10, 11, 40, 57].iter().enumerate().map(|(i, &n)| row(i, n)).collect();
    for tokens in [3, 8, 9, 16, 39, 40, 41, 100] {
        let (windows, starts) = windows_of(&rows, tokens);
        let start = |i: usize| (starts[i].conversation, starts[i].token);
        assert_eq!(labels(&windows, start, 0), labels(&rows, |i| (i, 0), 0), "{tokens}");
        let whole = labels(&rows, |i| (i, 0), 2);
        assert!(labels(&windows, start, 2).iter().all(|label| whole.contains(label)), "{tokens}");
        assert!(windows.iter().all(|window| window.example.ids.len() <= tokens), "{tokens}");
        for (window, start) in windows.iter().zip(&starts) {
            let (own, of) = (&window.example, &rows[start.conversation]);
            assert_eq!(own.ids[..], of.example.ids[start.token..start.token + own.ids.len()], "{tokens}");
            assert_eq!((&window.id, window.row), (&of.id, of.row), "{tokens}");
            assert!((0..own.ids.len()).any(|t| own.counts(0, t)), "{tokens}");
        }
    }
}

#[test]
fn long_windows_are_the_conversations_with_labels() {
    let rows: Vec<Row> = (0..6).map(|i| row(i, 5 + 4 * i)).collect();
    let labelled: Vec<Row> = rows.iter().filter(|row| (0..40).any(|t| row.example.counts(0, t))).cloned().collect();
    assert!(labelled.len() < rows.len());
    assert_eq!(windows_of(&rows, 40).0, labelled);
}
