//! Fused CPU operations with gradients of their own, inside burn's autodiff graph.
//!
//! burn derives the gradient of a composition by running each of its parts backwards, one pass over memory each. An
//! operation that knows its own gradient needs one pass. [`apply`] puts it into the graph; on any other device the
//! caller composes burn's operations instead.

use burn::backend::Autodiff;
use burn::backend::Flex;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{Shape, Tensor, TensorData};
use std::fmt::Debug;

/// An operation on CPU slices that knows its own gradient. All tensors are `f32` and row-major.
pub trait Differentiable<const N: usize>: Clone + Debug + Send + 'static {
    /// The output.
    fn forward(&self, inputs: [&[f32]; N]) -> Vec<f32>;

    /// Gradients of the inputs, given the inputs and the output's gradient.
    fn backward(&self, inputs: [&[f32]; N], gradient: &[f32]) -> [Vec<f32>; N];
}

/// An operand with its rank taken off.
#[derive(Debug)]
pub struct Operand(FloatTensor<Autodiff<Flex>>);

impl Operand {
    /// A tracked CPU tensor as an operand; `None` for any other.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        tensor.clone().try_into_primitive::<Autodiff<Flex>>().ok().map(Self)
    }
}

/// Applies `operation` and records it for the backward pass.
///
/// # Panics
/// If the operation's output is not of `shape`.
pub fn apply<O: Differentiable<N>, const N: usize, const D: usize>(
    operation: O,
    operands: [Operand; N],
    shape: [usize; D],
) -> Tensor<D> {
    let nodes = operands.each_ref().map(|operand| operand.0.node());
    let inputs = operands.map(|operand| contiguous(operand.0.into_primitive()));
    let output = flex(operation.forward(inputs.each_ref().map(slice)), &shape);
    let output = match Step(operation).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish(inputs, output),
        OpsKind::UnTracked(step) => step.finish(output),
    };
    Tensor::from_primitive::<Autodiff<Flex>>(output)
}

#[derive(Debug)]
struct Step<O>(O);

impl<O: Differentiable<N>, const N: usize> Backward<Flex, N> for Step<O> {
    type State = [FlexTensor; N];

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = contiguous(gradients.consume::<Flex>(&ops.node));
        let shapes = ops.state.each_ref().map(|input| input.layout().shape().to_vec());
        let inputs = self.0.backward(ops.state.each_ref().map(slice), slice(&gradient));
        for ((parent, values), shape) in ops.parents.into_iter().zip(inputs).zip(shapes) {
            if let Some(parent) = parent {
                gradients.register::<Flex>(parent.id, flex(values, &shape));
            }
        }
    }
}

fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

fn slice(tensor: &FlexTensor) -> &[f32] {
    // `f32` is the only float type this project keeps in CPU tensors, and the tensor is contiguous.
    tensor.as_slice().unwrap_or(&[])
}

fn flex(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, Shape::from(shape.to_vec())))
}
