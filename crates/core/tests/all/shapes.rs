//! Token trees, shapes, published lists and the names of trees.

use gorgon_core::tree::{
    ChoiceError, MAX_DEPTH, MAX_NODES, MAX_RANK, PublishedTree, ShapeError, TokenTree, TreeChoice, TreeShape,
};
use proptest::prelude::*;

/// Any tree: every node's parent is any earlier node.
fn any_tree(max_nodes: usize) -> impl Strategy<Value = TokenTree> {
    prop::collection::vec(any::<(u32, prop::sample::Index)>(), 1..=max_nodes).prop_map(|nodes| {
        let parents = nodes.iter().enumerate().map(|(node, (_, index))| if node == 0 { 7 } else { index.index(node) });
        let parents = parents.collect();
        TokenTree::from_parts(nodes.iter().map(|(token, _)| *token).collect(), parents).unwrap()
    })
}

/// The tree of
/// ```text
/// 0 ── 1 ── 3
///  │    └── 4 ── 6
///  └── 2 ── 5
/// ```
fn small_tree() -> TokenTree {
    TokenTree::from_parts(vec![10, 11, 12, 13, 14, 15, 16], vec![0, 0, 0, 1, 1, 2, 4]).unwrap()
}

#[test]
fn a_small_tree_answers_every_question() {
    let tree = small_tree();
    assert_eq!(tree.positions(100).collect::<Vec<_>>(), [100, 101, 101, 102, 102, 102, 103]);
    assert_eq!(tree.leaves(), [3, 5, 6]);
    assert_eq!(tree.leaf_paths(), [vec![0, 1, 3], vec![0, 2, 5], vec![0, 1, 4, 6]]);
    assert_eq!(tree.siblings(4).collect::<Vec<_>>(), [3]);
    assert_eq!(tree.siblings(0).count(), 0);
    assert_eq!(tree.siblings(5).count(), 0);
    assert_eq!(tree.max_depth(), 3);
    assert_eq!(TokenTree::root(3).leaf_paths(), [vec![0]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn leaf_paths_cover_the_tree(tree in any_tree(80)) {
        let paths = tree.leaf_paths();
        prop_assert!((0..tree.len()).all(|node| paths.iter().any(|path| path.contains(&node))));
        prop_assert!(paths.iter().all(|path| tree.children(path[path.len() - 1]).count() == 0));
    }

    #[test]
    fn shapes_do_not_depend_on_the_order_of_their_list(
        tree in any_tree(40), keys in prop::collection::vec(any::<u64>(), 40),
    ) {
        // Number the children of every node to make rank paths of any tree.
        let mut paths: Vec<Vec<usize>> = vec![Vec::new()];
        for node in 1..tree.len() {
            let parent = tree.parent(node).unwrap();
            let rank = tree.children(parent).position(|child| child == node).unwrap();
            paths.push([&paths[parent][..], &[rank]].concat());
        }
        paths.remove(0);
        let shape = TreeShape::new(paths.clone()).unwrap();
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by_key(|&path| keys[path]);
        let shuffled = order.iter().map(|&path| paths[path].clone()).collect();
        prop_assert_eq!(&TreeShape::new(shuffled).unwrap(), &shape);
        prop_assert_eq!(shape.first_gap(), None);
        for node in 1..shape.len() {
            let path = shape.path(node);
            prop_assert_eq!(shape.path(shape.parents()[node]), &path[..path.len() - 1]);
        }
        let json = serde_json::to_string(&shape).unwrap();
        prop_assert_eq!(&TreeShape::from_json(&json).unwrap(), &shape);
        prop_assert_eq!(&serde_json::from_str::<TreeShape>(&json).unwrap(), &shape);
    }

    #[test]
    fn tree_names_survive_printing(total in 1..=4096_usize, depth in 0..=20_usize, top_k in 1..=16_usize) {
        let sizes = [format!("dynamic:{total},{depth},{top_k}"), format!("own:{total},{depth}")];
        for name in sizes.into_iter().chain([format!("sequoia:{total}"), format!("chain:{top_k}")]) {
            prop_assert_eq!(name.parse::<TreeChoice>().unwrap().to_string(), name);
        }
    }
}

#[test]
fn the_nodes_of_a_small_shape_are_in_canonical_order() {
    let shape = TreeShape::from_json("[[1], [0, 1], [0], [0, 0], [0, 0, 0]]").unwrap();
    assert_eq!(shape.paths(), [vec![0], vec![1], vec![0, 0], vec![0, 1], vec![0, 0, 0]]);
    assert_eq!(shape.parents(), [0, 0, 0, 1, 1, 3]);
    assert_eq!(shape.max_ranks(), [1, 1, 0]);
    let tree = TokenTree::from_parts(vec![0; 6], shape.parents().to_vec()).unwrap();
    assert_eq!(tree.leaf_paths(), [vec![0, 2], vec![0, 1, 4], vec![0, 1, 3, 5]]);
}

#[test]
fn cartesian_shapes_hold_every_combination() {
    let shape = TreeShape::cartesian(&[2, 3, 1]).unwrap();
    assert_eq!(shape.len(), 1 + 2 + 6 + 6);
    assert!(shape.paths().contains(&vec![1, 2, 0]));
    assert_eq!(TreeShape::cartesian(&[]).unwrap().len(), 1);
    assert!(matches!(TreeShape::cartesian(&[1000, 1000, 1000]), Err(ShapeError::TooManyNodes { nodes: 1_001_001 })));
    assert!(matches!(TreeShape::cartesian(&[0, 2]), Ok(shape) if shape.len() == 1));
}

#[test]
fn wrong_shapes_are_refused_by_name() {
    let error = |json: &str| TreeShape::from_json(json).unwrap_err().to_string();
    assert!(error("[[0], [0, 1, 0]]").contains("[0, 1, 0] but not its parent [0, 1]"));
    assert!(error("[[0], [1], [0]]").contains("[0] more than once"));
    assert!(error("[[0], []]").contains("entry 1"));
    assert!(error("[[0], [0, -1]]").contains("entry 1 of the tree, [0,-1], has rank -1"));
    assert!(error("[[0], [0.5]]").contains("rank 0.5"));
    assert!(error("[[0], \"x\"]").contains("entry 1 of the tree is a string"));
    assert!(error("{\"a\": 1}").contains("an object"));
    assert!(error("[[0]").contains("no JSON"));
    assert!(error(&format!("[[{}]]", MAX_RANK + 1)).contains("rank 1024"));
    let deep = vec![vec![0; MAX_DEPTH + 1]];
    assert!(matches!(TreeShape::new(deep), Err(ShapeError::TooDeep { entry: 0, depth: 129 })));
    let wide = (0..MAX_NODES).map(|rank| vec![rank]).collect();
    assert!(matches!(TreeShape::new(wide), Err(ShapeError::TooManyNodes { nodes: 4097 })));
    assert!(serde_json::from_str::<TreeShape>("[[0, 0]]").is_err(), "serde checks as well");
}

#[test]
fn gaps_between_siblings_are_found() {
    let gap = |json: &str| TreeShape::from_json(json).unwrap().first_gap().map(<[usize]>::to_vec);
    assert_eq!(gap("[]"), None);
    assert_eq!(gap("[[0], [1], [1, 0], [1, 1]]"), None);
    assert_eq!(gap("[[0], [1], [1, 0], [1, 2]]"), Some(vec![1, 2]));
    assert_eq!(gap("[[1]]"), Some(vec![1]));
}

#[test]
fn all_published_trees_are_there() {
    for (index, tree) in PublishedTree::MEDUSA.into_iter().enumerate() {
        assert_eq!(tree as usize, index, "shapes are found by this number");
        let shape = tree.shape();
        assert_eq!(shape.len(), 64, "{tree}");
        assert_eq!(shape.max_depth(), if tree == PublishedTree::Vicuna33bStage1 { 3 } else { 4 }, "{tree}");
        assert_eq!(shape.max_ranks()[0], 9, "{tree}");
        assert_eq!(shape.first_gap(), None, "{tree}");
        assert_eq!(tree.name().parse::<PublishedTree>().unwrap(), tree);
    }
    let all: Vec<_> = PublishedTree::ALL.map(|tree| tree.shape().clone()).into();
    assert!((0..10).all(|a| (0..a).all(|b| all[a] != all[b])), "ten different trees");
    let eagle = "eagle_static".parse::<PublishedTree>().unwrap();
    assert_eq!((eagle as usize, PublishedTree::ALL[9], eagle.shape()), (9, eagle, &all[9]));
    assert_eq!((all[9].len(), all[9].max_depth(), all[9].first_gap()), (26, 5, None));
    assert!("vicuna_70b".parse::<PublishedTree>().unwrap_err().to_string().contains("zephyr_stage2"));
}

#[test]
fn trees_are_named() {
    let choice = |name: &str| name.parse::<TreeChoice>();
    for name in [
        "none",
        "calibrated",
        "chain:5",
        "sequoia:64",
        "dynamic:60,5,10",
        "own:48,8",
        "zephyr_stage2",
        "trees/my:tree.JSON",
    ] {
        assert_eq!(choice(name).unwrap().to_string(), name);
        let json = serde_json::to_string(&choice(name).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<TreeChoice>(&json).unwrap(), choice(name).unwrap());
    }
    assert!(matches!(choice("sequoia:1"), Ok(TreeChoice::Sequoia { nodes: 1 })));
    assert!(matches!(choice("mc_sim_7b_63"), Ok(TreeChoice::Published(PublishedTree::McSim7b63))));
    assert!(matches!(choice("chain:2.json"), Ok(TreeChoice::File(_))));
    assert!(matches!(choice("dynamic: 60, 5, 10"), Ok(TreeChoice::Dynamic(tree)) if tree.top_k() == 10));
}

#[test]
fn wrong_tree_names_say_what_is_allowed() {
    let error = |name: &str| name.parse::<TreeChoice>().unwrap_err();
    for name in ["", "chains:3", "tree.txt", ".json", "None", "dynamic60,5,10"] {
        let message = error(name).to_string();
        assert!(message.contains("dynamic:TOTAL,DEPTH,TOPK") && message.contains("own:NODES,DEPTH"), "{message}");
        assert!(message.contains("vicuna_33b_stage1"), "{message}");
    }
    for name in ["chain", "none:1", "calibrated:64", "sequoia:1,2", "dynamic:60,5", "dynamic:1,2,3,4", "own", "own:5"] {
        assert!(matches!(error(name), ChoiceError::Form { .. }), "{name}");
    }
    for name in ["chain:", "chain:x", "sequoia:-1", "dynamic:60,5.5,10", "own:8,x", "chain:99999999999999999999999"] {
        assert!(matches!(error(name), ChoiceError::Number { .. }), "{name}");
    }
    let absurd =
        ["chain:0", "chain:4096", "sequoia:0", "sequoia:4097", "dynamic:0,5,10", "dynamic:60,5,0", "dynamic:60,128,1"];
    for name in absurd.into_iter().chain([
        "dynamic:60,100,100",
        "dynamic:5000,5,10",
        "dynamic:60,5,2000",
        "own:0,3",
        "own:9,129",
    ]) {
        assert!(matches!(error(name), ChoiceError::Size { .. }), "{name}");
    }
}
