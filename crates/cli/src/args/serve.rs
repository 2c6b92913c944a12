//! The options of `gorgon serve`.

use super::Draft;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "GORGON_API_KEY is the API key that requests must bring, unless --api-key-file names a file with \
                        one. Ctrl-C or SIGTERM finishes what was begun, and ends with exit code 0."
)]
pub struct Serve {
    /// A model folder, a GGUF file or a repo id.
    #[arg(long, value_name = "M")]
    pub model: String,
    #[command(flatten)]
    pub draft: Draft,
    /// The name that requests give [default: the repo id, or the last part of the path].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The address to listen at. Others than loopback addresses can be reached from other machines.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub host: IpAddr,
    /// The port to listen at; 0 takes a free one.
    #[arg(long, default_value_t = 8080, value_name = "N")]
    pub port: u16,
    /// Answers that are decoded at once.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub batch: u16,
    /// Answers that wait at most; further requests get status 429 [default: four times the batch, at least 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue: Option<u32>,
    /// Tokens that all caches hold together [default: as half of the free memory allows].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub cache_tokens: Option<u32>,
    /// Seconds that a request may take, waiting included.
    #[arg(long, default_value_t = 600, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub timeout: u32,
    /// A file with the API key that requests must bring.
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// A web origin whose pages may ask, such as https://example.org.
    #[arg(long, value_name = "ORIGIN")]
    pub cors: Option<String>,
    /// Log which tokens the draft model of --drafter model:DIR got wrong to this folder, as training data. It holds the
    /// token ids of prompts and answers.
    #[arg(long, value_name = "DIR")]
    pub learn: Option<PathBuf>,
}
