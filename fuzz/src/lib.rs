//! Fuzz targets: `cargo +nightly fuzz run NAME fuzz/corpus/NAME`. The seeds come from `make fuzz-seeds`; the tests of the
//! workspace drive the same functions (`make fuzz-smoke`).

pub mod targets;

/// Reads bytes with a target.
pub fn read(name: &str, bytes: &[u8]) {
    for target in targets::TARGETS {
        if target.name == name {
            (target.read)(bytes);
        }
    }
}
