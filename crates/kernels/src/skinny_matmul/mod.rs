//! Products of few rows with a large matrix of 16-bit weights on a GPU: `y = x · Wᵀ` for 1 to [`MOST_ROWS`] rows, of which
//! 64 take about as long as it takes to read the weights.
//!
//! Weights are stored as `mma.sync` (m16n8k16) takes them: every lane of a warp reads its share of a 16 × 16 tile in one
//! load of 16 bytes. Outputs are the rows of the product (M) and rows
//! of `x` its columns (N). K is split into a number of parts that depends on the matrix alone. The parts' sums are
//! added in their order, so a row's result has the same bits whatever rows are computed with it.
//!
//! The layout is described in [`reference::pack`]. Weights of 8 and 4 bits are in [`codes`].

pub mod codes;
#[cfg(feature = "gpu")]
mod cube;
#[cfg(all(test, feature = "gpu"))]
mod device_tests;
mod launch;
pub mod reference;

#[cfg(feature = "gpu")]
pub(crate) use cube::is_supported as is_multiplied;
pub use launch::{Fragments, is_supported};

/// Most rows of a product: those of a chunk of a prompt. More take less time with the plain matrix.
pub const MOST_ROWS: usize = 256;
/// Rows of a cube at most.
#[cfg(feature = "gpu")]
const TILE_ROWS: usize = 64;
/// The rows of a cube in tiles of eight, and how many cubes share the rows of a product.
#[cfg(feature = "gpu")]
fn tiles(rows: usize) -> (usize, usize) {
    (rows.min(TILE_ROWS).div_ceil(8).next_power_of_two(), rows.div_ceil(TILE_ROWS))
}

/// Outputs that a warp computes: two tiles.
pub const OUTPUTS: usize = 32;
/// Inputs that a lane reads 16 bytes of, and of which a warp multiplies two tiles.
pub const INPUTS: usize = 32;
/// Numbers of a lane in a tile.
const LANE: usize = 8;
/// Lanes of a warp.
const LANES: usize = 32;

/// Warps that keep a large GPU reading: 132 multiprocessors with eight warps each.
const WARPS: usize = 1056;
/// Fewest blocks of inputs in a part of K.
const PART_BLOCKS: usize = 8;

/// The greatest power of two that divides the blocks, and `most` at most.
fn ahead_of(blocks: usize, most: usize) -> usize {
    1 << blocks.trailing_zeros().min(most.ilog2())
}

/// Blocks of inputs of a part of K: K is split until there are about enough warps, and not below [`PART_BLOCKS`] blocks.
pub fn part_blocks(d_in: usize, d_out: usize) -> usize {
    part_blocks_of(d_in, d_out, 1)
}

/// As [`part_blocks`], where `ahead` blocks are loaded at a time.
fn part_blocks_of(d_in: usize, d_out: usize, ahead: usize) -> usize {
    let (groups, blocks) = (d_out.div_ceil(OUTPUTS).max(1), d_in / INPUTS);
    let wanted = ((WARPS + groups / 2) / groups).min(blocks / PART_BLOCKS).max(1);
    blocks.div_ceil(wanted).next_multiple_of(ahead).max(1)
}

/// Parts of K, none of which is without inputs.
pub fn parts(d_in: usize, d_out: usize) -> usize {
    (d_in / INPUTS).div_ceil(part_blocks(d_in, d_out)).max(1)
}

/// Whether a matrix can be stored in fragments: a row of `x` is read in whole blocks of [`INPUTS`].
pub fn fits(d_in: usize, d_out: usize) -> bool {
    d_in > 0 && d_out > 0 && d_in.is_multiple_of(INPUTS)
}
