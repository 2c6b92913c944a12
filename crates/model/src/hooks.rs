//! Hidden-state hooks: hidden states that drafters request.

/// Which hidden states a forward pass hands out beside the final-norm state.
///
/// Number `i` is the residual stream *entering* layer `i`; the number of layers itself names what leaves the last one,
/// before the final norm. (Engines number these differently: the output of layer `i` is the input of layer `i + 1`.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks(Vec<usize>);

/// A hook beyond the last layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hook {hook} of a model with {layers} layers; hooks go from 0 to {layers}")]
pub struct HookError {
    /// The offending hook.
    pub hook: usize,
    /// Layers of the model.
    pub layers: usize,
}

impl Hooks {
    /// No hooks.
    pub fn none() -> Self {
        Self::default()
    }

    /// These hooks, in this order.
    ///
    /// # Errors
    /// When one lies beyond the last layer.
    pub fn new(hooks: Vec<usize>, layers: usize) -> Result<Self, HookError> {
        match hooks.iter().find(|&&hook| hook > layers) {
            Some(&hook) => Err(HookError { hook, layers }),
            None => Ok(Self(hooks)),
        }
    }

    /// The numbers, in order.
    pub fn layers(&self) -> &[usize] {
        &self.0
    }
}
