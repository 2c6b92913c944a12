//! Tests of gorgon-cli that one process can run.

mod bad_input;
#[path = "../chain/mod.rs"]
mod chain;
mod chat;
mod chat_terminal;
mod compare;
mod composed;
mod configs;
mod contract;
mod distill_records;
mod draft_model;
mod drafted;
mod drafted_distill;
mod eagle;
mod eagle3;
mod export_formats;
mod exports;
mod extreme_values;
mod gguf;
#[path = "../gorgon/mod.rs"]
mod gorgon;
mod hostile;
#[allow(dead_code)] // tests of the hub use all of it
#[path = "../../../hub/tests/hub_server/mod.rs"]
mod hub_server;
mod init;
mod inspecting;
mod learning;
mod live_store;
mod logging;
mod matrix;
mod misplaced;
mod options;
mod paths;
mod quantize;
mod random_heads;
mod recipes;
mod reference;
mod resumed_config;
mod runs;
mod serve_commands;
#[path = "../../../core/tests/shared/mod.rs"]
mod shared;
mod store;
mod t5;
mod training;
mod usage;
mod windows;
mod written;
