//! Custom operations, a folder each: `reference.rs` (the definition, plain loops), `kernel.rs` (the CPU kernel over
//! slices) and `launch.rs` (burn tensors in, burn tensors out, on any device).
//!
//! **Rows are independent.** On the CPU, a row of any result is computed by the same sequence of floating-point
//! operations whatever other rows are computed with it, however many threads run, and wherever the row's keys lie in
//! the cache. Verifying a token tree therefore equals plain decoding bit for bit. Every kernel keeps to three habits:
//! each output element has one fixed order of accumulation, work is split between threads along outputs only, and
//! reductions run over logical positions, never over storage positions.

// Kernels in the language of cubecl: positions have a type of their own on the device, elements of an array are
// assigned and not borrowed, and `!(a < b)` holds for NaN.
#![cfg_attr(
    feature = "gpu",
    allow(clippy::unnecessary_cast, clippy::assign_op_pattern, clippy::neg_cmp_op_on_partial_ord)
)]
// Results on the CPU are larger than handles of a device, and few at a time.
#![cfg_attr(feature = "gpu", allow(clippy::large_enum_variant))]

pub mod activation;
pub mod adamw;
pub mod block_attention;
pub mod cache_rows;
#[cfg(feature = "gpu")]
mod collective;
pub mod device;
pub mod differentiable;
pub mod dynamic_tree;
pub mod few_row_matmul;
pub mod host;
mod isa;
pub mod lanes;
pub mod linear_cross_entropy;
pub mod linear_divergence;
pub mod norm;
pub mod partial_sums;
pub mod probe;
mod product;
pub mod projected;
pub mod quantised_matmul;
pub mod recorded_step;
pub mod rope;
pub mod segment_attention;
pub mod skinny_matmul;
pub mod softmax;
pub mod squares;
mod table;
pub mod tall_matmul;
pub mod team;
mod tiles;
pub mod top_rows;
pub mod tree_attention;
pub mod tuning;
pub mod unrolled_attention;

pub use isa::Isa;
pub use table::{Frozen, Table, TableError, TableFormat};
