//! A draft layer that was loaded for decoding.

use super::config::{default_hooks, prefix};
use super::vocabulary::DraftVocabulary;
use crate::drafter::{DraftError, Needs};
use crate::eagle::device_layer::DeviceLayer;
use crate::eagle::feature_layer::{Columns, FeatureLayer};
use crate::eagle::layer::{check_backbone, embedded, embedded_on_device, embedding, layer_config};
use crate::folder::{HeadsError, HeadsFolder};
use crate::format::{EagleSpec, HeadSpec};
use burn::tensor::{Int, Tensor};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::embedding::Embedding;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::linear::{Linear, Loader};
use gorgon_model::lm_head::LmHead;
use gorgon_model::norm::Norm;
use gorgon_model::pass::{HookedStates, PassOutput};
use gorgon_model::weights::WeightsError;
use std::sync::Arc;

/// A draft layer on a device, beside its backbone.
#[derive(Debug)]
pub struct Eagle3Model {
    decoder: Arc<Decoder>,
    hooks: Hooks,
    /// The file's own table; the backbone's serves where there is none.
    embedding: Option<Embedding>,
    fused: Fusion,
    /// The norms on embeddings and on states, in front of the attention.
    input_norms: [Norm; 2],
    /// Whether the residual stream starts from normed states.
    norm_before_residual: bool,
    layer: DraftDecoderLayer,
    norm: Norm,
    /// Whether the next step reads normed outputs.
    norm_output: bool,
    /// The file's own; the backbone's serves where there is none.
    lm_head: Option<LmHead>,
    vocabulary: DraftVocabulary,
}

/// Fuses the hooked hidden states into one.
#[derive(Debug)]
struct Fusion {
    /// A norm on each hook (EAGLE-3.1); none in EAGLE-3.
    hook_norms: Vec<Norm>,
    /// A norm on all hooked states together.
    input_norm: Option<Norm>,
    fc: Linear,
    eps: f32,
}

impl Fusion {
    fn load(loader: &Loader<'_>, spec: &EagleSpec, eps: f32) -> Result<Self, WeightsError> {
        let norms = if spec.hook_norms { spec.hooks } else { 0 };
        let hook_norms = (0..norms).map(|hook| Norm::load(loader, &format!("fc_norm.{hook}.weight"), false));
        Ok(Self {
            hook_norms: hook_norms.collect::<Result<_, _>>()?,
            input_norm: spec.input_norm.then(|| Norm::load(loader, "input_norm.weight", false)).transpose()?,
            fc: loader.linear(&["fc".to_owned()], false)?,
            eps,
        })
    }

    /// `W N([N(l); N(m); N(h)])`, as far as there are norms.
    fn of(&self, hooks: &[HiddenStates]) -> HiddenStates {
        let normed: HookedStates =
            hooks.iter().zip(&self.hook_norms).map(|(hook, norm)| norm.forward(hook, self.eps)).collect();
        let read = HiddenStates::concat_columns(if normed.is_empty() { hooks } else { &normed });
        match &self.input_norm {
            Some(norm) => self.fc.forward(&norm.forward(&read, self.eps)),
            None => self.fc.forward(&read),
        }
    }
}

impl Eagle3Model {
    /// Loads a recognised EAGLE-3 draft layer for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, come without a usable config, or cannot be
    /// read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let (spec, prefix) = spec(folder)?;
        let backbone = decoder.config();
        check_sizes(folder, spec, backbone)?;
        let config = layer_config(folder, spec, backbone)?;
        let hooks = spec.hook_layers.clone().unwrap_or_else(|| default_hooks(backbone.layers).into());
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let hooks = Hooks::new(hooks, backbone.layers).map_err(|error| wrong(error.to_string()))?;
        let vocabulary = vocabulary(folder, spec, backbone.vocab_size)?;
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let norm = |name: String| Norm::load(&loader, &name, false);
        let lm_head = match spec.draft_vocab_size {
            Some(_) => Some(LmHead::new(loader.linear(&["lm_head".to_owned()], false)?, &compute)),
            None => None,
        };
        Ok(Self {
            hooks,
            embedding: embedding(&loader, spec)?,
            fused: Fusion::load(&loader, spec, config.norm_eps)?,
            input_norms: [
                norm(format!("{prefix}input_layernorm.weight"))?,
                norm(format!("{prefix}hidden_norm.weight"))?,
            ],
            // The original has no such flag, and no such norm.
            norm_before_residual: spec.norm_before_residual.unwrap_or(false),
            layer: DraftDecoderLayer::load_without_input_norm(&folder.checkpoint, config, prefix, &compute)?,
            norm: norm("norm.weight".to_owned())?,
            norm_output: spec.norm_output.unwrap_or(false),
            lm_head,
            vocabulary,
            decoder,
        })
    }

    /// The tokens that it can draft.
    pub fn vocabulary(&self) -> &DraftVocabulary {
        &self.vocabulary
    }

    /// Bytes that one draft step reads: the layer and its LM head; the backbone's, where that serves, apart.
    pub fn bytes(&self) -> usize {
        self.layer.bytes() + self.lm_head.as_ref().map_or(0, |head| head.bytes())
    }

    /// `W [l; m; h]`: the state that a pair of committed tokens starts from. EAGLE-3.1 norms each hook first, some
    /// writers all of them together.
    ///
    /// # Shapes
    /// As many rows in each of `hooks`, of width `d`; result the same.
    pub fn fuse(&self, hooks: &[HiddenStates]) -> HiddenStates {
        self.fused.of(hooks)
    }

    /// The draft vocabulary's logits after some states.
    ///
    /// # Shapes
    /// Result `[rows · D]`, row-major.
    pub fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        let read = self.read_by_lm_head(states);
        match &self.lm_head {
            Some(own) => own.forward(&read).into_values(),
            None => self.decoder.draft_logits(&read),
        }
    }

    /// Input of the attention, `[norm(E(x)); norm(g)]`, and start of the residual stream, `g`.
    fn inputs(&self, embedded: &HiddenStates, states: &HiddenStates) -> (HiddenStates, HiddenStates) {
        let ([on_embedding, on_state], eps) = (&self.input_norms, self.layer.config().norm_eps);
        let normed = on_state.forward(states, eps);
        let x = if self.norm_before_residual { normed.clone() } else { states.clone() };
        (HiddenStates::concat_columns(&[on_embedding.forward(embedded, eps), normed]), x)
    }

    /// State that the next step reads: EAGLE-3.1 norms outputs.
    fn handed_on(&self, output: HiddenStates) -> HiddenStates {
        if self.norm_output { self.normed(&output) } else { output }
    }

    /// The hooked states of a pass, if it has those that are needed.
    fn hooks_of<'a>(&self, output: &'a PassOutput) -> Result<&'a [HiddenStates], DraftError> {
        let (wanted, found) = (self.hooks.layers().len(), output.hooks.len());
        if wanted == found { Ok(&output.hooks) } else { Err(DraftError::Hooks { wanted, found }) }
    }

    fn read_by_lm_head(&self, states: &HiddenStates) -> HiddenStates {
        if self.norm_output { states.clone() } else { self.normed(states) }
    }

    fn normed(&self, states: &HiddenStates) -> HiddenStates {
        self.norm.forward(states, self.layer.config().norm_eps)
    }
}

impl FeatureLayer for Eagle3Model {
    fn needs(&self) -> Needs {
        Needs { hooks: self.hooks.clone(), ..Needs::default() }
    }

    fn states(&self, output: &PassOutput, rows: &[usize]) -> Result<HiddenStates, DraftError> {
        let hooks: HookedStates = self.hooks_of(output)?.iter().map(|hook| hook.select(rows)).collect();
        Ok(self.fuse(&hooks))
    }

    fn new_cache(&self, capacity: usize) -> KvCache {
        self.layer.new_cache(capacity)
    }

    fn forward(
        &self,
        tokens: &[Token],
        states: &HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError> {
        let embedded = embedded(&self.decoder, self.embedding.as_ref(), tokens)?;
        cache.extend_reservation(tokens.len());
        let (reads, x) = self.inputs(&embedded, states);
        Ok(self.handed_on(self.layer.forward(Some(&reads), x, visible, cache)?))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.logits(states)
    }

    fn columns(&self) -> Columns<'_> {
        Columns::Named(self.vocabulary.tokens())
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        let lm_head = self.lm_head.as_ref().unwrap_or(self.decoder.lm_head());
        // Asked first, since states would be normed for nothing.
        let mut found =
            lm_head.has_prefilter().then(|| lm_head.top_tokens(&self.read_by_lm_head(states), widths))??;
        found.iter_mut().for_each(|(id, _)| *id = self.vocabulary.tokens()[*id as usize]);
        Some(found)
    }
}

impl DeviceLayer for Eagle3Model {
    fn states_on_device(&self, output: &PassOutput, rows: Tensor<1, Int>) -> Result<Tensor<3>, DraftError> {
        let select = |hook: &HiddenStates| HiddenStates::on_device(hook.tensor().select(1, rows.clone()));
        let hooks: HookedStates = self.hooks_of(output)?.iter().map(select).collect();
        Ok(self.fuse(&hooks).into_tensor())
    }

    fn forward_on_device(
        &self,
        pass_table: &PassTable,
        states: Tensor<3>,
        cache: &mut KvCache,
    ) -> Result<Tensor<3>, ModelError> {
        let embedded = embedded_on_device(&self.decoder, self.embedding.as_ref(), pass_table.tokens());
        let (reads, x) = self.inputs(&embedded, &HiddenStates::on_device(states));
        let output = self.layer.forward_table(Some(&reads.into_tensor()), x.into_tensor(), pass_table, cache)?;
        Ok(self.handed_on(HiddenStates::on_device(output)).into_tensor())
    }

    fn logits_on_device(&self, states: &Tensor<3>) -> Tensor<3> {
        let normed = self.read_by_lm_head(&HiddenStates::on_device(states.clone())).into_tensor();
        match &self.lm_head {
            Some(own) => own.forward_tensor(&normed),
            None => self.decoder.draft_logits_tensor(&normed),
        }
    }

    fn layer(&self) -> &DraftDecoderLayer {
        &self.layer
    }
}

/// Spec of the heads, and the prefix of the layer's tensor names.
pub(super) fn spec(folder: &HeadsFolder) -> Result<(&EagleSpec, &'static str), HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
    let format = folder.detected.format;
    let (HeadSpec::Eagle(spec), Some(prefix)) = (&folder.detected.spec, prefix(format)) else {
        return Err(wrong(format!("{format} heads, not an EAGLE-3 draft layer")));
    };
    Ok((spec, prefix))
}

fn check_sizes(folder: &HeadsFolder, spec: &EagleSpec, backbone: &ModelConfig) -> Result<(), HeadsError> {
    check_backbone(folder, spec.target_hidden_size, spec.vocab_size, backbone)?;
    let (draft, target) = (spec.hidden_size, backbone.hidden_size);
    if draft != target && !(spec.own_embedding && spec.draft_vocab_size.is_some()) {
        let reason = format!(
            "a draft layer {draft} wide needs an embedding and an LM head of its own; the model is {target} wide"
        );
        return Err(HeadsError::Format { path: folder.path.clone(), reason });
    }
    Ok(())
}

/// The tokens that an EAGLE-3 draft layer drafts; `None` of other heads.
///
/// # Errors
/// When its table of them is missing or wrong.
pub fn vocabulary_of(folder: &HeadsFolder, vocab_size: usize) -> Result<Option<DraftVocabulary>, HeadsError> {
    match (&folder.detected.spec, prefix(folder.detected.format)) {
        (HeadSpec::Eagle(spec), Some(_)) => vocabulary(folder, spec, vocab_size).map(Some),
        _ => Ok(None),
    }
}

/// The tokens behind drafted ids.
pub(super) fn vocabulary(
    folder: &HeadsFolder,
    spec: &EagleSpec,
    vocab_size: usize,
) -> Result<DraftVocabulary, HeadsError> {
    stored_vocabulary(folder, (spec.draft_vocab_size, spec.vocab_map), vocab_size)
}

/// The tokens that heads with an LM head of `size` tokens draft; `mapped` says that `d2t` names them.
///
/// # Errors
/// When its table of them is missing or wrong.
pub(crate) fn stored_vocabulary(
    folder: &HeadsFolder,
    (size, mapped): (Option<usize>, bool),
    vocab_size: usize,
) -> Result<DraftVocabulary, HeadsError> {
    let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
    let size = size.unwrap_or(vocab_size);
    if !mapped {
        return match size == vocab_size {
            true => Ok(DraftVocabulary::whole(vocab_size)),
            false => Err(wrong(format!("{size} of {vocab_size} tokens can be drafted, and no d2t says which"))),
        };
    }
    let stored = folder.checkpoint.read_stored("d2t")?;
    let offsets: Vec<i64> = stored.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    if offsets.len() != size {
        return Err(wrong(format!("d2t has {} entries for {size} tokens that can be drafted", offsets.len())));
    }
    let vocabulary = DraftVocabulary::from_offsets(&offsets, vocab_size).map_err(wrong)?;
    if folder.checkpoint.entries().contains_key("t2d") {
        let mask: Vec<bool> = folder.checkpoint.read_stored("t2d")?.iter().map(|byte| *byte != 0).collect();
        vocabulary.check_mask(&mask).map_err(wrong)?;
    }
    Ok(vocabulary)
}
