//! Plans hold: inputs, layer ranges, positions, several plans together.

use crate::passes::targets::{PARENTS, decoders, layers, plain, random, same, tokens};
use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::CacheError;
use gorgon_model::error::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Input, Inputs, PassOutput, PassPlan, PlanError};
use gorgon_model::target::{DecoderTarget, Target};

/// A pass through the first layers and one through the others equal the pass through all.
#[test]
fn layer_ranges_resume_to_the_bit() {
    for (name, decoder) in decoders("layer ranges") {
        let (all, ids) = (decoder.config().layers, tokens(&decoder, 7, 1));
        let mask = AttentionMask::in_tree(&PARENTS);
        let plan = PassPlan::of_tokens(&ids, &mask);
        let mut whole = plain(&decoder);
        let want = whole.verify(&plan).unwrap();
        assert!(want.stream.is_none());
        whole.commit(&[0, 1, 3]).unwrap();
        let next = whole.verify_tree(&TokenTree::root(3)).unwrap();
        for exit in 1..all {
            let mut parts = plain(&decoder);
            let first = parts.verify(&layers(plan.clone(), 0..exit)).unwrap();
            let stream = first.stream.unwrap();
            assert_eq!((first.hidden.rows(), stream.rows()), (7, 7));
            let rest = PassPlan { inputs: Inputs::States(&stream), ..layers(plan.clone(), exit..all) };
            let got = parts.verify(&rest).unwrap();
            assert!(got.stream.is_none());
            same(&format!("{name} from layer {exit}"), &got.hidden, &want.hidden);
            parts.commit(&[0, 1, 3]).unwrap();
            let after = parts.verify_tree(&TokenTree::root(3)).unwrap();
            same(&format!("{name} after layer {exit}"), &after.hidden, &next.hidden);
        }
    }
}

/// Drafts row by row through the first layers, verified by one pass through the others, as an early exit does it.
#[test]
fn rows_that_came_one_by_one_are_resumed_together() {
    for (name, decoder) in decoders("early exit") {
        let (all, ids) = (decoder.config().layers, tokens(&decoder, 5, 2));
        let want = plain(&decoder).extend(&ids).unwrap();
        let mut target = plain(&decoder);
        let mut streams = vec![];
        for row in 0..ids.len() {
            let mask = AttentionMask::after(row, [(0..=row).collect::<Vec<_>>()]);
            let output = target.verify(&layers(PassPlan::of_tokens(&ids[row..=row], &mask), 0..1)).unwrap();
            let (hidden, stream) = (output.hidden, output.stream.unwrap());
            assert_eq!((hidden.rows(), stream.width()), (1, decoder.config().hidden_size));
            streams.push(stream);
        }
        if all > 1 {
            assert!(target.commit(&[0]).is_err(), "rows that have not run all layers are not committed");
        }
        let (stream, mask) = (HiddenStates::concat(&streams), AttentionMask::Causal { rows: ids.len() });
        let plan = PassPlan { inputs: Inputs::States(&stream), ..PassPlan::of_tokens(&[], &mask) };
        if all > 1 {
            let got = target.verify(&layers(plan, 1..all)).unwrap();
            same(&name, &got.hidden, &want.hidden);
            target.commit(&[0, 1, 2]).unwrap();
            assert_eq!(target.len(), 24);
        }
    }
}

/// Embeddings may come from a table or as hidden states.
#[test]
fn rows_of_a_table_and_states_are_inputs() {
    for (name, decoder) in decoders("inputs") {
        let ids = tokens(&decoder, 7, 3);
        let mask = AttentionMask::in_tree(&PARENTS);
        let want = plain(&decoder).verify(&PassPlan::of_tokens(&ids, &mask)).unwrap();
        let embedded = decoder.embed(&ids).unwrap();
        let row = |i: usize| if i % 3 == 1 { Input::Embedding(i) } else { Input::Token(ids[i]) };
        let rows: Vec<Input> = (0..7).map(row).collect();
        for inputs in [Inputs::Rows { rows: &rows, table: &embedded }, Inputs::States(&embedded)] {
            let plan = PassPlan { inputs, ..PassPlan::of_tokens(&ids, &mask) };
            let mut target = plain(&decoder);
            same(
                &format!("{name} {inputs:?}").chars().take(40).collect::<String>(),
                &target.verify(&plan).unwrap().hidden,
                &want.hidden,
            );
            target.commit(&[0, 2]).unwrap();
        }
    }
}

/// Rows in any order, at given positions, are what they are in the order of a text, through windows as well.
#[test]
fn positions_are_those_that_are_given() {
    for (name, decoder) in decoders("positions") {
        let ids = tokens(&decoder, 9, 4);
        let mut ordered = plain(&decoder);
        let want = ordered.extend(&ids).unwrap();
        let next = ordered.verify_tree(&TokenTree::root(3)).unwrap();
        // Row `i` of the pass holds position `order[i]` of the text.
        let order = [8, 0, 1, 5, 2, 3, 4, 7, 6];
        let row_of = |position: usize| order.iter().position(|&p| p == position).unwrap();
        let shuffled: Vec<u32> = order.iter().map(|&position| ids[position]).collect();
        let sees = |&position: &usize| (0..=position).map(row_of).collect::<Vec<_>>();
        let mask = AttentionMask::from_paths(order.iter().map(sees));
        let plan = PassPlan { positions: Some(&order), ..PassPlan::of_tokens(&shuffled, &mask) };
        let mut target = plain(&decoder);
        let got = target.verify(&plan).unwrap();
        same(&name, &got.hidden, &want.hidden.select(&order));
        let misplaced = target.commit(&[1, 2, 3]);
        let (row, position, committed) = (3, 5, 2);
        assert!(
            matches!(misplaced, Err(ModelError::Cache(e)) if e == CacheError::Position { row, position, committed })
        );
        target.commit(&[1, 2, 4, 5, 6]).unwrap();
        let rest = target.extend(&ids[5..]).unwrap();
        same(&name, &rest.hidden, &want.hidden.narrow(5, 4));
        same(&name, &target.verify_tree(&TokenTree::root(3)).unwrap().hidden, &next.hidden);
    }
}

/// Positions of earlier passes over the uncommitted rows count in later ones.
#[test]
fn positions_hold_over_several_passes() {
    for (name, decoder) in decoders("positions of levels") {
        let ids = tokens(&decoder, 6, 5);
        let want = plain(&decoder).extend(&ids).unwrap();
        let mut target = plain(&decoder);
        let (first, second) = ([1usize, 0], [3usize, 2, 5, 4]);
        let mask = AttentionMask::from_paths([vec![1, 0], vec![1]]);
        let level: Vec<u32> = first.iter().map(|&p| ids[p]).collect();
        let got = target.verify(&PassPlan { positions: Some(&first), ..PassPlan::of_tokens(&level, &mask) }).unwrap();
        same(&name, &got.hidden, &want.hidden.select(&first));
        // By position: rows 1, 0, 3, 2, 5, 4.
        let rows = [1, 0, 3, 2, 5, 4];
        let mask = AttentionMask::after(2, second.iter().map(|&position| rows[..=position].to_vec()));
        let level: Vec<u32> = second.iter().map(|&p| ids[p]).collect();
        let got = target.verify(&PassPlan { positions: Some(&second), ..PassPlan::of_tokens(&level, &mask) }).unwrap();
        same(&name, &got.hidden, &want.hidden.select(&second));
    }
}

/// Several sequences' passes in one equal each alone, whatever their plans.
#[test]
fn plans_run_together_as_they_run_alone() {
    let decoder = random();
    let ids = tokens(&decoder, 7, 6);
    let (tree, chain) = (AttentionMask::in_tree(&PARENTS), AttentionMask::Causal { rows: 2 });
    let positions = [0, 1, 1, 4, 4, 5, 9];
    let table = decoder.embed(&ids).unwrap();
    let plans = [
        layers(PassPlan { positions: Some(&positions), ..PassPlan::of_tokens(&ids, &tree) }, 0..3),
        layers(PassPlan { inputs: Inputs::States(&table), ..PassPlan::of_tokens(&ids, &tree) }, 0..3),
        layers(PassPlan::of_tokens(&ids[..2], &chain), 0..3),
    ];
    let mut targets = [plain(&decoder), plain(&decoder), DecoderTarget::new(decoder.clone(), 64, Hooks::none())];
    targets[2].prefill(&ids[..3]).unwrap();
    let alone: Vec<PassOutput> = targets
        .iter_mut()
        .zip(&plans)
        .map(|(target, plan)| {
            let output = target.verify(plan).unwrap();
            target.roll_back();
            output
        })
        .collect();
    let mut group: Vec<_> = targets.iter_mut().zip(plans.clone()).collect();
    let together = DecoderTarget::verify_together(&mut group).unwrap();
    let hidden: Vec<HiddenStates> = alone.iter().map(|output| output.hidden.clone()).collect();
    let streams: Vec<HiddenStates> = alone.into_iter().filter_map(|output| output.stream).collect();
    same("hidden", &together.hidden, &HiddenStates::concat(&hidden));
    same("stream", &together.stream.unwrap(), &HiddenStates::concat(&streams));
    group.iter_mut().for_each(|(target, _)| target.roll_back());
    group[1].1.layers = None;
    let mixed = DecoderTarget::verify_together(&mut group).unwrap_err();
    assert!(
        matches!(mixed, ModelError::Plan(PlanError::Together { first, other }) if first == (0..3) && other == (0..4))
    );
    group[1].1.layers = Some(0..3);
    assert!(DecoderTarget::verify_together(&mut group).is_ok(), "nothing stays uncommitted after an error");
    let other = random();
    let (mut a, mut b) = (plain(&decoder), plain(&other));
    let plan = PassPlan::of_tokens(&ids, &tree);
    let foreign = DecoderTarget::verify_together(&mut [(&mut a, plan.clone()), (&mut b, plan)]).unwrap_err();
    assert!(matches!(foreign, ModelError::Plan(PlanError::Group(1))));
}
