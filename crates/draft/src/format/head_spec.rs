//! Specs of draft heads: sizes and flags that the tensors tell.

use super::hydra::HydraNaming;
use super::medusa::MedusaNaming;
use super::probe_kind::ProbeKind;
use serde_json::Value;

/// Spec of the heads that the tensors tell, by method.
///
/// A plain size is 0 where no tensor tells it, which never happens without a problem being reported. An optional size
/// is absent where the format leaves it to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadSpec {
    /// Medusa heads.
    Medusa(MedusaSpec),
    /// Hydra heads.
    Hydra(HydraSpec),
    /// An EAGLE draft layer.
    Eagle(EagleSpec),
    /// Multi-token-prediction modules.
    Mtp(MtpSpec),
    /// A block drafter.
    Block(BlockSpec),
    /// Probes.
    Probes(ProbeSpec),
    /// Kangaroo's adapter.
    Kangaroo(KangarooSpec),
}

/// Where the projection to the vocabulary comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LmHeads {
    /// Every head has its own.
    PerHead,
    /// One in the file serves all heads.
    Shared {
        /// The tensor that holds it.
        tensor: String,
    },
    /// The target's is used.
    Target,
}

/// Spec of Medusa heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MedusaSpec {
    /// How the tensors are called.
    pub naming: MedusaNaming,
    /// Number of heads.
    pub heads: usize,
    /// Residual blocks per head.
    pub blocks: usize,
    /// Width of the target's hidden state, d.
    pub hidden_size: usize,
    /// The target's vocabulary, as far as the heads' own projections tell.
    pub vocab_size: Option<usize>,
    /// Number of tokens that can be drafted, where `token_map` lists them.
    pub draft_vocab_size: Option<usize>,
    /// The projections to the vocabulary.
    pub lm_heads: LmHeads,
    /// Whether the blocks have biases.
    pub bias: bool,
}

/// Spec of one decoder layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSpec {
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Query heads times their size.
    pub query_size: usize,
    /// Key/value heads times their size.
    pub key_value_size: usize,
    /// Biases on the query, key and value projections.
    pub qkv_bias: bool,
    /// Size of one head, where RMS norms on each query and key head tell it.
    pub qk_norm: Option<usize>,
}

/// Spec of Hydra heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HydraSpec {
    /// Number of heads.
    pub heads: usize,
    /// Blocks per head.
    pub blocks: usize,
    /// Width of the target's hidden state, d.
    pub hidden_size: usize,
    /// The target's vocabulary, as far as the heads' own projections tell.
    pub vocab_size: Option<usize>,
    /// The projections to the vocabulary.
    pub lm_heads: LmHeads,
    /// Whether heads see the embeddings of the tokens drafted before them.
    pub grounded: bool,
    /// The prefix-attention layer of Hydra++.
    pub prefix_layer: Option<LayerSpec>,
}

/// Spec of an EAGLE draft layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EagleSpec {
    /// Width of the draft layer.
    pub hidden_size: usize,
    /// The target's vocabulary.
    pub vocab_size: Option<usize>,
    /// Rows of the draft layer's own LM head.
    pub draft_vocab_size: Option<usize>,
    /// Number of the target's hidden states that are read: 1 for EAGLE-1.
    pub hooks: usize,
    /// The hooked layers, where the config lists them, as layers that are entered ([`gorgon_model::hooks::Hooks`]).
    /// EAGLE, vLLM and speculators number them so; the numbers of SpecForge and ModelOpt, which name layers that are
    /// left, are converted.
    pub hook_layers: Option<Vec<usize>>,
    /// Width of each hook.
    pub target_hidden_size: usize,
    /// The decoder layer.
    pub layer: LayerSpec,
    /// Whether `fc` has a bias.
    pub fc_bias: bool,
    /// Whether the file holds an embedding table.
    pub own_embedding: bool,
    /// Whether `d2t` maps drafted tokens to the target's.
    pub vocab_map: bool,
    /// A norm on each hook before `fc` (EAGLE-3.1).
    pub hook_norms: bool,
    /// A norm on all hooked states together before `fc`.
    pub input_norm: bool,
    /// Whether the residual stream starts from the normed hidden state, where the config says so.
    pub norm_before_residual: Option<bool>,
    /// Whether the next draft step reads the normed output (EAGLE-3.1), where the config says so.
    pub norm_output: Option<bool>,
}

/// Spec of multi-token-prediction modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtpSpec {
    /// Number of modules.
    pub modules: usize,
    /// Layer number of the first module.
    pub first_layer: usize,
    /// Width of the target's hidden state, d.
    pub hidden_size: usize,
    /// The target's vocabulary, where a tensor of the file tells.
    pub vocab_size: Option<usize>,
    /// The decoder layer in each module.
    pub layer: LayerSpec,
    /// Whether the modules hold an embedding table each.
    pub own_embedding: bool,
    /// Whether the modules hold an LM head each.
    pub own_lm_head: bool,
}

/// Spec of a block drafter. What only a config tells is 0 or empty where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSpec {
    /// Decoder layers.
    pub layers: usize,
    /// Width of the drafter and of the target's hidden state, d.
    pub hidden_size: usize,
    /// The target's vocabulary, where the config tells.
    pub vocab_size: Option<usize>,
    /// Layers of the target, where the config tells.
    pub target_layers: Option<usize>,
    /// The hooked layers as layers that are entered ([`gorgon_model::hooks::Hooks`]); the config names layers that are
    /// left, each one less.
    pub hook_layers: Vec<usize>,
    /// Slots of a block: the anchor and the tokens that are drafted.
    pub slots: usize,
    /// Token that stands in the slots that are guessed.
    pub mask_token: usize,
    /// Whether the slots of each layer see the slots before them only.
    pub causal: Vec<bool>,
    /// The sliding window of each layer.
    pub windows: Vec<Option<usize>>,
    /// If true, layers have convolutions along the slots (DFlash 2).
    pub conv: bool,
    /// Candidates and rank of the selector (DFlash 2), if there is one.
    pub selector: Option<(usize, usize)>,
    /// An embedding of its own.
    pub own_embedding: bool,
    /// Tokens of an LM head of its own, if there is one: those that can be drafted.
    pub draft_vocab_size: Option<usize>,
    /// If true, `d2t` names those tokens.
    pub vocab_map: bool,
    /// Sizes of a decoder layer.
    pub layer: LayerSpec,
}

/// Spec of Kangaroo's adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KangarooSpec {
    /// Layers of the target below the exit. Nothing but a config tells it.
    pub exit_layer: usize,
    /// Width of the target's hidden state, d.
    pub hidden_size: usize,
    /// Query heads, where the config tells.
    pub heads: Option<usize>,
    /// Query heads times their size.
    pub query_size: usize,
    /// Key/value heads times their size.
    pub key_value_size: usize,
    /// Biases on the query, key and value projections.
    pub qkv_bias: bool,
}

/// Spec of probes. What only a config tells is 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// Their kind.
    pub kind: ProbeKind,
    /// Places behind a candidate.
    pub places: usize,
    /// Members of an ensemble.
    pub members: usize,
    /// Width of the target's embeddings, d.
    pub hidden_size: usize,
    /// The target's vocabulary, where the config tells.
    pub vocab_size: Option<usize>,
    /// If true, a step looks ahead or verifies, never both.
    pub two_pass: bool,
}

impl HeadSpec {
    /// Names and values in the order in which they are worth reading: numbers, flags, lists and words. A size that no
    /// tensor tells is null.
    pub fn list(&self) -> Vec<(&'static str, Value)> {
        let mut list = Listing(vec![]);
        match self {
            Self::Medusa(spec) => spec.list(&mut list),
            Self::Hydra(spec) => spec.list(&mut list),
            Self::Eagle(spec) => spec.list(&mut list),
            Self::Mtp(spec) => spec.list(&mut list),
            Self::Block(spec) => spec.list(&mut list),
            Self::Probes(spec) => spec.list(&mut list),
            Self::Kangaroo(spec) => spec.list(&mut list),
        }
        list.0
    }
}

struct Listing(Vec<(&'static str, Value)>);

impl Listing {
    fn size(&mut self, name: &'static str, size: usize) {
        self.0.push((name, if size == 0 { Value::Null } else { size.into() }));
    }

    fn optional(&mut self, name: &'static str, size: Option<usize>) {
        if let Some(size) = size {
            self.size(name, size);
        }
    }

    fn flag(&mut self, name: &'static str, flag: bool) {
        self.0.push((name, flag.into()));
    }

    fn lm_heads(&mut self, heads: &LmHeads) {
        let text = match heads {
            LmHeads::PerHead => "one per head".to_owned(),
            LmHeads::Shared { tensor } => format!("one for all heads ({tensor})"),
            LmHeads::Target => "the target's".to_owned(),
        };
        self.0.push(("LM heads", text.into()));
    }
}

impl MedusaSpec {
    fn list(&self, list: &mut Listing) {
        list.size("heads", self.heads);
        list.size("blocks per head", self.blocks);
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        list.optional("draft vocabulary", self.draft_vocab_size);
        list.lm_heads(&self.lm_heads);
        list.flag("biases", self.bias);
    }
}

impl LayerSpec {
    fn list(&self, list: &mut Listing) {
        list.size("intermediate size", self.intermediate_size);
        list.size("query size", self.query_size);
        list.size("key/value size", self.key_value_size);
        list.flag("query/key/value biases", self.qkv_bias);
        list.flag("query/key norms", self.qk_norm.is_some());
    }
}

impl HydraSpec {
    /// How the tensors are called.
    pub fn naming(&self) -> HydraNaming {
        HydraNaming { dropouts: self.prefix_layer.is_some() }
    }

    fn list(&self, list: &mut Listing) {
        list.size("heads", self.heads);
        list.size("blocks per head", self.blocks);
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        list.lm_heads(&self.lm_heads);
        list.flag("grounded", self.grounded);
        list.flag("prefix attention", self.prefix_layer.is_some());
        if let Some(layer) = &self.prefix_layer {
            layer.list(list);
        }
    }
}

impl EagleSpec {
    fn list(&self, list: &mut Listing) {
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        list.optional("draft vocabulary", self.draft_vocab_size);
        list.size("aux hidden states", self.hooks);
        if let Some(layers) = &self.hook_layers {
            list.0.push(("aux hidden state layers", layers.clone().into()));
        }
        list.size("target hidden size", self.target_hidden_size);
        self.layer.list(list);
        list.flag("fc bias", self.fc_bias);
        list.flag("own embedding", self.own_embedding);
        list.flag("own LM head", self.draft_vocab_size.is_some());
        list.flag("vocabulary map", self.vocab_map);
        list.flag("norms on aux hidden states", self.hook_norms);
        list.flag("norm before fc", self.input_norm);
        for (name, flag) in [("norm before residual", self.norm_before_residual), ("norm on output", self.norm_output)]
        {
            if let Some(flag) = flag {
                list.flag(name, flag);
            }
        }
    }
}

impl MtpSpec {
    fn list(&self, list: &mut Listing) {
        list.size("modules", self.modules);
        // Layer 0 is a number like any other, where a size of 0 would be an unknown one.
        list.0.push(("first layer", self.first_layer.into()));
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        self.layer.list(list);
        list.flag("own embedding", self.own_embedding);
        list.flag("own LM head", self.own_lm_head);
    }
}

impl BlockSpec {
    fn list(&self, list: &mut Listing) {
        list.size("layers", self.layers);
        list.size("block size", self.slots);
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        list.optional("target layers", self.target_layers);
        list.0.push(("aux hidden state layers", self.hook_layers.clone().into()));
        list.0.push(("mask token", self.mask_token.into()));
        list.flag("causal", self.causal.contains(&true));
        list.flag("convolutions", self.conv);
        list.optional("selector candidates", self.selector.map(|(k, _)| k));
        list.optional("selector rank", self.selector.map(|(_, rank)| rank));
        list.optional("sliding window", self.windows.iter().copied().flatten().next());
        self.layer.list(list);
        list.flag("own embedding", self.own_embedding);
        list.optional("draft vocabulary", self.draft_vocab_size);
    }
}

impl KangarooSpec {
    fn list(&self, list: &mut Listing) {
        list.size("exit layer", self.exit_layer);
        list.size("hidden size", self.hidden_size);
        list.optional("query heads", self.heads);
        list.size("query size", self.query_size);
        list.size("key/value size", self.key_value_size);
        list.flag("query/key/value biases", self.qkv_bias);
    }
}

impl ProbeSpec {
    fn list(&self, list: &mut Listing) {
        list.size("probes", self.places);
        list.size("members of an ensemble", self.members);
        list.size("hidden size", self.hidden_size);
        list.optional("vocabulary", self.vocab_size);
        list.flag("looks ahead in passes of its own", self.two_pass);
    }
}
