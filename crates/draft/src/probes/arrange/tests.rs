//! Tests of probes in trees.

use super::*;
use gorgon_core::tree::NodeKind;

/// A root with children of 0.6 and 0.3, and a child of 0.5 under the first.
fn grown() -> DraftTree {
    let mut tree = DraftTree::root(1);
    let first = tree.push(0, Candidate { token: 2, probability: 0.6 });
    tree.push(0, Candidate { token: 3, probability: 0.3 });
    tree.push(first, Candidate { token: 4, probability: 0.5 });
    tree
}

fn arrange(how: Arrangement<'_>) -> DraftTree {
    arranged(&grown(), &how, |place, member| NodeInput::Embedding(place * how.members + member))
}

/// Drafted tokens, and the probes behind each of them and the root.
fn shown(tree: &DraftTree) -> Vec<(u32, usize)> {
    let tree = tree.tree();
    let drafts = (0..tree.len()).filter(|&node| tree.kind(node) == NodeKind::Draft);
    let probes = |node: usize| (node + 1..tree.len()).take_while(|&next| tree.is_probe(next)).count();
    drafts.map(|node| (tree.token(node), probes(node))).collect()
}

#[test]
fn rows_go_where_they_are_worth_most() {
    let gains = [0.8, 0.4];
    let how = |rows, drops| Arrangement { gains: &gains, members: 1, rows, drops };
    // b is 0.3 for tokens 2, 3 and 4 each: candidates 0.6, 0.3, 0.3, each with a probe, then second probes 0.12.
    assert_eq!(shown(&arrange(how(1, true))), [(1, 0)]);
    assert_eq!(shown(&arrange(how(3, true))), [(1, 2)]);
    assert_eq!(shown(&arrange(how(4, true))), [(1, 2), (2, 0)]);
    assert_eq!(shown(&arrange(how(5, true))), [(1, 2), (2, 1)]);
    assert_eq!(shown(&arrange(how(6, true))), [(1, 2), (2, 2)]);
    assert_eq!(shown(&arrange(how(7, true))), [(1, 2), (2, 1), (3, 1)]);
    assert_eq!(shown(&arrange(how(100, true))), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(shown(&arrange(how(4, false))), [(1, 2), (2, 1), (3, 1), (4, 0)]);
    assert_eq!(shown(&arrange(how(0, false))), [(1, 0), (2, 0), (3, 0), (4, 0)]);
}

/// No choice of as many rows with a probe behind every candidate is worth more, as long as the values of the rows do not
/// depend on each other; of four rows, one is left for a candidate without a probe.
#[test]
fn the_choice_is_the_best_of_all() {
    let gains = [0.9, 0.2];
    for rows in [3].into_iter().chain(5..12) {
        let how = Arrangement { gains: &gains, members: 1, rows, drops: true };
        let value = |stays: usize, places: [usize; 3]| {
            let a = [0.6, 0.3, 0.3];
            let b = [0.3, 0.3, 0.3];
            let one = |i: usize| {
                let probes: f64 = gains[..places[i]].iter().map(|gain| b[i] * gain).sum();
                if stays >> i & 1 == 1 { a[i] + probes } else { 0.0 }
            };
            (0..3).map(one).sum::<f64>()
        };
        let mut best = 0.0f64;
        for stays in (0..8usize).filter(|stays| stays & 4 == 0 || stays & 1 == 1) {
            for code in 0..8 {
                let places = [1 + code % 2, 1 + code / 2 % 2, 1 + code / 4];
                let used = (0..3).filter(|i| stays >> i & 1 == 1).map(|i| 1 + places[i]).sum::<usize>();
                if 1 + gains.len() + used <= rows {
                    best = best.max(value(stays, places));
                }
            }
        }
        let found = shown(&arrange(how));
        let of = |token: u32| found.iter().find(|(known, _)| *known == token).map(|(_, places)| *places);
        let stays = (0..3).filter(|&i| of(i + 2).is_some()).map(|i| 1 << i).sum();
        let got = value(stays, [2, 3, 4].map(|token| of(token).unwrap_or(0)));
        assert!((got - best).abs() < 1e-12, "{rows} rows: {got} {best}");
    }
}

#[test]
fn places_are_worth_what_their_depth_is() {
    let close = |found: &[f64], want: &[f64]| {
        assert_eq!(found.len(), want.len());
        found.iter().zip(want).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{found:?}"));
    };
    // Depth 1 has 0.6 and 0.3, depth 2 has 0.6 · 0.5; deeper values fall by a third each.
    close(&gains(&grown(), 4), &[0.9, 0.3, 0.1, 0.1 / 3.0]);
    close(&gains(&grown(), 1), &[0.9]);
    close(&gains(&DraftTree::root(1), 2), &[1.0, 1.0]);
    assert!(gains(&grown(), 0).is_empty());
}

#[test]
fn members_are_chains_of_their_own() {
    let gains = [0.8, 0.4];
    let tree = arrange(Arrangement { gains: &gains, members: 2, rows: 5, drops: true });
    assert_eq!(tree.tree().parents(), [0, 0, 1, 0, 3]);
    let inputs: Vec<NodeInput> = (1..5).map(|node| tree.tree().input(node)).collect();
    assert_eq!(inputs, [0, 2, 1, 3].map(NodeInput::Embedding));
    // A probe of which only one member fits is left out. Where none fits, candidates have none.
    assert_eq!(arrange(Arrangement { gains: &gains, members: 2, rows: 4, drops: true }).tree().len(), 4);
    assert_eq!(arrange(Arrangement { gains: &gains, members: 2, rows: 7, drops: true }).tree().len(), 7);
    assert_eq!(arrange(Arrangement { gains: &gains, members: 2, rows: 8, drops: true }).tree().len(), 8);
}
