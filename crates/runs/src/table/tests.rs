//! Tests of `table`.

use super::*;

fn table() -> Table {
    let mut table = Table::new([Column::text("drafter"), Column::number("τ"), Column::number("speedup")]);
    table.row(["plain", "1.00", "1.00×"]);
    table.row(["medusa a|b", "12.25", "\x1b[1m2.31×"]);
    table
}

#[test]
fn numbers_are_aligned_to_the_right() {
    let text = "drafter         τ         speedup\n\
                ─────────────────────────────────\n\
                plain        1.00           1.00×\n\
                medusa a|b  12.25  \\u{1b}[1m2.31×\n";
    assert_eq!(table().to_text(None), text);
    let markdown = "| drafter     |     τ |        speedup |\n\
                    |-------------|------:|---------------:|\n\
                    | plain       |  1.00 |          1.00× |\n\
                    | medusa a\\|b | 12.25 | \\u{1b}[1m2.31× |\n";
    assert_eq!(table().to_markdown(), markdown);
}

#[test]
fn any_shape_is_a_table() {
    let mut table = Table::new([Column::text("a\nb")]);
    assert_eq!(table.to_markdown(), "| a\\nb |\n|------|\n");
    table.row(Vec::<String>::new());
    table.row(["1", "2"]);
    assert_eq!(table.to_text(None).lines().count(), 4);
    let mut pairs = Table::new([Column::text(""), Column::text("")]);
    pairs.row(["layers", "2"]);
    assert_eq!(pairs.to_text(None), "layers  2\n");
}

#[test]
fn a_narrow_terminal_wraps_cells() {
    let mut table = Table::new([Column::text("run"), Column::text("data")]);
    table.row(["medusa-1", "one two three four five six"]);
    let text = table.to_text(Some(24));
    assert!(text.lines().all(|line| line.chars().count() <= 24) && text.lines().count() > 3, "{text}");
}

#[test]
fn words_are_never_split() {
    let mut table = Table::new([Column::text("method"), Column::number("tokens/step"), Column::number("speed-up")]);
    table.row(["heads", "2.10", "1.24 (1.24-1.27)"]);
    table.row(["a-longer-name", "", "0.98 (0.97-0.99)"]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for width in 40..60 {
        let text = table.to_text(Some(width));
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        for word in ["a-longer-name", "tokens/step", "(1.24-1.27)", "(0.97-0.99)"] {
            assert!(words(&text).contains(&word.to_owned()), "{word} at {width}: {text}");
        }
    }
    let lists = "method       heads\n\
                 tokens/step  2.10\n\
                 speed-up     1.24 (1.24-1.27)\n\n\
                 method       a-longer-name\n\
                 speed-up     0.98 (0.97-0.99)\n";
    assert_eq!(table.to_text(Some(30)), lists);
    let mut table = Table::new([Column::text("method"), Column::number("eta").spare(), Column::number("speed-up")]);
    table.row(["heads", "0.59", "1.24"]);
    assert_eq!(table.to_text(Some(16)), "method  speed-up\n────────────────\nheads       1.24\n");
    assert!(table.to_text(Some(22)).contains("eta"));
    let mut pairs = Table::new([Column::text(""), Column::text("")]);
    pairs.row(["weights", "model-00001-of-00002.safetensors"]);
    assert_eq!(pairs.to_text(Some(20)), "weights  model-00001-of-00002.safetensors\n");
}
