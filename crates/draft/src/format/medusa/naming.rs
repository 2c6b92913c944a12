//! How the tensors of Medusa heads are called.

use crate::format::HeadsFormat;
use crate::format::tensor_index::{TensorIndex, number, numbered};

/// How the tensors of Medusa heads are called. `{h}` is the head, `{l}` the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MedusaNaming {
    /// `{h}.{l}.linear.{weight,bias}`, and `{h}.{blocks}.weight` for the projection to the vocabulary: a
    /// `Sequential` of blocks and a `Linear`.
    Sequential {
        /// Prefix: nothing, `medusa_head.` or `medusa_heads.`.
        prefix: &'static str,
    },
    /// `blocks.{h}.layers.{l}.{weight,bias}`, `lm_heads.{h}.weight` (vLLM).
    Blocks {
        /// Prefix: nothing or `medusa_heads.`, which vLLM strips.
        prefix: &'static str,
    },
    /// `medusa_heads.{h}.medusa_layers.{l}.linear.{weight,bias}`, `medusa_heads.{h}.lm_head.weight` (TensorRT-LLM
    /// checkpoints that ModelOpt exports).
    MedusaLayers,
}

/// Part of a head that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) enum Part {
    /// The linear layer of a block.
    Block { head: usize, block: usize, bias: bool },
    /// A projection to the vocabulary.
    LmHead { head: usize },
}

pub(in crate::format) const HEADS: &str = "medusa_heads.";
pub(in crate::format) const IN_MODEL: &str = "medusa_head.";

impl MedusaNaming {
    /// The naming in a file whose format is known. Where writers disagree, what most names follow.
    pub(super) fn of(format: HeadsFormat, index: &TensorIndex<'_>) -> Self {
        let follow = |naming: &Self| index.names().filter(|name| naming.part(name).is_some()).count();
        let better = |first: Self, second: Self| if follow(&second) > follow(&first) { second } else { first };
        match format {
            HeadsFormat::MedusaVllm => better(Self::Blocks { prefix: "" }, Self::Blocks { prefix: HEADS }),
            HeadsFormat::MedusaModelOpt => better(Self::MedusaLayers, Self::Sequential { prefix: HEADS }),
            HeadsFormat::MedusaInModel => Self::Sequential { prefix: IN_MODEL },
            _ => Self::Sequential { prefix: "" },
        }
    }

    /// Prefix of every name.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Sequential { prefix } | Self::Blocks { prefix } => prefix,
            Self::MedusaLayers => HEADS,
        }
    }

    /// The linear layer of a block, without `.weight` and `.bias`.
    pub fn linear(self, head: usize, block: usize) -> String {
        match self {
            Self::Sequential { prefix } => format!("{prefix}{head}.{block}.linear"),
            Self::Blocks { prefix } => format!("{prefix}blocks.{head}.layers.{block}"),
            Self::MedusaLayers => format!("{HEADS}{head}.medusa_layers.{block}.linear"),
        }
    }

    /// The projection to the vocabulary of a head of `blocks` blocks.
    pub fn lm_head(self, head: usize, blocks: usize) -> String {
        match self {
            Self::Sequential { prefix } => format!("{prefix}{head}.{blocks}.weight"),
            Self::Blocks { prefix } => format!("{prefix}lm_heads.{head}.weight"),
            Self::MedusaLayers => format!("{HEADS}{head}.lm_head.weight"),
        }
    }

    /// Part that a name stands for under this naming.
    pub(in crate::format) fn part(self, name: &str) -> Option<Part> {
        let name = name.strip_prefix(self.prefix())?;
        if let Self::Blocks { .. } = self {
            if let Some(rest) = name.strip_prefix("lm_heads.") {
                let (head, rest) = numbered(rest)?;
                return (rest == "weight").then_some(Part::LmHead { head });
            }
            let (head, rest) = numbered(name.strip_prefix("blocks.")?)?;
            return Part::block(head, rest.strip_prefix("layers.")?);
        }
        let (head, rest) = numbered(name)?;
        if let Self::MedusaLayers = self {
            if rest == "lm_head.weight" {
                return Some(Part::LmHead { head });
            }
            return Part::block_linear(head, rest.strip_prefix("medusa_layers.")?);
        }
        let projection = rest.strip_suffix(".weight").is_some_and(|block| number(block).is_some());
        if projection { Some(Part::LmHead { head }) } else { Part::block_linear(head, rest) }
    }
}

impl Part {
    /// `{l}.weight` or `{l}.bias`.
    fn block(head: usize, rest: &str) -> Option<Self> {
        let (block, rest) = numbered(rest)?;
        let bias = rest == "bias";
        (bias || rest == "weight").then_some(Self::Block { head, block, bias })
    }

    /// `{l}.linear.weight` or `{l}.linear.bias`.
    fn block_linear(head: usize, rest: &str) -> Option<Self> {
        let (block, rest) = numbered(rest)?;
        let rest = rest.strip_prefix("linear.")?;
        let bias = rest == "bias";
        (bias || rest == "weight").then_some(Self::Block { head, block, bias })
    }
}
