//! Reads a prompt before recorded steps, as far as it is not known.

use super::sampling::picked;
use super::{Recorded, SHORTEST, bucket, read, token};
use crate::error::DecodeError;
use crate::executor::Progress;
use gorgon_core::Token;
use gorgon_kernels::recorded_step::{self, NoisePositions};
use gorgon_kernels::tree_attention::PassTable;
use gorgon_model::decoder::ModelError;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::{PREFILL_CHUNK, Target};

impl Recorded {
    /// Forgets the text, so that the next prompt is read whole.
    pub fn reset(&mut self) {
        self.buffers.known.borrow_mut().clear();
    }

    /// Reads what is not known of the prompt in chunks, picks the first token and writes the first tree.
    pub(super) fn first(&mut self, prompt: &[Token]) -> Result<Progress, DecodeError> {
        let buffers = &*self.buffers;
        let mut target = buffers.target.borrow_mut();
        target.roll_back();
        target.truncate(buffers.known.borrow_mut().keep(prompt, buffers.drafts.pairs()));
        let known = target.len();
        target.check(&prompt[known..])?;
        buffers.drafts.truncate(known)?;
        let unread = prompt.len().checked_sub(known + 1).ok_or(ModelError::EmptyPrompt)?;
        let ending = known + unread / PREFILL_CHUNK * PREFILL_CHUNK;
        for from in (known..ending).step_by(PREFILL_CHUNK) {
            let chunk = from..from + PREFILL_CHUNK;
            let output = target.extend(&prompt[chunk.clone()])?;
            buffers.drafts.read(&prompt[from + 1..=from + PREFILL_CHUNK], &output)?;
            buffers.note(&prompt[chunk]);
        }
        let ending = &prompt[ending..];
        let output = target.extend(ending)?;
        let hidden = output.hidden.narrow(ending.len() - 1, 1);
        let logits = target.decoder().logits_tensor(&hidden.tensor());
        let at = || NoisePositions::at(prompt.len(), &self.device);
        let first = token(read(picked(&logits, self.sampling.as_ref(), at)).first(), prompt.len())?;
        self.begin(first, ending, prompt.len(), &output)?;
        buffers.note(ending);
        Ok(Progress { first: Some(first), read: prompt.len() - known })
    }

    /// Writes the first tree behind a prompt of `length` tokens, of whose last ones `output` is the pass.
    fn begin(&self, first: Token, ending: &[Token], length: usize, output: &PassOutput) -> Result<(), DecodeError> {
        let buffers = &*self.buffers;
        let mut tokens = vec![0; buffers.tree.nodes()];
        tokens[0] = first;
        let windows = buffers.pass_table.windows();
        let table = PassTable::new(&tokens, &self.visible, length, SHORTEST, windows, &self.device);
        recorded_step::overwrite(buffers.pass_table.table(), table.table());
        let pass_table = buffers.pass_table.with_slots(bucket(length + buffers.rows()));
        let next: Vec<Token> = ending[1..].iter().copied().chain([first]).collect();
        buffers.drafts.begin(&next, output, (&buffers.tree, &pass_table), self.sampling.as_ref())?;
        buffers.guide();
        Ok(())
    }
}
