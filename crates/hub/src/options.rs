//! Where models are kept and where they come from.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::HubError;

/// Where models are kept and where they come from.
#[derive(Clone, PartialEq, Eq)]
pub struct HubOptions {
    /// Use the cache only.
    pub offline: bool,
    /// The folder that holds `models--owner--name`.
    pub cache: PathBuf,
    /// The hub, without a slash at the end.
    pub endpoint: String,
    /// Sent to the hub, and to nobody else.
    pub token: Option<String>,
    /// How often a request is made before it counts as failed, if the failure may pass. A download that makes progress
    /// starts counting afresh.
    pub attempts: u32,
    /// The pause before the second attempt; each one after doubles it.
    pub pause: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the hub may be silent, before it answers and between two pieces of an answer.
    pub timeout: Duration,
}

impl HubOptions {
    /// How long the hub may be of no use, all attempts together.
    #[cfg(feature = "network")]
    pub(crate) fn patience(&self) -> Duration {
        self.timeout + self.timeout / 3
    }

    /// Reads `HF_HUB_OFFLINE`, `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, `HF_ENDPOINT`, `HF_TOKEN` and
    /// `HF_TOKEN_PATH`, with the meaning they have for other programs, and the token file in `HF_HOME`.
    ///
    /// # Errors
    /// No variable says where the cache is, and there is no home folder.
    pub fn from_env() -> Result<Self, HubError> {
        Self::from_vars(&|name| std::env::var(name).ok(), std::env::home_dir())
    }

    /// As [`from_env`](Self::from_env), from variables and a home folder of one's own.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_vars(var: &dyn Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Result<Self, HubError> {
        let var = |name: &str| var(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let folder = |name: &str| var(name).map(PathBuf::from);
        let hf_home = folder("HF_HOME")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home.map(|home| home.join(".cache").join("huggingface")));
        let cache = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
        let cache = cache.or_else(|| hf_home.as_ref().map(|home| home.join("hub"))).ok_or(HubError::NoHome)?;

        let token_file = folder("HF_TOKEN_PATH").or_else(|| hf_home.map(|home| home.join("token")));
        let saved_token = || std::fs::read_to_string(token_file?).ok();
        let token = var("HF_TOKEN").or_else(|| var("HUGGING_FACE_HUB_TOKEN")).or_else(saved_token);

        let offline = var("HF_HUB_OFFLINE").is_some_and(|v| ["1", "ON", "YES", "TRUE"].contains(&&*v.to_uppercase()));
        let endpoint = var("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        Ok(Self {
            offline,
            cache,
            endpoint: endpoint.trim_end_matches('/').into(),
            token: token.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()),
            attempts: 5,
            pause: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        })
    }
}

impl std::fmt::Debug for HubOptions {
    /// Shows everything but the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubOptions")
            .field("offline", &self.offline)
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("attempts", &self.attempts)
            .field("pause", &self.pause)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish()
    }
}
