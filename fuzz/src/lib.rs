//! Fuzz targets: `cargo +nightly fuzz run NAME fuzz/corpus/NAME`. The seeds come from `make fuzz-seeds`; the tests of
//! the workspace drive the same functions (`make fuzz-smoke`).

pub mod targets;

/// Reads bytes with a target.
///
/// The fuzzer's own hook ends the process at every panic, those included that are caught as intended (a tokenizer
/// library's, on a crafted file); with this one only a panic that nobody catches is a crash.
pub fn read(name: &str, bytes: &[u8]) {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|info| eprintln!("{info}"))));
    for target in targets::TARGETS {
        if target.name == name {
            (target.read)(bytes);
        }
    }
}
