//! Targets over hostile bytes: every reader of something that comes from outside, as a plain function. An error is
//! fine; a panic, a hang or a dead process is not. Two more targets take the bytes as numbers, and compute the same
//! result in two ways.

mod data;
mod differential;
mod drafting;
mod gguf;
mod heads;
mod jobs;
mod model;
mod quantised;
mod server;
mod sound;
mod stores;
mod t5;

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
pub const TARGETS: [Target; 27] = [
    Target { name: "weights_header", read: model::weights_header, seeds: model::weights_seeds },
    Target { name: "shard_index", read: model::shard_index, seeds: model::index_seeds },
    Target { name: "config", read: model::config, seeds: model::config_seeds },
    Target { name: "t5_config", read: t5::config, seeds: t5::config_seeds },
    Target { name: "quantised", read: quantised::checkpoint, seeds: quantised::seeds },
    Target { name: "gguf", read: gguf::file, seeds: gguf::seeds },
    Target { name: "tokenizer", read: model::tokenizer, seeds: model::tokenizer_seeds },
    Target { name: "tokenizer_config", read: model::tokenizer_config, seeds: model::tokenizer_config_seeds },
    Target { name: "chat_template", read: model::chat_template, seeds: model::template_seeds },
    Target { name: "prompts", read: data::prompts, seeds: data::prompt_seeds },
    Target { name: "tree", read: drafting::tree, seeds: drafting::tree_seeds },
    Target { name: "heads", read: drafting::heads, seeds: drafting::head_seeds },
    Target { name: "heads_config", read: drafting::heads_config, seeds: drafting::heads_config_seeds },
    Target { name: "block_heads", read: heads::block_heads, seeds: heads::block_seeds },
    Target { name: "other_heads", read: heads::other_heads, seeds: heads::other_seeds },
    Target { name: "store", read: stores::store, seeds: stores::store_seeds },
    Target { name: "shard", read: data::shard, seeds: data::shard_seeds },
    Target { name: "journal", read: data::journal, seeds: data::journal_seeds },
    Target { name: "checkpoint", read: data::checkpoint, seeds: data::checkpoint_seeds },
    Target { name: "parquet_prompts", read: data::parquet_prompts, seeds: data::parquet_seeds },
    Target { name: "server_answer", read: data::server_answer, seeds: data::server_seeds },
    Target { name: "server_request", read: server::request, seeds: server::request_seeds },
    Target { name: "adapter", read: jobs::adapter, seeds: jobs::adapter_seeds },
    Target { name: "job_config", read: jobs::job_config, seeds: jobs::job_config_seeds },
    Target { name: "chat_input", read: jobs::chat_input, seeds: jobs::chat_seeds },
    Target { name: "same_kernels", read: differential::kernels, seeds: differential::kernel_seeds },
    Target { name: "same_trees", read: differential::trees, seeds: differential::tree_seeds },
];
