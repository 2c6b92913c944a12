//! Tables and pictures of trees.

use crate::printer;
use gorgon_bench::record::DecodedTree;
use gorgon_core::tree::TreeShape;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::measuring::calibration::Calibrated;
use gorgon_workflows::units;

/// Prints the tables and the picture.
pub fn report(found: &Calibrated) {
    let Calibrated { accuracies, times, choice, .. } = found;
    let mut table = Table::new(["depth", "1st guess", "2nd", "3rd", "4th", "5th"].map(Column::number));
    for (head, row) in accuracies.heads.heads().iter().enumerate() {
        let shares = row.iter().take(5).map(|share| format!("{share:.3}"));
        table.row(std::iter::once((head + 1).to_string()).chain(shares));
    }
    printer::table(&table);
    let plain = times.iter().find(|time| time.nodes == 1).map_or(f64::NAN, |time| time.seconds);
    let mut table = Table::new(["nodes", "step, ms", "over plain", "spread, %"].map(Column::number));
    for time in times {
        let name = if time.nodes == 1 { "plain".to_owned() } else { time.nodes.to_string() };
        let (milliseconds, ratio) = (format!("{:.3}", time.seconds * 1e3), format!("{:.2}", time.seconds / plain));
        table.row([name, milliseconds, ratio, format!("{:.0}", time.spread * 100.0)]);
    }
    printer::table(&table);
    if let Some((nodes, speedup)) = choice.doubtful {
        printer::line(&format!(
            "{nodes} nodes might be {speedup:.2} times as fast as plain decoding, but the times spread by more than that gain: \
             they are not used (on an idle machine, or with more --rounds, times spread less)"
        ));
    }
    if choice.shape.len() > 1 {
        printer::piece(&picture(&choice.shape));
        printer::line(&format!(
            "{}, {:.2} tokens per step expected, {:.2} times as fast as plain decoding expected",
            units::of(choice.shape.len() - 1, "draft"),
            choice.expected_tokens,
            choice.expected_speedup
        ));
    }
    print_decoded(&found.record.decoded, choice.shape.len() > 1);
}

/// Trees that decoded prompts, and which of them is used from now on.
fn print_decoded(decoded: &[DecodedTree], has_tree: bool) {
    let mut table = Table::new([Column::text("tree"), Column::number("tokens/step"), Column::number("speed-up")]);
    for DecodedTree { tree, tokens_per_step, speedup } in decoded {
        table.row([tree.clone(), format!("{tokens_per_step:.2}"), format!("{speedup:.2}")]);
    }
    printer::table(&table);
    printer::line(&match decoded.first().filter(|fastest| fastest.speedup > 1.0) {
        Some(fastest) => format!("from now on these heads draft with tree {}", fastest.tree),
        None if has_tree => "from now on these heads draft with tree calibrated".into(),
        None => "no tree beats plain decoding here: generate will decode plainly with these heads".into(),
    });
}

/// A tree as indented lines: each node with its rank.
pub fn picture(shape: &TreeShape) -> String {
    let mut lines = vec!["root".to_owned()];
    draw(shape, 0, "", &mut lines);
    lines.join("\n") + "\n"
}

fn draw(shape: &TreeShape, node: usize, indent: &str, lines: &mut Vec<String>) {
    let children: Vec<usize> = (1..shape.len()).filter(|&child| shape.parents()[child] == node).collect();
    for (i, &child) in children.iter().enumerate() {
        let last = i + 1 == children.len();
        let rank = shape.path(child).last().copied().unwrap_or(0);
        lines.push(format!("{indent}{} {rank}", if last { "└─" } else { "├─" }));
        draw(shape, child, &format!("{indent}{}  ", if last { " " } else { "│" }), lines);
    }
}
