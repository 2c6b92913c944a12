//! Tests of `replay`.

use super::*;
use crate::step_times::StepTime;
use gorgon_core::tree::{ChainTree, Trie};
use gorgon_draft::drafter::{DraftError, NoDrafter, Proposal};
use gorgon_draft::jacobi::JacobiDrafter;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_draft::recycle::RecycleDrafter;

fn recorded(prompt: &[Token], answer: &[Token]) -> RecordedAnswer {
    RecordedAnswer { id: "one".into(), category: "all".into(), prompt: prompt.into(), answer: answer.into() }
}

/// Drafts given phrases, and keeps what it is told.
struct Phrases {
    phrases: Vec<Vec<Token>>,
    text: Vec<Token>,
    next: Option<Token>,
}

impl Drafter for Phrases {
    fn name(&self) -> &str {
        "phrases"
    }

    fn reset(&mut self) {
        self.text.clear();
        self.next = None;
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.text.extend(pass.tokens);
        self.next = pass.verified.map(|verified| verified.next);
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        assert!(self.next.is_none_or(|next| next == root));
        let mut trie = Trie::new(root, 64, 8);
        self.phrases.iter().for_each(|phrase| drop(trie.insert(phrase)));
        Ok(Proposal::list(trie.into_draft()))
    }
}

#[test]
fn a_step_emits_accepted_drafts_and_a_token() {
    let mut drafter = Phrases { phrases: vec![vec![1, 2], vec![1, 3, 4]], text: vec![9], next: None };
    // Steps on 5, 7 and 6: of the first, 1 3 4 is accepted and 7 follows.
    let replayed =
        replay(&mut drafter, &ChainTree::ROOT, &recorded(&[8, 8], &[5, 1, 3, 4, 7, 6, 0]), &mut |_| {}).unwrap();
    assert_eq!((replayed.tokens, replayed.steps, replayed.nodes), (6, 3, 15));
    assert_eq!(replayed.accepted, [2, 0, 0, 1]);
    assert_eq!(replayed.sizes, [0, 0, 0, 0, 0, 3]);
    assert_eq!(drafter.text, [8, 8, 5, 1, 3, 4, 7, 6], "the last token is emitted and not read");
    // The answer ends within the drafts: nothing follows them.
    let replayed = replay(&mut drafter, &ChainTree::ROOT, &recorded(&[], &[5, 1, 3]), &mut |_| {}).unwrap();
    assert_eq!((replayed.tokens, replayed.steps, replayed.accepted), (2, 1, vec![0, 0, 1]));
    assert_eq!(drafter.text, [5, 1]);
}

#[test]
fn without_drafts_a_step_emits_a_token() {
    for length in 0..5 {
        let answer: Vec<Token> = (0..length).collect();
        let replayed = replay(&mut NoDrafter, &ChainTree::ROOT, &recorded(&[3], &answer), &mut |_| {}).unwrap();
        let steps = answer.len().saturating_sub(1);
        assert_eq!((replayed.tokens, replayed.steps, replayed.nodes), (steps, steps, steps));
    }
}

/// Tokens per step of prompt lookup by its definition: what followed the last tokens before.
fn looked_up(prompt: &[Token], answer: &[Token], n: usize, drafts: usize) -> usize {
    let (mut text, mut root, mut steps) = (prompt.to_vec(), 0, 0);
    while root + 1 < answer.len() {
        text.push(answer[root]);
        let tree = ChainTree::new(drafts).unwrap();
        let mut drafter = NgramDrafter::new(n);
        let rows: Vec<usize> = (0..text.len() - 1).collect();
        drafter.observe(VerifiedPass::prompt(&text[..text.len() - 1], &nothing(), &rows)).unwrap();
        let proposal = drafter.propose(answer[root], &tree).unwrap();
        let drafted = &proposal.draft.tree().tokens()[1..];
        let right = drafted.iter().zip(&answer[root + 1..]).take_while(|(draft, token)| draft == token).count();
        let emitted = (right + 1).min(answer.len() - 1 - root);
        text.extend(&answer[root + 1..root + emitted]);
        (root, steps) = (root + emitted, steps + 1);
    }
    steps
}

#[test]
fn a_drafter_that_is_replayed_sees_the_text_alone() {
    let mut random = SeededRandom::new(5);
    let mut tokens = |count: usize| -> Vec<Token> { (0..count).map(|_| (random.uniform() * 3.0) as Token).collect() };
    let mut drafter = NgramDrafter::new(3);
    let mut all = vec![];
    for length in 1..40 {
        let one = recorded(&tokens(length), &tokens(length + 7));
        let replayed = replay(&mut drafter, &ChainTree::new(4).unwrap(), &one, &mut |_| {}).unwrap();
        assert_eq!(replayed.steps, looked_up(&one.prompt, &one.answer, 3, 4));
        all.push(replayed);
    }
    let summary = summarise(&all, None).unwrap();
    assert_eq!((summary.answers, summary.tokens), (39, (1..40).map(|length| length + 6).sum()));
    assert!(summary.tokens_per_step > 1.2 && summary.acceptance_by_depth.len() == 4);
    assert!(summary.acceptance_by_depth.windows(2).all(|pair| pair[0] >= pair[1]));
    assert_eq!(summarise(&[], None), None);
}

#[test]
fn drafters_that_read_the_target_are_told_apart() {
    assert!(reads_tokens_alone(&NgramDrafter::new(2)) && reads_tokens_alone(&NoDrafter));
    assert!(!reads_tokens_alone(&JacobiDrafter::new(2)) && !reads_tokens_alone(&RecycleDrafter::new(2)));
}

#[test]
fn known_times_give_a_speed() {
    let time = |nodes, seconds| StepTime { nodes, seconds, draft_seconds: 0.0, spread: 0.0 };
    let costs = StepCurve::new(vec![time(1, 1.0), time(3, 2.0)]).unwrap();
    let mut replayed = replay(&mut NoDrafter, &ChainTree::ROOT, &recorded(&[3], &[1, 2, 3]), &mut |_| {}).unwrap();
    replayed.draft_seconds = 0.0;
    assert_eq!(summarise([&replayed], Some(&costs)).unwrap().speedup, Some(1.0));
    // Two steps of 3 and 2 nodes emit 6 tokens, and drafting takes half a plain step.
    replayed = Replay { tokens: 6, steps: 2, nodes: 5, sizes: vec![0, 0, 1, 1], draft_seconds: 0.5, ..replayed };
    let speedup = summarise([&replayed], Some(&costs)).unwrap().speedup.unwrap();
    assert!((speedup - 6.0 / (2.0 + 1.5 + 0.5)).abs() < 1e-12, "{speedup}");
}
