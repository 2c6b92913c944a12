//! Parameters of fitted heads: names, shapes and initial values.

/// A tensor of draft heads.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Its name on disk.
    pub name: String,
    /// Its shape, `[out, in]` or `[out]`.
    pub shape: Vec<usize>,
    /// Initial values.
    pub init: Init,
}

/// Initial values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Zeros.
    Zero,
    /// Ones.
    One,
    /// Random values of this standard deviation.
    Normal(f64),
    /// A matrix that keeps the first inputs and drops the others: ones where row and column are the same.
    Identity,
    /// The backbone's LM head.
    LmHead,
    /// A convolution that changes nothing, `[sides, taps, d]`: ones in the first tap of each side.
    FirstTap,
}

impl ParameterSpec {
    /// A matrix of random values of the variance `1 / (3 in)`, as PyTorch's linear layers start.
    pub fn matrix(name: impl Into<String>, out: usize, into: usize) -> Self {
        let init = Init::Normal((1.0 / (3.0 * into as f64)).sqrt());
        Self { name: name.into(), shape: vec![out, into], init }
    }

    /// A norm's weights.
    pub fn norm(name: impl Into<String>, width: usize) -> Self {
        Self { name: name.into(), shape: vec![width], init: Init::One }
    }

    /// Zeros.
    pub fn zeros(name: impl Into<String>, shape: &[usize]) -> Self {
        Self { name: name.into(), shape: shape.into(), init: Init::Zero }
    }
}
