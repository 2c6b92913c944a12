//! A session lives across turns: it reads what it does not know, answers as a fresh one would, and keeps no more than
//! was emitted.

mod ends;
mod kinds;
mod pieces;
mod turns;
