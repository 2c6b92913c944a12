//! Plans that contradict themselves, the target or the passes before them.

use crate::passes::targets::{PARENTS, layers, plain, random, same, started, tokens};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::CacheError;
use gorgon_model::decoder::Decoder;
use gorgon_model::error::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Input, Inputs, PassPlan, PlanError};
use gorgon_model::target::Target;
use std::sync::Arc;

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
        let device = HiddenStates::on_device(table.tensor());
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
    let resumed =
        |mask| PassPlan { inputs: Inputs::States(&stream), mask, positions: None, layers: Some(2..4), skipped: None };
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
