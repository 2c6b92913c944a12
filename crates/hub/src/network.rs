//! The hub over HTTP: the list of files and what a file is. Every wait has a limit, and every answer a size.

mod failure;
mod partial;
mod transfer;
#[cfg(feature = "push")]
mod upload;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, LOCATION, RANGE};
use reqwest::{Certificate, Method, Response, StatusCode, Url};

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use self::failure::{Failure, Reason};
use crate::error::HubError;
use crate::listing::{Listing, Metadata};
use crate::options::HubOptions;
use crate::repo::{Kind, Repo, is_plain};
use crate::url::is_loopback;

/// The longest list of files that is read.
const MAX_LISTING_BYTES: usize = 16 << 20;
const MAX_REDIRECTS: usize = 10;
const USER_AGENT: &str = concat!("gorgon/", env!("CARGO_PKG_VERSION"));

/// Talks to the hub about one repository.
pub(crate) struct Client<'a> {
    repo: &'a Repo,
    options: &'a HubOptions,
    /// Where the token may go.
    endpoint: Url,
    http: reqwest::Client,
    runtime: Option<Runtime>,
}

impl Drop for Client<'_> {
    /// Name resolution that hangs must not be waited for.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<'a> Client<'a> {
    pub fn new(repo: &'a Repo, options: &'a HubOptions) -> Result<Self, HubError> {
        let url = &options.endpoint;
        let endpoint = Url::parse(url).map_err(|e| broken(url, e.to_string()))?;
        let http = http(options).redirect(reqwest::redirect::Policy::none()).http1_only().build();
        let http = http.map_err(|e| broken(url, failure::describe(&e)))?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| broken(url, e.to_string()))?;
        Ok(Self { repo, options, endpoint, http, runtime: Some(runtime) })
    }

    /// Waits for something that happens on the network.
    fn wait<T>(&self, future: impl Future<Output = Result<T, HubError>>) -> Result<T, HubError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => Err(self.broken(&self.options.endpoint, "the client is closed")),
        }
    }

    /// The commit and the files of the revision.
    pub fn listing(&self) -> Result<Listing, HubError> {
        let (endpoint, kind) = (&self.options.endpoint, self.repo.kind);
        let revision = self.repo.revision.replace('/', "%2F");
        let url = format!("{endpoint}/api/{}/{}/revision/{revision}", kind.plural(), self.repo.id());
        let text = self.wait(self.small(&url))?;
        let broken = |reason: &str| self.broken(&url, format!("not the list of a {kind}'s files: {reason}"));
        let json: Value = gorgon_runs::json::read(&text).map_err(|e| broken(&e.to_string()))?;
        let commit = json.get("sha").and_then(Value::as_str);
        let siblings = json.get("siblings").and_then(Value::as_array);
        let (Some(commit), Some(siblings)) = (commit, siblings) else { return Err(broken("no sha and siblings")) };
        let names = siblings.iter().filter_map(|file| file.get("rfilename")?.as_str());
        Ok(Listing { commit: self.plain("commit", commit)?, files: names.map(str::to_owned).collect::<BTreeSet<_>>() })
    }

    /// The etag and size of a file. Large files are kept elsewhere: what counts is what the hub itself says of them.
    pub fn metadata(&self, commit: &str, file: &str) -> Result<Metadata, HubError> {
        let url = self.url(commit, file);
        let response = self.wait(self.ask(Method::HEAD, &url, None))?;
        let headers = response.headers();
        let linked_etag = header(headers, &HeaderName::from_static("x-linked-etag"));
        let etag = linked_etag.or_else(|| header(headers, &ETAG));
        let etag = etag.ok_or_else(|| self.broken(&url, "the hub sent no etag"))?;
        let size = header(headers, &HeaderName::from_static("x-linked-size"));
        let size =
            if response.status().is_redirection() { size } else { size.or_else(|| header(headers, &CONTENT_LENGTH)) };
        let etag = self.plain("etag", etag.trim_start_matches("W/").trim_matches('"'))?;
        Ok(Metadata { etag, size: size.and_then(|size| size.parse().ok()) })
    }

    /// The whole of a short answer.
    async fn small(&self, url: &str) -> Result<Vec<u8>, HubError> {
        let mut response = self.ask(Method::GET, url, None).await?;
        let reading = async {
            let mut text = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|e| self.broken(url, failure::describe(&e)))? {
                text.extend_from_slice(&chunk);
                if text.len() > MAX_LISTING_BYTES {
                    return Err(self.broken(url, format!("more than {MAX_LISTING_BYTES} bytes")));
                }
            }
            Ok(text)
        };
        let late = || self.broken(url, format!("no whole answer within {}", seconds(self.options.patience())));
        timeout(self.options.patience(), reading).await.unwrap_or_else(|_| Err(late()))
    }

    /// Makes a request, again if it fails in a way that may pass, and turns refusals into errors.
    async fn ask(&self, method: Method, url: &str, from: Option<u64>) -> Result<Response, HubError> {
        let begun = Instant::now();
        let mut failures = 0;
        loop {
            let limit = self.options.timeout.min(self.left(begun));
            let late = || Err(Failure::Transient(format!("no answer within {}", seconds(begun.elapsed())).into()));
            match timeout(limit, self.follow(&method, url, from)).await.unwrap_or_else(|_| late()) {
                Ok(response) => return self.accept(response, url),
                Err(Failure::Transient(reason)) => {
                    failures += 1;
                    tracing::debug!(url, failures, reason = reason.text, "request failed");
                    self.pause(failures, begun).await.map_err(|()| self.broken(url, reason))?;
                }
                Err(Failure::Fatal(reason)) => return Err(self.broken(url, reason)),
            }
        }
    }

    /// Waits before the next attempt, if there may be one. `since` is when the hub last was of use.
    async fn pause(&self, failures: u32, since: Instant) -> Result<(), ()> {
        let pause = self.options.pause * (1 << (failures - 1).min(10));
        if failures >= self.options.attempts || pause >= self.left(since) {
            return Err(());
        }
        sleep(pause).await;
        Ok(())
    }

    /// The rest of the time that the hub is given to be of use.
    fn left(&self, since: Instant) -> Duration {
        self.options.patience().saturating_sub(since.elapsed())
    }

    /// Follows redirects. The token goes to the hub alone, and a redirect that describes a file is not followed when
    /// only the description was asked for.
    async fn follow(&self, method: &Method, url: &str, from: Option<u64>) -> Result<Response, Failure> {
        let mut url = Url::parse(url).map_err(|e| Failure::Fatal(e.to_string().into()))?;
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.http.request(method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(token) = self.options.token.as_ref().filter(|_| url.origin() == self.endpoint.origin()) {
                request = request.bearer_auth(token);
            }
            if let Some(from) = from {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let response = request.send().await.map_err(|e| Failure::of(&e))?;
            let status = response.status();
            if let Some(failure) = Failure::of_status(status) {
                return Err(failure);
            }
            let described = method == Method::HEAD && response.headers().contains_key("x-linked-etag");
            let location = header(response.headers(), &LOCATION);
            let Some(location) = location.filter(|_| status.is_redirection() && !described) else {
                return Ok(response);
            };
            url = url.join(location).map_err(|e| Failure::Fatal(format!("a redirect to {location:?}: {e}").into()))?;
        }
        Err(Failure::Fatal(format!("more than {MAX_REDIRECTS} redirects").into()))
    }

    fn accept(&self, response: Response, url: &str) -> Result<Response, HubError> {
        let endpoint = self.options.endpoint.clone();
        let status = response.status();
        let advice = match status {
            StatusCode::UNAUTHORIZED if self.options.token.is_none() => {
                "it does not exist, or is private or gated: set HF_TOKEN to a token that may read it"
            }
            StatusCode::UNAUTHORIZED => "the token is not valid: check HF_TOKEN",
            StatusCode::FORBIDDEN => "it is gated: accept its conditions on its page, and set HF_TOKEN",
            StatusCode::NOT_FOUND if url.starts_with(&format!("{endpoint}/api/")) => {
                return Err(HubError::NoSuchRepo { repo: self.repo.clone(), endpoint });
            }
            // It has a meaning to a download that is resumed.
            StatusCode::RANGE_NOT_SATISFIABLE => return Ok(response),
            _ if status.is_success() || status.is_redirection() => return Ok(response),
            _ => return Err(self.broken(url, format!("the hub answers {status}"))),
        };
        Err(HubError::Denied { repo: self.repo.clone(), endpoint, status: status.as_u16(), advice })
    }

    fn url(&self, commit: &str, file: &str) -> String {
        let prefix = if self.repo.kind == Kind::Model { "" } else { "datasets/" };
        format!("{}/{prefix}{}/resolve/{commit}/{file}", self.options.endpoint, self.repo.id())
    }

    fn broken(&self, url: &str, reason: impl Into<Reason>) -> HubError {
        broken(url, reason)
    }

    fn plain(&self, what: &'static str, name: &str) -> Result<String, HubError> {
        match is_plain(name) {
            true => Ok(name.to_owned()),
            false => {
                Err(HubError::UnsafeName { repo: self.repo.clone(), what, name: name.chars().take(200).collect() })
            }
        }
    }
}

fn broken(url: &str, reason: impl Into<Reason>) -> HubError {
    let Reason { text: reason, cause: source } = reason.into();
    HubError::Transfer { url: url.into(), reason, source }
}

/// Connections as all requests use them.
fn http(options: &HubOptions) -> reqwest::ClientBuilder {
    // The only provider unless another part of the program chose one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let builder = reqwest::Client::builder()
        .tls_certs_merge(roots.filter_map(|root| Certificate::from_der(root).ok()))
        .user_agent(USER_AGENT)
        .https_only(options.endpoint.starts_with("https://"))
        .connect_timeout(options.connect_timeout);
    // A proxy in the environment is meant for the world outside.
    if is_loopback(&options.endpoint) { builder.no_proxy() } else { builder }
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn seconds(duration: Duration) -> String {
    format!("{:.0} s", duration.as_secs_f64())
}
