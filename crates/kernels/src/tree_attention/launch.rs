//! Launches of attention on a GPU.

use super::cube::{attend_split, attend_tiles};
use super::flash;
use super::join::{JOINERS, join_splits};
use super::sequences::Sequences;
use super::tile::{Geometry, UNITS};
use super::{AttentionSpec, PassTable};
use crate::device;
use burn::tensor::{DType, Tensor as Burn};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Slots of a split: enough splits to occupy a large device, few enough that joining them is cheap. Those of a sequence
/// depend on nothing but its own slots.
fn split(slots: usize) -> usize {
    slots.div_ceil(32).next_multiple_of(16).max(64)
}

/// Numbers of a load: 16 bytes of a head, or fewer where heads are no multiple of it.
fn wide(q: &CubeTensor, head_dim: usize) -> usize {
    let fits = |wide: &usize| head_dim.is_multiple_of(*wide) && wide * q.dtype.size() <= 16;
    q.client.io_optimized_vector_sizes(q.dtype.size()).filter(fits).max().unwrap_or(1)
}

/// Which kernel a launch takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar,
    /// Warps of a cube share a split.
    Flash,
    /// Warps of a cube have tiles of their own, and nothing is split.
    FlashWhole,
}

/// See [`super::attend_cached`].
pub(super) fn attend(
    spec: &AttentionSpec,
    q: &CubeTensor,
    caches: &[&Burn<4>],
    layer: usize,
    tables: &[&PassTable],
) -> CubeTensor {
    let rows = tables.iter().map(|table| table.padded_rows()).sum::<usize>();
    let most = tables.iter().map(|table| table.padded_rows()).max().unwrap_or(1);
    let is_flash = flash::is_supported(q, spec.head_dim);
    let mut g = Geometry::new(spec, most, wide(q, spec.head_dim));
    if is_flash {
        g = Geometry { tile: flash::QUERIES, keys: flash::KEYS, wide: flash::WIDE, ..g };
    }
    let out = device::empty(q, [rows, g.heads, g.head_dim], q.dtype);
    let mut left = tables;
    for mut launch in Sequences::launches(caches, tables) {
        let own;
        (own, left) = left.split_at(launch.parts.len());
        let mut first_tile = 0;
        let kind = match is_flash {
            true if own.iter().all(|table| table.is_long_chain()) => Kind::FlashWhole,
            true => Kind::Flash,
            false => Kind::Scalar,
        };
        for (part, table) in launch.parts.iter_mut().zip(own) {
            part.section = table.section(spec.window);
            part.chain = usize::from(is_flash && table.is_long_chain() && spec.window.is_none());
            let slots = table.slots();
            let of_split;
            (part.split, of_split) = match is_flash {
                // A long chain has tiles enough to occupy a device.
                true if table.is_long_chain() => (slots.next_multiple_of(flash::KEYS), slots),
                true => flash::split(slots),
                false => (split(slots), split(slots)),
            };
            part.splits = slots.div_ceil(of_split.max(1)).max(1);
            part.first_tile = first_tile;
            first_tile += (part.rows * g.group).div_ceil(g.tile);
        }
        attend_launch(spec, q, &launch, layer, (tables[0], first_tile), &out, (g, kind));
    }
    out
}

/// Tensors and numbers of the launches over some sequences.
struct Launched<'a> {
    spec: &'a AttentionSpec,
    q: &'a CubeTensor,
    sequences: &'a Sequences,
    layer: usize,
    table: CubeTensor,
    tiles: usize,
    out: &'a CubeTensor,
    sums: CubeTensor,
    weights: CubeTensor,
    total: usize,
    splits: usize,
    address: AddressType,
    g: Geometry,
}

/// One launch over the splits of some sequences, and one that joins them.
fn attend_launch(
    spec: &AttentionSpec,
    q: &CubeTensor,
    sequences: &Sequences,
    layer: usize,
    (table, tiles): (&PassTable, usize),
    out: &CubeTensor,
    (g, kind): (Geometry, Kind),
) {
    let total = out.meta.shape()[0] * g.group;
    let splits = sequences.parts.iter().map(|part| part.splits).max().unwrap_or(1);
    let [sums, weights] = [g.head_dim, 2].map(|d| device::empty(q, [splits, total, g.kv_heads, d], DType::F32));
    let address = device::address([q, &sums, out].into_iter().chain(&sequences.caches));
    let table = device::ints(table.table());
    let launched = Launched { spec, q, sequences, layer, table, tiles, out, sums, weights, total, splits, address, g };
    match kind {
        Kind::Scalar => launched.scalar(),
        Kind::Flash => launched.flash(false),
        Kind::FlashWhole => launched.flash(true),
    }
    launched.join();
}

impl Launched<'_> {
    fn scalar(&self) {
        // SAFETY: every index is within the shapes of `attend_launch`; slots read end at the rows in flight of a
        // sequence's table, which its cache had room for when the table was made.
        unsafe {
            attend_split::launch_unchecked(
                &self.q.client,
                CubeCount::Static(self.splits as u32, self.g.kv_heads as u32, self.tiles as u32),
                CubeDim::new_1d(UNITS as u32),
                self.address,
                self.g.wide,
                device::arg(self.q),
                self.sequences.cache_args().collect(),
                self.sequences.shares(),
                device::arg(&self.table),
                device::arg(&self.sums),
                device::arg(&self.weights),
                self.layer,
                self.total,
                self.spec.scale,
                self.spec.soft_cap.unwrap_or(1.0),
                self.sequences.places(),
                self.g,
                device::elem(self.q),
            );
        }
    }

    /// With `whole`, warps of a cube have tiles of their own.
    fn flash(&self, whole: bool) {
        let cubes = (self.tiles * self.splits).div_ceil(if whole { flash::PLANES } else { 1 });
        // SAFETY: as above.
        unsafe {
            attend_tiles::launch_unchecked(
                &self.q.client,
                CubeCount::Static(cubes as u32, self.g.kv_heads as u32, 1),
                CubeDim::new_2d(flash::LANES as u32, flash::PLANES as u32),
                self.address,
                device::arg(self.q),
                self.sequences.cache_args().collect(),
                self.sequences.shares(),
                device::arg(&self.table),
                device::arg(&self.sums),
                device::arg(&self.weights),
                self.layer,
                self.tiles,
                self.splits,
                self.total,
                self.spec.scale,
                self.spec.soft_cap.unwrap_or(1.0),
                self.sequences.places(),
                whole,
                self.g,
                device::elem(self.q),
            );
        }
    }

    fn join(&self) {
        let queries = self.sequences.rows() * self.g.group;
        // SAFETY: as above, and a join reads the splits that were written.
        unsafe {
            join_splits::launch_unchecked(
                &self.q.client,
                CubeCount::Static(queries as u32, self.g.kv_heads as u32, 1),
                CubeDim::new_1d(JOINERS.min(self.g.head_dim.next_multiple_of(32)) as u32),
                self.address,
                device::arg(&self.sums),
                device::arg(&self.weights),
                self.sequences.shares(),
                device::arg(self.out),
                self.total,
                self.sequences.places(),
                self.g,
                device::elem(self.q),
            );
        }
    }
}
