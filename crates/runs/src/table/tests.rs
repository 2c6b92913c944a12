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
    let text = "drafter         τ    speedup\n\
                ----------  -----  ---------\n\
                plain        1.00      1.00×\n\
                medusa a|b  12.25   [1m2.31×\n";
    assert_eq!(table().to_text(), text);
    let markdown = "| drafter     |     τ |   speedup |\n\
                    | ----------- | ----: | --------: |\n\
                    | plain       |  1.00 |     1.00× |\n\
                    | medusa a\\|b | 12.25 |  [1m2.31× |\n";
    assert_eq!(table().to_markdown(), markdown);
}

#[test]
fn any_shape_is_a_table() {
    let mut table = Table::new([Column::text("a\nb")]);
    assert_eq!(table.to_markdown(), "| a b |\n| --- |\n");
    table.row(Vec::<String>::new());
    table.row(["1", "2"]);
    assert_eq!(table.to_text(), "a b\n---  -\n\n1    2\n");
    assert_eq!(table.to_markdown(), "| a b |     |\n| --- | --- |\n|     |     |\n| 1   | 2   |\n");
}
