//! Tests of `suffix`.

use super::*;
use crate::store::StoreBuilder;
use crate::toy::{Toy, choose};
use gorgon_core::accept::SamplingScheme;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::ChainTree;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};

fn plain() -> SuffixDrafter {
    SuffixDrafter::new(Suffix { store: None, least: 1 })
}

fn observe(drafter: &mut dyn Drafter, tokens: &[Token]) {
    let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let rows: Vec<usize> = (0..tokens.len()).collect();
    drafter.observe(VerifiedPass::prompt(tokens, &output, &rows)).unwrap();
}

fn drafted(text: &[Token], root: Token, tree: &dyn TreeBuilder) -> Vec<Token> {
    let mut drafter = plain();
    observe(&mut drafter, text);
    drafter.propose(root, tree).unwrap().draft.tree().tokens().to_vec()
}

#[test]
fn the_length_of_a_draft_follows_the_match() {
    let long = ChainTree::new(60).unwrap();
    assert_eq!(drafted(&[1, 2, 3], 9, &long), [9], "nothing repeats");
    // One token matches: eight drafts, as few as there are.
    assert_eq!(drafted(&[5, 1, 2, 3, 4, 6, 7, 8, 10, 11, 12], 5, &long), [5, 1, 2, 3, 4, 6, 7, 8, 10]);
    let u: Vec<Token> = (100..160).collect();
    for seen in [1, 3, 20] {
        let text = [&u[..], &u[..seen]].concat();
        let tokens = drafted(&text, u[seen], &long);
        let drafts = (4 * (seen + 1)).max(8).min(60 - seen - 1).min(tokens.len() - 1);
        assert_eq!(tokens[1..=drafts], u[seen + 1..][..drafts]);
    }
    // The root is part of the text, and a draft goes on behind the end of it.
    assert_eq!(drafted(&[7, 7], 7, &ChainTree::new(5).unwrap()), [7; 6]);
    assert_eq!(drafted(&[], 7, &long), [7]);
}

/// A draft that runs into the end of the text has followed its match for `m` tokens and what lies between for `d`, and
/// goes on from the match if `m ≥ d`.
#[test]
fn a_draft_goes_on_behind_the_end_of_a_text_that_repeats_itself() {
    let chain = ChainTree::new(12).unwrap();
    assert_eq!(drafted(&[8], 8, &chain), [8; 9], "one token of two");
    let three = [3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3];
    assert_eq!(drafted(&[1, 2, 3, 1, 2, 3, 1, 2], 3, &chain), three, "six of nine");
    let two = [6, 4, 5, 6, 4, 5, 6, 4, 5, 6, 4, 5, 6];
    assert_eq!(drafted(&[4, 5, 6, 4, 5], 6, &chain), two, "three of six");
    assert_eq!(drafted(&[4, 5, 6, 7, 4, 5], 6, &chain), [6, 7, 4, 5, 6], "three of seven");
    assert_eq!(drafted(&[5, 1, 9], 5, &chain), [5, 1, 9, 5], "one of four");
    assert_eq!(drafted(&[5, 1, 9, 2, 3], 5, &chain), [5, 1, 9, 2, 3, 5], "one of six");
    // A match in the middle of the text: eight drafts, as few as there are, do not reach the end.
    assert_eq!(drafted(&[2, 5, 1, 9, 4, 6, 7, 8, 3, 10, 11], 5, &chain), [5, 1, 9, 4, 6, 7, 8, 3, 10]);
}

/// Tokens in front of what repeats itself, such as a prompt, change nothing: they are no part of the match.
#[test]
fn a_draft_goes_on_behind_a_prompt() {
    let chain = ChainTree::new(20).unwrap();
    let prompt: Vec<Token> = (1000..1100).collect();
    let text = [&prompt[..], &[4, 5, 6].repeat(5)[..], &[4, 5]].concat();
    let want: Vec<Token> = (0..21).map(|i| 4 + (i + 2) % 3).collect();
    assert_eq!(drafted(&text, 6, &chain), want);
    let text = [&prompt[..], &[7; 20]].concat();
    assert_eq!(drafted(&text, 7, &chain), [7; 21]);
    let text = [&prompt[..], &[4, 5, 6, 7, 4, 5]].concat();
    assert_eq!(drafted(&text, 6, &chain), [6, 7, 4, 5, 6]);
}

/// Of `u u`, all of the second `u` is drafted once a token of it matches.
#[test]
fn a_repeated_text_is_drafted_as_a_whole() {
    let u: Vec<Token> = (0..200).map(|i| i * 7919 % 9973).collect();
    let tree = OwnTree::new(60, 59).unwrap();
    let mut drafter = plain();
    observe(&mut drafter, &u);
    let mut at = 0;
    let mut steps = 0;
    while at + 1 < u.len() {
        let proposal = drafter.propose(u[at], &tree).unwrap();
        let tokens = &proposal.draft.tree().tokens()[1..];
        let right = tokens.iter().zip(&u[at + 1..]).take_while(|(a, b)| a == b).count();
        assert!(right == tokens.len() || at + 1 + right == u.len(), "every draft is right");
        let read = &u[at..(at + 1 + right).min(u.len() - 1)];
        observe(&mut drafter, read);
        at += read.len();
        steps += 1;
    }
    assert!(steps <= 8, "{steps}");
}

#[test]
fn children_are_shares_of_what_followed() {
    let mut drafter = plain();
    observe(&mut drafter, &[1, 5, 1, 6, 1, 7, 1, 6, 2]);
    let draft = drafter.propose(1, &OwnTree::new(60, 1).unwrap()).unwrap().draft;
    assert_eq!(draft.tree().tokens(), [1, 6, 7, 5]);
    assert_eq!(draft.probabilities(), [1.0, 0.5, 0.25, 0.25]);
}

/// Rules accept them as given tokens, which lossless rules accept losslessly.
#[test]
fn drafts_are_a_list() {
    let mut drafter = plain();
    observe(&mut drafter, &[1, 5, 1, 6, 1, 7, 1, 6, 2]);
    let proposal = drafter.propose(1, &OwnTree::new(60, 5).unwrap()).unwrap();
    assert_eq!(proposal.sources.len(), 1);
    assert_eq!((proposal.sources[0].scheme, &proposal.sources[0].rows), (SamplingScheme::Deterministic, &None));
    assert_eq!(proposal.draft.entries(), None);
}

#[test]
fn greedy_text_is_plain_text() {
    for seed in 0..20 {
        let prompt: Vec<Token> = (0..30).map(|i| (i * seed + i * i) % 11).collect();
        let (mut toy, mut text) = (Toy::new(plain(), &prompt), prompt.clone());
        let mut steps = 0;
        while toy.text.len() < 300 {
            toy.step().emitted.iter().for_each(|_| text.push(choose(&text)));
            assert_eq!(toy.text, text, "seed {seed}");
            steps += 1;
        }
        assert!(steps < 270, "something is accepted: {steps}");
    }
}

/// A drafter that went back, was given another root, or was reset drafts as one that reads the text anew.
#[test]
fn going_back_leaves_no_trace() {
    let tree = OwnTree::new(30, 12).unwrap();
    for seed in 0..200 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let (mut drafter, mut text) = (plain(), vec![]);
        for _ in 0..20 {
            let more: Vec<Token> = (0..below(9)).map(|_| below(3) as Token).collect();
            observe(&mut drafter, &more);
            text.extend(more);
            match below(6) {
                0 => {
                    let length = below(text.len() + 2);
                    assert!(drafter.truncate(length));
                    text.truncate(length);
                }
                1 => {
                    drafter.reset();
                    text.clear();
                }
                _ => {}
            }
            let root = below(3) as Token;
            let mut anew = plain();
            observe(&mut anew, &text);
            let want = anew.propose(root, &tree).unwrap().draft;
            assert_eq!(drafter.propose(root, &tree).unwrap().draft, want, "seed {seed}, {text:?}");
        }
    }
}

#[test]
fn a_store_drafts_where_its_match_is_much_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut builder = StoreBuilder::default();
    builder.add(&(100..140).collect::<Vec<_>>()).unwrap();
    builder.write(&path, &"0".repeat(64)).unwrap();
    let settings = Suffix::parse(path.to_str().unwrap()).unwrap().opened().unwrap();
    let chain = ChainTree::new(4).unwrap();
    let tokens = |text: &[Token], root: Token| {
        let mut drafter = SuffixDrafter::new(settings.clone());
        observe(&mut drafter, text);
        drafter.propose(root, &chain).unwrap().draft.tree().tokens().to_vec()
    };
    let begin: Vec<Token> = (100..106).collect();
    assert_eq!(tokens(&begin, 106), [106, 107, 108, 109, 110], "seven tokens against none");
    assert_eq!(tokens(&begin[..1], 101), [101, 102, 103, 104, 105], "two tokens against none");
    assert_eq!(tokens(&[], 101), [101], "one token against none");
    let own = [&[103, 1, 104, 2][..], &begin[..4]].concat();
    assert_eq!(tokens(&own, 104), [104, 2, 100, 101, 102], "five tokens against one");
    let own = [&[105, 106, 1, 2][..], &begin].concat();
    assert_eq!(tokens(&own, 106), [106, 1, 2, 100, 101], "seven tokens against two");
    let own = [&[106, 1, 2][..], &begin].concat();
    assert_eq!(tokens(&own, 106), [106, 107, 108, 109, 110], "seven tokens against one");
}

#[test]
fn settings_are_checked() {
    assert_eq!(Suffix::parse("").unwrap().name(), "suffix");
    assert_eq!(Suffix::parse("a,b:c").unwrap().name(), "suffix:a,b:c");
    let missing = Suffix::parse("no/such/store").unwrap().opened().unwrap_err();
    assert!(missing.starts_with("no/such/store: "), "{missing}");
}
