//! LM heads: a linear layer whose greatest outputs may be all that is wanted.

use crate::linear::{Linear, Weight};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_kernels::few_row_matmul::{PackError, Packed, Screen};
use gorgon_kernels::{Isa, host};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A linear layer over a vocabulary.
#[derive(Clone, Debug)]
pub struct LmHead {
    linear: Linear,
    /// On the CPU a copy in 8 bits that finds the greatest outputs, exactly; made when it is first asked for.
    screen: Arc<OnceLock<Option<Screen>>>,
}

impl LmHead {
    /// An LM head with these weights.
    pub fn new(linear: Linear) -> Self {
        Self { linear, screen: Arc::default() }
    }

    /// One whose outputs are computed as a whole, whatever is wanted of them.
    pub(crate) fn whole(linear: Linear) -> Self {
        Self { linear, screen: Arc::new(OnceLock::from(None)) }
    }

    /// The `counts[i]` likeliest tokens of each row with their logits, likeliest first, the lower token first on ties, one row after the
    /// other: what looking at all logits would say. `None` where all have to be computed: elsewhere than on the CPU or on a processor without products
    /// of bytes, with a bias, for few weights, or where the copy cannot tell.
    ///
    /// # Shapes
    /// `hidden [1, rows, d]`, `counts [rows]`.
    pub fn likeliest(&self, hidden: &Tensor<3>, counts: &[usize]) -> Option<Vec<(Token, f32)>> {
        let mut found = vec![];
        let hidden = host::read(hidden)?;
        self.likeliest_of(hidden.as_slice(), counts, &mut found).then_some(found)
    }

    /// The same of rows on the CPU, in `found`; false where all logits have to be computed.
    ///
    /// # Shapes
    /// `hidden [rows, d]`, `counts [rows]`.
    pub fn likeliest_of(&self, hidden: &[f32], counts: &[usize], found: &mut Vec<(Token, f32)>) -> bool {
        let Some((weight, screen)) = self.screen() else { return false };
        screen.greatest(Isa::detect(), hidden, weight, counts, found)
    }

    /// The likeliest token of one row; as [`Self::likeliest`]. `found` is room to work in.
    ///
    /// # Shapes
    /// `hidden [d]`.
    pub(crate) fn best(&self, hidden: &[f32], found: &mut Vec<(Token, f32)>) -> Option<Token> {
        let told = self.likeliest_of(hidden, &[1], found);
        found.first().filter(|_| told).map(|&(token, _)| token)
    }

    /// Makes no copy, if there is none yet.
    pub(crate) fn compute_all(&self) {
        let _ = self.screen.set(None);
    }

    /// Bytes that are read where only the likeliest tokens are wanted.
    pub fn bytes_for_likeliest(&self) -> usize {
        self.screen().map_or_else(|| self.linear.bytes(), |(_, screen)| screen.bytes())
    }

    fn screen(&self) -> Option<(&Arc<Packed>, &Screen)> {
        let Weight::Packed(weight) = self.linear.weight() else { return None };
        // Without memory for a copy all is computed, as on processors that cannot use it.
        let made = self.screen.get_or_init(|| {
            let copied = Screen::of(weight).or_else(|_| Ok::<_, PackError>(None));
            copied.ok().flatten().filter(|_| !self.linear.has_bias())
        });
        made.as_ref().map(|screen| (weight, screen))
    }
}

impl Deref for LmHead {
    type Target = Linear;

    fn deref(&self) -> &Linear {
        &self.linear
    }
}
