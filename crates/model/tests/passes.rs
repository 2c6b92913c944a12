//! Passes as plans: rows of embeddings, hidden states, positions, layer ranges, and plans that contradict themselves.
//!
//! `GORGON_TEST_DEVICE` (default `cpu`) names the device. On the CPU results are compared bit for bit.

#[path = "../../core/tests/shared/mod.rs"]
mod shared;

use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::CacheError;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::error::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Input, Inputs, PassOutput, PassPlan, PlanError};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 48,
    intermediate_size: 70,
    layers: 4,
    heads: 4,
    kv_heads: 2,
    vocab_size: 333,
    max_positions: 64,
};

fn load(dir: &Path) -> Arc<Decoder> {
    let device = std::env::var("GORGON_TEST_DEVICE").unwrap_or_else(|_| "cpu".into());
    let compute = Compute::resolve(device.parse().unwrap(), Some(FloatFormat::F32)).unwrap();
    Arc::new(Decoder::load(dir, &compute).unwrap())
}

fn random() -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 7).unwrap();
    load(dir.path())
}

/// A random model, and the reference backbone of every architecture.
fn decoders(test: &str) -> Vec<(String, Arc<Decoder>)> {
    let mut all = vec![("random".to_owned(), random())];
    let Some(root) = shared::shared("fixtures/backbones", test) else { return all };
    for entry in std::fs::read_dir(root).unwrap() {
        let dir = entry.unwrap().path();
        if dir.join("expected.safetensors").is_file() {
            all.push((dir.file_name().unwrap().to_string_lossy().into_owned(), load(&dir)));
        }
    }
    all
}

fn tokens(decoder: &Decoder, count: usize, salt: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * 53 + salt * 29 + 5) % decoder.config().vocab_size) as u32).collect()
}

/// A target that has read 21 tokens, which is more than the windows of the reference backbones.
fn started(decoder: &Arc<Decoder>, hooks: Hooks) -> DecoderTarget {
    let mut target = DecoderTarget::new(decoder.clone(), 128, hooks);
    target.prefill(&tokens(decoder, 21, 0)).unwrap();
    target
}

fn plain(decoder: &Arc<Decoder>) -> DecoderTarget {
    started(decoder, Hooks::none())
}

#[track_caller]
fn same(what: &str, got: &HiddenStates, want: &HiddenStates) {
    let exact = got.on_host().is_some();
    let (got, want) = (got.clone().into_values(), want.clone().into_values());
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!(if exact { got == want } else { worst < 1e-3 }, "{what}: {worst:e}");
}

/// Seven nodes with branches.
const PARENTS: [usize; 7] = [0, 0, 0, 1, 1, 3, 5];

fn layers(plan: PassPlan<'_>, layers: Range<usize>) -> PassPlan<'_> {
    PassPlan { layers: Some(layers), ..plan }
}

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

/// Hidden states are hooked where layers run, and an error names a layer that does not.
#[test]
fn hooks_of_layers_that_do_not_run_are_errors() {
    let decoder = random();
    let (ids, mask) = (tokens(&decoder, 7, 7), AttentionMask::in_tree(&PARENTS));
    let hooks = |layers: &[usize]| Hooks::new(layers.to_vec(), 4).unwrap();
    let whole = started(&decoder, hooks(&[0, 2, 1])).verify(&PassPlan::of_tokens(&ids, &mask)).unwrap();
    let mut target = started(&decoder, hooks(&[0, 2, 1]));
    let early = target.verify(&layers(PassPlan::of_tokens(&ids, &mask), 0..2)).unwrap();
    early.hooks.iter().zip(&whole.hooks).for_each(|(got, want)| same("a hooked layer", got, want));
    same("the stream", &early.stream.unwrap(), &whole.hooks[1]);
    target.roll_back();
    let error = target.verify(&layers(PassPlan::of_tokens(&ids, &mask), 0..1)).unwrap_err();
    assert!(error.to_string().contains("in front of layer 2"), "{error}");
    assert!(target.verify(&PassPlan::of_tokens(&ids, &mask)).is_ok(), "the failed pass left nothing behind");
}

/// The error of a plan, after which the target is as it was.
#[track_caller]
fn refused(decoder: &Arc<Decoder>, plan: &PassPlan<'_>) -> ModelError {
    let mut target = plain(decoder);
    let error = target.verify(plan).unwrap_err();
    let again = target.extend(&[1, 2]).unwrap();
    same("after an error", &again.hidden, &plain(decoder).extend(&[1, 2]).unwrap().hidden);
    error
}

#[test]
fn contradictory_plans_are_errors() {
    let decoder = random();
    let ids = tokens(&decoder, 3, 8);
    let chain = AttentionMask::Causal { rows: 3 };
    let plan = PassPlan::of_tokens(&ids, &chain);
    let wrong = |plan: PassPlan<'_>| match refused(&decoder, &plan) {
        ModelError::Plan(error) => error,
        other => panic!("{other}"),
    };
    let short = AttentionMask::Causal { rows: 2 };
    assert_eq!(wrong(PassPlan::of_tokens(&ids, &short)), PlanError::Rows { inputs: 3, mask: 2 });
    let with = |positions| PassPlan { positions: Some(positions), ..plan.clone() };
    assert_eq!(wrong(with(&[0, 1])), PlanError::Positions { positions: 2, rows: 3 });
    assert_eq!(wrong(with(&[0, 1, 65])), PlanError::Position { row: 2, position: 65, limit: 64 });
    assert_eq!(wrong(with(&[0, 1, usize::MAX])), PlanError::Position { row: 2, position: usize::MAX, limit: 64 });
    assert_eq!(wrong(with(&[0, 2, 1])), PlanError::Order { row: 2, before: 2, after: 1 });
    for (start, end) in [(0, 5), (2, 2), (0, 0), (5, 6)] {
        assert_eq!(wrong(layers(plan.clone(), start..end)), PlanError::Layers { start, end, layers: 4 });
    }
    assert_eq!(wrong(layers(plan.clone(), 1..4)), PlanError::Resumed(1));
    let mask = AttentionMask::from_paths([vec![0], vec![0, 3], vec![2]]);
    assert_eq!(wrong(PassPlan { mask: &mask, ..plan.clone() }), PlanError::Seen { row: 1, seen: 3, uncommitted: 3 });
    let mask = AttentionMask::from_paths([vec![0], vec![], vec![2]]);
    assert_eq!(wrong(PassPlan { mask: &mask, ..plan.clone() }), PlanError::Blind(1));
    let table = decoder.embed(&ids).unwrap();
    let (rows, narrow) = ([Input::Token(1), Input::Embedding(2), Input::Embedding(3)], table.clone().merge_rows(3));
    let inputs = Inputs::Rows { rows: &rows, table: &table };
    let embedding = PlanError::Embedding { row: 2, embedding: 3, embeddings: 3 };
    assert_eq!(wrong(PassPlan { inputs, ..plan.clone() }), embedding);
    let one = AttentionMask::Causal { rows: 1 };
    let width = PlanError::Width { width: 144, hidden_size: 48 };
    assert_eq!(wrong(PassPlan { inputs: Inputs::States(&narrow), mask: &one, ..plan.clone() }), width);
    if decoder.compute().is_host() {
        let device = HiddenStates::Device(table.tensor());
        assert_eq!(wrong(PassPlan { inputs: Inputs::States(&device), ..plan.clone() }), PlanError::Device);
    }
    let rows = [Input::Token(1), Input::Token(333), Input::Token(1)];
    let outside = refused(&decoder, &PassPlan { inputs: Inputs::Rows { rows: &rows, table: &table }, ..plan.clone() });
    assert!(matches!(outside, ModelError::Token { token: 333, vocab_size: 333 }));
    let none = AttentionMask::Causal { rows: 0 };
    assert!(matches!(refused(&decoder, &PassPlan::of_tokens(&[], &none)), ModelError::EmptyPrompt));
}

/// Passes that do not follow the rows before them.
#[test]
fn passes_over_missing_rows_are_errors() {
    let decoder = random();
    let (ids, chain) = (tokens(&decoder, 3, 9), AttentionMask::Causal { rows: 3 });
    let stream = decoder.embed(&ids).unwrap();
    let resumed = |mask| PassPlan { inputs: Inputs::States(&stream), mask, positions: None, layers: Some(2..4) };
    assert!(matches!(refused(&decoder, &resumed(&chain)), ModelError::Cache(CacheError::NotReserved)));
    let later = AttentionMask::after(2, [[0, 2]]);
    let gap = refused(&decoder, &PassPlan::of_tokens(&ids[..1], &later));
    assert!(matches!(gap, ModelError::Cache(CacheError::Rows { rows: 3, reserved: 1 })), "{gap}");

    let mut target = plain(&decoder);
    target.verify(&layers(PassPlan::of_tokens(&ids[..2], &AttentionMask::Causal { rows: 2 }), 0..1)).unwrap();
    let error = target.verify(&resumed(&chain)).unwrap_err();
    assert!(matches!(error, ModelError::Cache(CacheError::Rows { rows: 3, reserved: 2 })), "{error}");
    let (two, early) = (AttentionMask::Causal { rows: 2 }, stream.narrow(0, 2));
    let unfinished = target.verify(&PassPlan { inputs: Inputs::States(&early), ..resumed(&two) }).unwrap_err();
    let expected = CacheError::Unfinished { row: 0, ran: 1, layers: 2 };
    assert!(matches!(unfinished, ModelError::Cache(error) if error == expected));
    let seen = target.verify(&PassPlan::of_tokens(&ids[..1], &later)).unwrap_err();
    assert!(matches!(seen, ModelError::Cache(CacheError::Unfinished { row: 0, ran: 1, layers: 4 })), "{seen}");
    let commit = target.commit(&[0]).unwrap_err();
    assert!(matches!(commit, ModelError::Cache(CacheError::Unfinished { row: 0, ran: 1, layers: 4 })), "{commit}");
}

/// As many tokens as the context has can be committed; rows of trees may reach beyond it.
#[test]
fn the_context_is_exact_and_trees_reach_beyond_it() {
    let decoder = random();
    for (asked, context) in [(1000, 64), (30, 30)] {
        let mut target = DecoderTarget::new(decoder.clone(), asked, Hooks::none());
        assert_eq!(target.context(), context);
        let ids = tokens(&decoder, context + 1, 1);
        let full = |error| matches!(error, ModelError::Cache(CacheError::Full { .. }));
        assert!(full(target.prefill(&ids).unwrap_err()) && target.is_empty());
        target.prefill(&ids[..context - 1]).unwrap();
        let tree = TokenTree::root(9);
        let mask = AttentionMask::in_tree(&PARENTS);
        let plan = PassPlan::of_tokens(&ids[..7], &mask);
        target.verify(&plan).unwrap();
        assert!(full(target.commit(&[0, 1]).unwrap_err()));
        target.commit(&[0]).unwrap();
        assert_eq!(target.len(), context);
        assert!(full(target.extend(&ids[..1]).unwrap_err()));
        target.verify_tree(&tree).unwrap();
        assert!(full(target.commit(&[0]).unwrap_err()));
        target.commit(&[]).unwrap();
        target.truncate(context - 1);
        target.extend(&ids[..1]).unwrap();
    }
}

/// A cache that grows from step to step holds what one with all memory from the start holds.
#[test]
fn growth_changes_nothing() {
    let decoder = random();
    let ids = tokens(&decoder, 60, 1);
    let mut reserved = DecoderTarget::new(decoder.clone(), 64, Hooks::none());
    reserved.reserve(60);
    let capacity = reserved.capacity();
    let want = reserved.prefill(&ids).unwrap().hidden;
    assert_eq!((capacity, reserved.capacity()), (64, 64));
    let mut grown = DecoderTarget::new(decoder, 64, Hooks::none());
    let mut steps = vec![];
    for id in ids {
        steps.push(grown.extend(&[id]).unwrap().hidden);
    }
    same("grown", &HiddenStates::concat(&steps), &want);
}
