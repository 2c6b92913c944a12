//! Token embeddings.

use crate::hidden_states::{HiddenStates, select_rows};
use crate::linear::Weight;
use crate::pass::Input;
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::PooledVec;

/// A table of rows looked up by token.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: Weight,
    scale: f32,
}

impl Embedding {
    /// A table over `weight [vocab, d]` whose rows are multiplied by `scale`.
    pub fn new(weight: Weight, scale: f32) -> Self {
        Self { weight, scale }
    }

    /// The weights, for an LM head that shares them.
    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// The rows of `tokens`.
    ///
    /// # Panics
    /// If a token is outside the table; callers check ids where they enter.
    pub fn look_up(&self, tokens: &[u32], device: &Device) -> HiddenStates {
        match &self.weight {
            Weight::Packed(table) => self.on_host(tokens, table.d_in()),
            Weight::Quantised(table, _) => self.on_host(tokens, table.d_in()),
            Weight::Fragments(_) | Weight::Coded(_) | Weight::Dense(_) => {
                let ids: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
                HiddenStates::on_device(self.select(Tensor::from_data(TensorData::new(ids, [tokens.len()]), device)))
            }
        }
    }

    /// Rows of `width` numbers on the CPU.
    fn on_host(&self, tokens: &[u32], width: usize) -> HiddenStates {
        let mut values = PooledVec::unset(tokens.len() * width);
        self.copy_rows(tokens, &mut values);
        HiddenStates::Host { values, width }
    }

    /// Embeddings of tokens, and rows of `table`, which are not scaled.
    ///
    /// # Shapes
    /// `table [embeddings, d]`, result `[rows, d]`.
    ///
    /// # Panics
    /// If a token or an embedding is outside its table; callers check them.
    pub(crate) fn look_up_rows(&self, rows: &[Input], table: &HiddenStates, device: &Device) -> HiddenStates {
        let token = |input: &Input| if let Input::Token(token) = input { *token } else { 0 };
        match table {
            HiddenStates::Host { values: table, width } => {
                let mut values = PooledVec::unset(rows.len() * width);
                for (input, row) in rows.iter().zip(values.chunks_exact_mut(*width)) {
                    match *input {
                        Input::Token(token) => self.copy_rows(&[token], row),
                        Input::Embedding(embedding) => row.copy_from_slice(&table[embedding * width..][..*width]),
                    }
                }
                HiddenStates::Host { values, width: *width }
            }
            HiddenStates::Device(table) => {
                let tokens: Vec<u32> = rows.iter().map(token).collect();
                let tokens = self.look_up(&tokens, device).into_tensor();
                let both = Tensor::cat(vec![tokens.clone(), table.clone().cast(tokens.dtype())], 1);
                let place = |(row, input): (usize, &Input)| match *input {
                    Input::Token(_) => row,
                    Input::Embedding(embedding) => rows.len() + embedding,
                };
                let order: Vec<usize> = rows.iter().enumerate().map(place).collect();
                HiddenStates::on_device(select_rows(&both, &order))
            }
        }
    }

    /// The embeddings of tokens on the CPU.
    ///
    /// # Shapes
    /// `out [tokens, d]`.
    ///
    /// # Panics
    /// If a token is outside the table, or the table is elsewhere.
    pub(crate) fn copy_rows(&self, tokens: &[u32], out: &mut [f32]) {
        if tokens.is_empty() {
            return;
        }
        let width = out.len() / tokens.len();
        for (&token, row) in tokens.iter().zip(out.chunks_exact_mut(width)) {
            match &self.weight {
                Weight::Packed(table) => table.copy_row(token as usize, row),
                Weight::Quantised(table, _) => table.copy_row(token as usize, row),
                Weight::Fragments(_) | Weight::Coded(_) | Weight::Dense(_) => {
                    unreachable!("rows on the CPU go with a table there")
                }
            }
        }
        if self.scale != 1.0 {
            out.iter_mut().for_each(|value| *value *= self.scale);
        }
    }

    /// The rows of tokens that are on the device.
    ///
    /// # Shapes
    /// `ids [tokens]`, result `[1, tokens, d]`.
    ///
    /// # Panics
    /// If the table is on the CPU.
    pub fn select(&self, ids: Tensor<1, Int>) -> Tensor<3> {
        match &self.weight {
            Weight::Dense(table) => self.scaled(table.clone().select(0, ids).unsqueeze()),
            _ => unreachable!("tokens on a device go with a table there"),
        }
    }

    fn scaled(&self, rows: Tensor<3>) -> Tensor<3> {
        if self.scale == 1.0 { rows } else { rows * self.scale }
    }
}
