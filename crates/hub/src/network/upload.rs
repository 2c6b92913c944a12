//! A folder as one commit, through hf-hub: it knows which files go into git and which into large storage.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hf_hub::progress::{ProgressEvent, ProgressHandler, UploadEvent};
use hf_hub::repository::CommitOperation;
use hf_hub::{HFClient, HFError, HFResult, RepoTypeModel};
use serde_json::Value;
use tokio::time::timeout;

use super::{Client, USER_AGENT, failure, http, seconds};
use crate::error::HubError;
use crate::push::Push;

/// The slowest disk that files are read from.
const BYTES_PER_SECOND: u64 = 50_000_000;
/// How often an upload is looked at.
const TICK: Duration = Duration::from_millis(200);

impl Client<'_> {
    /// Uploads a folder as one commit. Returns the address of the repository.
    pub fn push(&self, push: &Push<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<String, HubError> {
        let (files, bytes) = files(push)?;
        let hub = self.hub().map_err(|error| self.refused(error))?;
        self.wait(async {
            self.create(&hub, push).await?;
            let moved = Arc::new(Moved::default());
            let repo = hub.model(&*self.repo.owner, &*self.repo.name);
            let commit = repo.create_commit().operations(files).commit_message(push.message);
            let commit = commit.revision(&*self.repo.revision).progress(moved.clone()).send();
            let silence = self.options.timeout * 2 + Duration::from_secs(bytes / BYTES_PER_SECOND);
            self.watch(commit, &moved, silence, progress).await?;
            progress(bytes, bytes);
            Ok(format!("{}/{}", self.options.endpoint, self.repo.id()))
        })
    }

    fn hub(&self) -> HFResult<HFClient> {
        let attempts = usize::try_from(self.options.attempts).unwrap_or(usize::MAX);
        let hub = HFClient::builder().endpoint(&self.options.endpoint).user_agent(USER_AGENT).cache_enabled(false);
        let hub = hub.retry_max_attempts(attempts.saturating_sub(1)).retry_base_delay(self.options.pause / 2);
        let hub = hub.token(self.options.token.as_deref().unwrap_or_default());
        hub.client(http(self.options).build()?).build()
    }

    /// Creates the repository, if there is none.
    async fn create(&self, hub: &HFClient, push: &Push<'_>) -> Result<(), HubError> {
        let id = self.repo.id();
        match self.small(&format!("{}/api/models/{id}", self.options.endpoint)).await {
            Ok(text) => {
                let text: Value = serde_json::from_slice(&text).unwrap_or_default();
                if push.private && text.get("private").and_then(Value::as_bool) == Some(false) {
                    let reason = "it exists and everybody can see it, but it should be private".into();
                    return Err(HubError::Unusable { repo: self.repo.clone(), reason });
                }
                Ok(())
            }
            Err(HubError::NoSuchRepo { .. }) => {
                let create = hub.create_repository().repo_id(&id).repo_type(RepoTypeModel);
                let created = timeout(self.options.patience(), create.private(push.private).exist_ok(true).send());
                match created.await {
                    Ok(created) => created.map(drop).map_err(|error| self.refused(error)),
                    Err(_) => Err(self.silent(self.options.patience())),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for an upload as long as it moves.
    async fn watch<T>(
        &self,
        upload: impl Future<Output = HFResult<T>>,
        moved: &Moved,
        silence: Duration,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), HubError> {
        let mut upload = pin!(upload);
        let (mut last, mut since) = (moved.state(), Instant::now());
        loop {
            if let Ok(done) = timeout(TICK, &mut upload).await {
                return done.map(drop).map_err(|error| self.refused(error));
            }
            let state = moved.state();
            if state != last {
                (last, since) = (state, Instant::now());
                progress(state.done, state.total);
            } else if since.elapsed() >= silence {
                return Err(self.silent(silence));
            }
        }
    }

    fn silent(&self, silence: Duration) -> HubError {
        self.broken(&self.options.endpoint, format!("no answer within {}", seconds(silence)))
    }

    fn refused(&self, error: HFError) -> HubError {
        let context = match &error {
            HFError::Http { context }
            | HFError::AuthRequired { context }
            | HFError::Forbidden { context }
            | HFError::Conflict { context }
            | HFError::RateLimited { context, .. }
            | HFError::RepoNotFound { context: Some(context), .. } => context,
            HFError::Request { source, url } => {
                return self.broken(url.as_ref().unwrap_or(&self.options.endpoint), failure::describe(source));
            }
            error => return self.broken(&self.options.endpoint, line(&error.to_string())),
        };
        let denied = |advice| HubError::Denied {
            repo: self.repo.clone(),
            endpoint: self.options.endpoint.clone(),
            status: context.status.as_u16(),
            advice,
        };
        match context.status.as_u16() {
            401 => denied("the token is not valid: check HF_TOKEN"),
            403 => denied("the token may not write there: set HF_TOKEN to one with write access"),
            _ => {
                let said = context.server_message.as_ref().map(|said| format!(": {}", line(said)));
                let reason = format!("the hub answers {}{}", context.status, said.unwrap_or_default());
                self.broken(&context.url, reason)
            }
        }
    }
}

/// The files to upload and their bytes.
fn files(push: &Push<'_>) -> Result<(Vec<CommitOperation>, u64), HubError> {
    let io = |source| HubError::Io { path: push.folder.to_owned(), source };
    let (mut files, mut bytes) = (vec![], 0);
    for entry in push.folder.read_dir().map_err(io)? {
        let entry = entry.map_err(io)?;
        let metadata = entry.metadata().map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if metadata.is_file() && !name.starts_with('.') {
            bytes += metadata.len();
            files.push((name, entry.path()));
        }
    }
    files.sort();
    Ok((files.into_iter().map(|(name, path)| CommitOperation::add_file(name, path)).collect(), bytes))
}

/// Foreign text as one short line.
fn line(text: &str) -> String {
    let words: Vec<_> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ").chars().take(300).collect()
}

/// How far an upload is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct State {
    /// Start, commit and end.
    phases: u32,
    done: u64,
    total: u64,
    sent: u64,
}

/// The newest state, as hf-hub reports it from its threads.
#[derive(Default)]
struct Moved(Mutex<State>);

impl Moved {
    fn state(&self) -> State {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressHandler for Moved {
    fn on_progress(&self, event: &ProgressEvent) {
        let ProgressEvent::Upload(event) = event else { return };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            UploadEvent::Progress { bytes_completed, total_bytes, transfer_bytes_completed, .. } => {
                (state.done, state.total, state.sent) = (*bytes_completed, *total_bytes, *transfer_bytes_completed);
            }
            _ => state.phases += 1,
        }
    }
}
