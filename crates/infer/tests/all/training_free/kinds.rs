//! The methods by name, and their trees.

use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, OwnTree, TreeBuilder, TreeChoice, TreeShape, TrellisTree};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::store::StoreBuilder;
use gorgon_draft::training_free::TrainingFree;

/// Names of the methods, as typed behind `--drafter`.
const METHODS: &[&str] = &[
    "suffix",
    "ngram:2",
    "jacobi:1",
    "jacobi:7",
    "lookahead:4,3,3",
    "lookahead:5,5,4,window",
    "early-exit:1",
    "early-exit:2",
    "pipelined:1,3",
    "recycle:3",
    "partial:16,3",
    "partial:6,1,random",
    "swift:50",
];

/// All methods.
pub fn methods() -> Vec<TrainingFree> {
    and_skip(METHODS)
}

/// Methods by name, and the one that reads from a file which sub-layers it leaves out.
pub fn and_skip(names: &[&str]) -> Vec<TrainingFree> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sublayers.json");
    std::fs::write(&file, r#"{"attention": [1], "mlp": [0]}"#).unwrap();
    let skip = format!("skip:{}", file.display());
    names.iter().copied().chain([skip.as_str()]).map(method).collect()
}

/// Methods that draft from a store of these documents.
pub fn of_store(documents: &[&[Token]]) -> Vec<TrainingFree> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let mut builder = StoreBuilder::default();
    documents.iter().for_each(|document| builder.add(document).unwrap());
    builder.write(&file, &"ab".repeat(32)).unwrap();
    let named = ["suffix", "rest"].map(|name| method(&format!("{name}:{}", file.display())));
    named.map(|method| method.opened().unwrap()).into()
}

fn method(name: &str) -> TrainingFree {
    match name.parse() {
        Ok(DrafterChoice::TrainingFree(method)) => method,
        other => panic!("{name}: {other:?}"),
    }
}

/// The trees that a method can draft: its own, and all others that it takes.
pub fn trees(method: &TrainingFree) -> Vec<Box<dyn TreeBuilder>> {
    let own: Box<dyn TreeBuilder> = match method.default_tree() {
        TreeChoice::Chain(chain) => Box::new(chain),
        TreeChoice::Own(own) => Box::new(own),
        TreeChoice::Trellis(Some((nodes, depth))) => Box::new(TrellisTree::new(nodes, depth).unwrap()),
        other => panic!("{other}"),
    };
    let others: Vec<Box<dyn TreeBuilder>> = vec![
        Box::new(ChainTree::new(0).unwrap()),
        Box::new(ChainTree::new(3).unwrap()),
        Box::new(FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap())),
        Box::new(DynamicTree::new(14, 3, 4).unwrap()),
        Box::new(OwnTree::new(9, 4).unwrap()),
    ];
    let taken = others.into_iter().filter(|tree| method.check_tree(&tree.kind()).is_ok());
    std::iter::once(own).chain(taken).collect()
}
