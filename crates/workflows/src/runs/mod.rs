//! Run folders: found, summarised and compared from their files alone.

mod compare;
mod details;
mod find;
mod redraw;
mod state;
mod summary;

pub use self::compare::{Comparison, compare};
pub use self::details::RunDetails;
pub use self::find::{find, is_run};
pub use self::redraw::redraw;
pub use self::state::RunState;
pub use self::summary::{RunSummary, Speedup, table};
