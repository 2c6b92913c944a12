//! The state of a step: how many probes the last accepted candidate carried.

use super::decoding::{PROMPT, decoder, limits, plain};
use super::probes;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{OwnTree, TokenTree};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::format::ProbeKind;
use gorgon_draft::probes::ProbeDrafter;
use gorgon_infer::{Method, Request, Session};
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;

/// Probes, with the places that the last accepted candidate carried and the depth of the candidates that followed.
struct Watched {
    inner: ProbeDrafter,
    carried: Option<usize>,
    states: Vec<(usize, usize)>,
}

/// The longest chain of probes behind a node.
fn places(tree: &TokenTree, node: usize) -> usize {
    let probes = (node + 1..tree.len()).filter(|&child| tree.parents()[child] == node && tree.is_probe(child));
    probes.map(|child| 1 + places(tree, child)).max().unwrap_or(0)
}

impl Drafter for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.carried = pass.verified.and_then(|verified| Some(places(verified.tree, *verified.path.last()?)));
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        let tree = proposal.draft.tree();
        let candidates = (0..tree.len()).filter(|&node| !tree.is_probe(node));
        let depth = candidates.map(|node| tree.depths()[node]).max().unwrap_or(0);
        self.states.extend(self.carried.take().map(|carried| (carried, depth)));
        Ok(proposal)
    }
}

/// A tree is as deep as the last accepted candidate carried probes, whatever the members of an ensemble are: where it
/// carried fewer than there are places, less is drafted.
#[test]
fn trees_are_as_deep_as_probes_were_carried() {
    let decoder = decoder();
    let text = plain(&decoder, 0.0);
    for (n, members) in [(3, 1), (2, 2)] {
        // Probes that name the text's last tokens, so that some drafts are accepted.
        let tokens = &text[text.len() - n * members..];
        let values = decoder.embed(tokens).unwrap().into_values().into_vec();
        let model = probes(&decoder, (ProbeKind::Ppd, n, members, false), values);
        let mut drafter = Watched { inner: ProbeDrafter::new(model), carried: None, states: vec![] };
        let mut target = DecoderTarget::new(decoder.clone(), 96, drafter.needs().hooks);
        let (tree, limits, random) = (OwnTree::new(9, n).unwrap(), limits(60), &mut SeededRandom::new(1));
        let found = Session::new(&mut target, &mut drafter)
            .generate(Method { tree: &tree, rule: &Greedy }, Request::new(&PROMPT, &limits, random), &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(found.ids, text);
        let states = &drafter.states;
        assert!(states.iter().all(|&(carried, depth)| depth <= carried && carried <= n), "{states:?}");
        assert!(states.iter().any(|&(carried, _)| carried < n), "{states:?}");
        assert!(states.iter().any(|&(carried, depth)| carried == n && depth > 0), "{states:?}");
    }
}
