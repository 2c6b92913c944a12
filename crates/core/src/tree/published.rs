//! The trees published with Medusa and EAGLE-1.

use std::{fmt, str::FromStr, sync::LazyLock};

use super::TreeShape;

/// One of the nine trees published with Medusa (`medusa_choices.py` of FasterDecoding/Medusa), each of 64 nodes with
/// the root, named for the backbone and the training stage of the heads it was chosen for; or the tree of 26 nodes that
/// EAGLE-1 decodes with whatever the backbone (`choices.py` of SafeAILab/EAGLE, where it goes by the name of Medusa's
/// first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say which backbone and stage
pub enum PublishedTree {
    McSim7b63,
    Vicuna7bStage1,
    Vicuna7bStage1Ablation,
    Vicuna7bStage2,
    Vicuna13bStage1,
    Vicuna13bStage2,
    Vicuna33bStage1,
    Vicuna33bStage2,
    ZephyrStage2,
    EagleStatic,
}

/// A name that no published tree has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no published tree is called {name:?}; there are {}", PublishedTree::ALL.map(PublishedTree::name).join(", "))]
pub struct UnknownTree {
    /// The name.
    pub name: String,
}

impl PublishedTree {
    /// Those published with Medusa.
    pub const MEDUSA: [Self; 9] = [
        Self::McSim7b63,
        Self::Vicuna7bStage1,
        Self::Vicuna7bStage1Ablation,
        Self::Vicuna7bStage2,
        Self::Vicuna13bStage1,
        Self::Vicuna13bStage2,
        Self::Vicuna33bStage1,
        Self::Vicuna33bStage2,
        Self::ZephyrStage2,
    ];

    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::McSim7b63,
        Self::Vicuna7bStage1,
        Self::Vicuna7bStage1Ablation,
        Self::Vicuna7bStage2,
        Self::Vicuna13bStage1,
        Self::Vicuna13bStage2,
        Self::Vicuna33bStage1,
        Self::Vicuna33bStage2,
        Self::ZephyrStage2,
        Self::EagleStatic,
    ];

    /// The name under which it was published, that of EAGLE's apart.
    pub fn name(self) -> &'static str {
        match self {
            Self::McSim7b63 => "mc_sim_7b_63",
            Self::Vicuna7bStage1 => "vicuna_7b_stage1",
            Self::Vicuna7bStage1Ablation => "vicuna_7b_stage1_ablation",
            Self::Vicuna7bStage2 => "vicuna_7b_stage2",
            Self::Vicuna13bStage1 => "vicuna_13b_stage1",
            Self::Vicuna13bStage2 => "vicuna_13b_stage2",
            Self::Vicuna33bStage1 => "vicuna_33b_stage1",
            Self::Vicuna33bStage2 => "vicuna_33b_stage2",
            Self::ZephyrStage2 => "zephyr_stage2",
            Self::EagleStatic => "eagle_static",
        }
    }

    /// Its shape.
    pub fn shape(self) -> &'static TreeShape {
        &SHAPES[self as usize]
    }
}

/// Shapes in the order of [`PublishedTree::ALL`], which is that of the variants.
static SHAPES: LazyLock<[TreeShape; 10]> = LazyLock::new(|| {
    let lists: serde_json::Value =
        serde_json::from_str(include_str!("published.json")).expect("the embedded trees are JSON");
    PublishedTree::ALL.map(|tree| {
        TreeShape::from_json(&lists[tree.name()].to_string()).expect("the embedded trees hold each name's shape")
    })
});

impl fmt::Display for PublishedTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PublishedTree {
    type Err = UnknownTree;

    fn from_str(name: &str) -> Result<Self, UnknownTree> {
        let found = Self::ALL.into_iter().find(|tree| tree.name() == name);
        found.ok_or_else(|| UnknownTree { name: name.to_owned() })
    }
}
