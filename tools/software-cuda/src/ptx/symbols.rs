//! Names and the things they stand for.

/// Why a module cannot be run here.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// Registers that every thread has, whatever its kernel says, in this order.
pub const SPECIAL: [&str; 22] = [
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%warpid",
    "%lanemask_eq",
    "%lanemask_lt",
    "%lanemask_le",
    "%lanemask_gt",
    "%lanemask_ge",
    "%clock",
    "%clock64",
    "%globaltimer",
];

/// Where a name points to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol {
    /// An offset in a thread's own memory of some kind, or an address.
    At(u64),
    /// The end of a kernel's own shared memory, where that of its launch begins.
    AfterShared,
}
