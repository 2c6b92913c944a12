//! The fastest matmul kernels of a GPU, and compiled kernels, kept between runs.
//!
//! Matmul kernels are autotuned on first use, and every kernel is compiled when it is first launched, which takes about
//! a second each. Both results are kept on disk for the next run, in a database of cubecl's by its version, the
//! candidate kernels and the device.

use std::path::PathBuf;

/// Has results kept in this folder, or not at all. A user's own `cubecl.toml`, `burn.toml` or `CUBECL_…` variable that
/// says where they go is followed instead. To be called before the first use of a GPU; after it, or in a build whose
/// products are not timed, nothing is changed.
pub fn keep_in(folder: Option<PathBuf>) {
    #[cfg(feature = "tuned")]
    {
        use cubecl::config::cache::CacheConfig;
        use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        if matches!(config.environment.path, CacheConfig::Target) {
            match folder {
                Some(folder) => {
                    config.environment.path = CacheConfig::Directory(folder);
                    config.compilation.cache = true;
                }
                None => {
                    config.autotune.disable_cache = true;
                    config.throughput.disable_cache = true;
                }
            }
        }
        // A configuration that was read before stays.
        let _ = CubeClRuntimeConfig::try_set(config);
    }
    #[cfg(not(feature = "tuned"))]
    let _ = folder;
}
