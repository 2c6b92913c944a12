//! Tests of `micro_batch`.

use super::*;

#[test]
fn shortage_is_told_from_other_trouble() {
    for said in [
        "An out-of-memory error happened during launch",
        "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
        "OutOfMemory { size: 12 }",
        "memory allocation of 12 bytes failed",
    ] {
        assert!(is_about_memory(said), "{said}");
    }
    for said in ["the data cannot be read", "an illegal memory access was encountered", ""] {
        assert!(!is_about_memory(said), "{said}");
    }
}
