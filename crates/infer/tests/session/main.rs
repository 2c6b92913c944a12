//! A session lives across turns: it reads what it does not know, answers as a fresh one would, and keeps no more than
//! was emitted.

mod ends;
#[path = "../every_drafter/mod.rs"]
mod every_drafter;
mod kinds;
mod pieces;
mod turns;
