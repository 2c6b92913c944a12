//! What is done with hostile bytes: every reader of something that comes from outside, as a plain function. An error is
//! fine; a panic, a hang or a dead process is not.

mod data;
mod drafting;
mod model;
mod sound;

/// A reader, and files that it reads.
pub struct Target {
    /// Its name, which is that of its fuzz target.
    pub name: &'static str,
    /// Reads bytes.
    pub read: fn(&[u8]),
    /// Sound files to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every reader.
pub const TARGETS: [Target; 13] = [
    Target { name: "weights_header", read: model::weights_header, seeds: model::weights_seeds },
    Target { name: "shard_index", read: model::shard_index, seeds: model::index_seeds },
    Target { name: "config", read: model::config, seeds: model::config_seeds },
    Target { name: "tokenizer", read: model::tokenizer, seeds: model::tokenizer_seeds },
    Target { name: "tokenizer_config", read: model::tokenizer_config, seeds: model::tokenizer_config_seeds },
    Target { name: "chat_template", read: model::chat_template, seeds: model::template_seeds },
    Target { name: "prompts", read: data::prompts, seeds: data::prompt_seeds },
    Target { name: "tree", read: drafting::tree, seeds: drafting::tree_seeds },
    Target { name: "heads", read: drafting::heads, seeds: drafting::head_seeds },
    Target { name: "heads_config", read: drafting::heads_config, seeds: drafting::heads_config_seeds },
    Target { name: "shard", read: data::shard, seeds: data::shard_seeds },
    Target { name: "journal", read: data::journal, seeds: data::journal_seeds },
    Target { name: "checkpoint", read: data::checkpoint, seeds: data::checkpoint_seeds },
];
