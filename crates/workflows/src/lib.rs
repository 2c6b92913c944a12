//! The work of gorgon's commands: loading, distilling, training, estimating, exporting.
//!
//! A function here does a whole job, reports on a [`console::Console`], and returns what it found. It never prints and
//! never ends the process: the command line parses, calls, and renders.

pub mod absent;
pub mod bench_record;
pub mod chat;
pub mod compare;
pub mod config;
pub mod console;
pub mod demo;
pub mod devices;
pub mod distill;
pub mod doctor;
pub mod drafting;
pub mod estimate;
pub mod export;
pub mod failure;
pub mod files;
pub mod fitting;
pub mod hub_id;
pub mod init;
pub mod inspect;
pub mod learn;
pub mod load;
pub mod measuring;
pub mod not_a_model;
mod not_heads;
pub mod plan;
pub mod pretrain;
pub mod prompts;
pub mod quantize;
pub mod question;
pub mod remote;
pub mod renewal;
pub mod runs;
pub mod serve;
pub mod settings;
pub mod store;
pub mod synth;
pub mod t5;
pub mod train;
pub mod units;
