//! Why a cache refuses.

/// Why the cache refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// More tokens than the context has.
    #[error("{committed} tokens and {requested} more do not fit a context of {context} tokens")]
    Full {
        /// Committed tokens.
        committed: usize,
        /// Tokens to commit.
        requested: usize,
        /// Tokens that can be committed in all.
        context: usize,
    },
    /// A reservation is still open.
    #[error("{0} rows are reserved and neither committed nor rolled back")]
    Reserved(usize),
    /// A commit without a reservation.
    #[error("no rows are reserved")]
    NotReserved,
    /// A path that is no strictly increasing list of reserved rows.
    #[error("path {path:?} is no increasing list of rows below {reserved}")]
    Path {
        /// The path.
        path: Vec<usize>,
        /// Reserved rows.
        reserved: usize,
    },
    /// A row that would be committed as another position than it was computed for.
    #[error("row {row} was computed for position {position} and cannot be committed as position {committed}")]
    Position {
        /// The row.
        row: usize,
        /// Its position, counted from the committed tokens.
        position: usize,
        /// Its place in the path.
        committed: usize,
    },
    /// A row that too few layers have run on.
    #[error("row {row} has run {ran} layers where {layers} are needed")]
    Unfinished {
        /// The row.
        row: usize,
        /// Layers that have run on it.
        ran: usize,
        /// Layers that a commit or a pass needs.
        layers: usize,
    },
    /// Rows of a pass that left sub-layers out, to be committed or seen by a whole pass, or the other way round.
    #[error(
        "uncommitted rows of a pass that leaves out sub-layers cannot be committed or go with those of a whole pass"
    )]
    Partial,
    /// A pass over other rows than the reserved ones.
    #[error("a pass ends at uncommitted row {rows}, and {reserved} rows are reserved")]
    Rows {
        /// Uncommitted rows after the pass.
        rows: usize,
        /// Reserved rows.
        reserved: usize,
    },
    /// A part of a cache that is not on the CPU.
    #[error("parts of a cache are retrieved on the CPU only: use --device cpu, or another drafter")]
    Device,
    /// A table of rows for a cache on the CPU.
    #[error("tables of rows are for devices other than the CPU")]
    Host,
}
