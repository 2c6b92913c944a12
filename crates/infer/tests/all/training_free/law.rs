//! The law of text, by enumeration, under every rule that claims to keep it. Drafts are lists, which such rules accept
//! losslessly whatever is on them. Drafters that draw have tests of their own in `composed`.

use crate::composed::law;
use crate::composed::models::{Misstating, TINY, decoder, generate, rule};
use crate::every_drafter;
use crate::training_free::kangaroo;
use crate::training_free::kinds::{and_skip, of_store};
use gorgon_core::Token;
use gorgon_core::accept::SamplingScheme;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, FixedTree, OwnTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::drafter::{Drafter, Proposal, Source};
use gorgon_draft::kangaroo::KangarooDrafter;
use gorgon_draft::store::StoreFile;
use gorgon_draft::training_free::TrainingFree;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use std::sync::Arc;

/// Enough layers for a search to leave some out.
const SHAPE: LlamaShape = LlamaShape { layers: 4, ..TINY };
/// The first token is plain decoding's, and some drafters draft from the second step on.
const NEW: usize = 4;
const RULES: [&str; 5] = ["sampling", "block", "traversal", "k-seq", "coupled"];
const METHODS: &[&str] = &[
    "suffix",
    "ngram:2",
    "jacobi:2",
    "lookahead:2,2,2",
    "lookahead:2,2,2,window",
    "early-exit:1",
    "early-exit:3",
    "pipelined:1,2",
    "recycle:2",
    "swift:50",
];

/// Tokens that may follow the prompt. Behind two of them the match in a store of these texts is so much longer than the
/// text's own that `suffix` goes by it.
const ANSWERS: [[Token; 4]; 3] = [[0, 1, 2, 2], [1, 1, 0, 2], [2, 0, 1, 1]];

/// Makes a drafter that serves a rule.
type Make = Box<dyn Fn(DraftSampling) -> Box<dyn Drafter>>;
type Trees = Vec<Box<dyn TreeBuilder>>;

fn trees(method: Option<&TrainingFree>) -> Trees {
    let all: Trees = vec![
        Box::new(ChainTree::new(2).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[2, 2]).unwrap())),
        Box::new(OwnTree::new(8, 2).unwrap()),
        Box::new(TrellisTree::new(3, 1).unwrap()),
    ];
    all.into_iter().filter(|tree| method.is_none_or(|method| method.check_tree(&tree.kind()).is_ok())).collect()
}

/// Methods that draft from a live store with answers in it. It belongs to another drafter, which takes up no more, so
/// that all runs draft alike.
fn of_live_store() -> Vec<TrainingFree> {
    let (mut owner, mut shared) = (StoreFile::named("live").unwrap().opened().unwrap(), None);
    owner.share(&mut shared);
    ANSWERS.iter().for_each(|answer| owner.add(&[law::PROMPT, answer].concat()));
    let reader = |name: &str| {
        let mut method = TrainingFree::parse(name, "live").unwrap().unwrap().opened().unwrap();
        method.store_mut().unwrap().share(&mut shared);
        assert_eq!(method.store().unwrap().store().unwrap().documents(), ANSWERS.len());
        method
    };
    ["suffix", "rest"].map(reader).into()
}

/// Drafters by name, and the trees that they take.
fn drafters(target: &Arc<Decoder>) -> Vec<(String, Make, Trees)> {
    let mut all: Vec<(String, Make, Trees)> = vec![];
    let stored = of_store(&[&[1, 0, 2, 1, 2, 0], &[0, 1, 1, 0, 2], &[2, 1, 0, 0, 1, 2]]);
    for method in and_skip(METHODS).into_iter().chain(stored).chain(of_live_store()) {
        assert!(method.check(target.config()).is_ok(), "{method}");
        let (name, trees) = (method.to_string(), trees(Some(&method)));
        all.push((name, Box::new(move |sampling| method.drafter_for(sampling)), trees));
    }
    let (model, heads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHAPE.write(model.path(), FloatFormat::F32, 1).unwrap();
    kangaroo::write_adapter(model.path(), heads.path(), &SHAPE, 1.5);
    let adapter = Arc::new(kangaroo::adapter(heads.path(), target).stopping_at(0.4));
    let make: Make = Box::new(move |_| Box::new(KangarooDrafter::sharing(adapter.clone())));
    all.push(("kangaroo".into(), make, trees(None)));
    for (name, make) in every_drafter::probes(target) {
        all.push((name.into(), Box::new(move |_| make()), trees(None)));
    }
    all
}

#[test]
fn text_has_the_targets_law_under_every_lossless_rule() {
    let target = decoder(SHAPE, 1);
    let transform = Transform::new(0.8, None, None).unwrap();
    for (name, make, trees) in drafters(&target) {
        for tree in trees {
            let mut accepted = 0;
            for rule_name in RULES {
                let (rule, sampling) = rule(rule_name, transform);
                assert!(rule.is_lossless(), "{rule_name}");
                // A drafter whose tables outlive texts would draft differently in each of the runs.
                let error = law::error_of(&target, &transform, NEW, &mut |random| {
                    let ways = (tree.as_ref(), rule.as_ref() as _);
                    let found = generate(&target, make(sampling).as_mut(), ways, (law::PROMPT, NEW), random);
                    accepted += found.accepted.iter().sum::<usize>();
                    found.ids
                });
                assert!(error < 1e-12, "{name}, {:?}, {rule_name}: {error:e}", tree.kind());
            }
            assert!(accepted > 0, "{name}, {:?}: nothing is shown", tree.kind());
        }
    }
}

/// Says of drafts that all of them are draws, each token as likely as any other.
fn as_dice(proposal: &mut Proposal) {
    let rows = vec![0.0; proposal.draft.tree().len() * SHAPE.vocab_size].into();
    proposal.sources[0] = Source { rows: Some(rows), scheme: SamplingScheme::Independent };
}

/// The negative control: of each drafter, the enumeration would find a law that is not the target's.
#[test]
fn drafts_that_are_taken_for_dice_change_the_law() {
    let target = decoder(SHAPE, 1);
    let transform = Transform::new(0.8, None, None).unwrap();
    let (rule, sampling) = rule("sampling", transform);
    for (name, make, trees) in drafters(&target) {
        let error = law::error_of(&target, &transform, NEW, &mut |random| {
            let ways = (trees[0].as_ref(), rule.as_ref() as _);
            generate(&target, &mut Misstating(make(sampling), as_dice), ways, (law::PROMPT, NEW), random).ids
        });
        assert!(error > 1e-3, "{name}: {error:e}");
    }
}
