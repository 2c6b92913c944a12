//! The options of `gorgon serve`.

use super::Draft;
use clap::Args;
use gorgon_workflows::learn::Learning;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
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
    /// The address or the name of the host to listen at. Others than loopback addresses can be reached from other
    /// machines.
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST", value_parser = address)]
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
    #[command(flatten)]
    pub learn: Learn,
}

/// Options of learning from corrections.
#[derive(Debug, Args)]
pub struct Learn {
    /// Log prompts and answers to this folder as training data, with the tokens that draft heads or the draft model of
    /// --drafter model:DIR got wrong, and take up newer weights of these when they appear.
    #[arg(long, value_name = "DIR")]
    pub learn: Option<PathBuf>,
    /// With --learn: megabytes that the log may take; beyond them its oldest files are removed.
    #[arg(long, default_value_t = 256, value_name = "N", requires = "learn", value_parser = clap::value_parser!(u32).range(1..))]
    pub learn_mb: u32,
}

impl Learn {
    /// Folder and bound of the log, if one is written.
    pub fn learning(&self) -> Option<Learning> {
        let most_bytes = u64::from(self.learn_mb) * 1_000_000;
        self.learn.clone().map(|dir| Learning { dir, most_bytes })
    }
}

/// The address of a host, IPv4 if it has both.
fn address(host: &str) -> Result<IpAddr, String> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let found = (host, 0).to_socket_addrs().ok().and_then(|found| found.min_by_key(SocketAddr::is_ipv6));
    found.map(|found| found.ip()).ok_or_else(|| "neither an IP address nor the name of a host".into())
}
