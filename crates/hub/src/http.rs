//! The hub's file interface over HTTP: the list of files, what a file is, and its content.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread::sleep;

use serde_json::Value;
use sha2::{Digest, Sha256};
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LOCATION, RANGE};
use ureq::http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use ureq::{Agent, Body};

use crate::error::HubError;
use crate::options::HubOptions;
use crate::repo::{Repo, is_plain};

/// The longest list of files that is read.
const MAX_LISTING_BYTES: u64 = 16 << 20;
const MAX_REDIRECTS: usize = 10;

/// A revision as the hub knows it.
pub(crate) struct Listing {
    /// Its commit.
    pub commit: String,
    /// All its files.
    pub files: BTreeSet<String>,
}

/// What the hub says about a file.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Names the content: its SHA-256 for large files, some other digest for small ones.
    pub etag: String,
    /// Bytes.
    pub size: Option<u64>,
}

impl Metadata {
    fn sha256(&self) -> Option<&str> {
        Some(&*self.etag).filter(|etag| etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit()))
    }
}

/// Talks to the hub about one model.
pub(crate) struct Client<'a> {
    repo: &'a Repo,
    options: &'a HubOptions,
    agent: Agent,
}

/// A failure of one request.
enum Failure {
    /// It may pass.
    Transient(String),
    Fatal(String),
}

impl<'a> Client<'a> {
    pub fn new(repo: &'a Repo, options: &'a HubOptions) -> Self {
        let config = Agent::config_builder()
            .user_agent(concat!("gorgon/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .https_only(options.endpoint.starts_with("https://"))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(options.timeout))
            .timeout_recv_response(Some(options.timeout))
            .timeout_per_read(Some(options.timeout));
        // A proxy in the environment is meant for the world outside.
        let config = if is_loopback(&options.endpoint) { config.proxy(None) } else { config };
        Self { repo, options, agent: config.build().into() }
    }

    /// The commit and the files of the revision.
    pub fn listing(&self) -> Result<Listing, HubError> {
        let revision = self.repo.revision.replace('/', "%2F");
        let url = format!("{}/api/models/{}/revision/{revision}", self.options.endpoint, self.repo.id());
        let mut response = self.ask(Method::GET, &url, None)?;
        let broken = |reason: String| HubError::Transfer { url: url.clone(), reason };
        let text = response.body_mut().with_config().limit(MAX_LISTING_BYTES).read_to_string();
        let text = text.map_err(|e| broken(e.to_string()))?;
        let json: Value =
            serde_json::from_str(&text).map_err(|e| broken(format!("not the list of a model's files: {e}")))?;
        let commit = json.get("sha").and_then(Value::as_str);
        let siblings = json.get("siblings").and_then(Value::as_array);
        let (Some(commit), Some(siblings)) = (commit, siblings) else {
            return Err(broken("not the list of a model's files: no sha and siblings".into()));
        };
        let names = siblings.iter().filter_map(|file| file.get("rfilename")?.as_str());
        Ok(Listing { commit: self.plain("commit", commit)?, files: names.map(str::to_owned).collect() })
    }

    /// The etag and size of a file. Large files are kept elsewhere: what counts is what the hub itself says of them.
    pub fn metadata(&self, commit: &str, file: &str) -> Result<Metadata, HubError> {
        let url = self.url(commit, file);
        let mut response = self.ask(Method::HEAD, &url, None)?;
        if matches!(response.status(), StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED) {
            response = self.ask(Method::GET, &url, None)?;
        }
        let headers = response.headers();
        let linked_etag = header(headers, &HeaderName::from_static("x-linked-etag"));
        let etag = linked_etag.or_else(|| header(headers, &ETAG));
        let etag = etag.ok_or_else(|| HubError::Transfer { url, reason: "the hub sent no etag".into() })?;
        let size = header(headers, &HeaderName::from_static("x-linked-size"));
        let size =
            if response.status().is_redirection() { size } else { size.or_else(|| header(headers, &CONTENT_LENGTH)) };
        let etag = self.plain("etag", etag.trim_start_matches("W/").trim_matches('"'))?;
        Ok(Metadata { etag, size: size.and_then(|size| size.parse().ok()) })
    }

    /// Downloads a file to `path`, going on from what is there already, and checks it.
    pub fn download(
        &self,
        commit: &str,
        file: &str,
        metadata: &Metadata,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), HubError> {
        let url = self.url(commit, file);
        let mut partial = Partial::open(path)?;
        let mut resumed = partial.len > 0;
        let (mut furthest, mut failures) = (partial.len, 0);
        loop {
            if metadata.size != Some(partial.len) || partial.len == 0 {
                match self.transfer(&url, metadata, &mut partial, progress)? {
                    None => {}
                    Some(reason) => {
                        failures = if partial.len > furthest { 1 } else { failures + 1 };
                        furthest = furthest.max(partial.len);
                        if failures >= self.options.attempts {
                            return Err(HubError::Transfer { url, reason });
                        }
                        sleep(self.options.pause * (1 << (failures - 1).min(10)));
                        continue;
                    }
                }
            }
            match partial.verify(metadata) {
                Ok(()) => return partial.finish(),
                Err(reason) => {
                    partial.restart()?;
                    // What was there before may have been broken; what came now was not meant to be.
                    if !std::mem::replace(&mut resumed, false) {
                        partial.remove();
                        return Err(HubError::Corrupt { url, reason });
                    }
                }
            }
        }
    }

    /// One request for the rest of a file. Returns why it ended early, if it did.
    fn transfer(
        &self,
        url: &str,
        metadata: &Metadata,
        partial: &mut Partial<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<String>, HubError> {
        if metadata.size.is_some_and(|size| partial.len > size) {
            partial.restart()?;
        }
        let response = self.ask(Method::GET, url, Some(partial.len).filter(|len| *len > 0))?;
        let from = header(response.headers(), &CONTENT_RANGE)
            .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
        if response.status() != StatusCode::PARTIAL_CONTENT || from != Some(partial.len) {
            // The whole file, or nothing that fits: what is there is of no use.
            partial.restart()?;
        }
        if !response.status().is_success() || (from.is_some() && from != Some(partial.len)) {
            return Ok(Some(format!("the hub answers a request for a part with {}", response.status())));
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 256 << 10];
        loop {
            progress(partial.len);
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => partial.append(&buffer[..n])?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Ok(Some(one_line(&e))),
            }
            if metadata.size.is_some_and(|size| partial.len > size) {
                break;
            }
        }
        Ok(metadata
            .size
            .filter(|size| partial.len < *size)
            .map(|size| format!("only {} of {size} bytes came", partial.len)))
    }

    /// Makes a request, again if it fails in a way that may pass, and turns refusals into errors.
    fn ask(&self, method: Method, url: &str, from: Option<u64>) -> Result<Response<Body>, HubError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.follow(&method, url, from) {
                Ok(response) => return self.accept(response, url),
                Err(Failure::Transient(_)) if attempt < self.options.attempts => {
                    sleep(self.options.pause * (1 << (attempt - 1).min(10)));
                }
                Err(Failure::Transient(reason) | Failure::Fatal(reason)) => {
                    return Err(HubError::Transfer { url: url.into(), reason });
                }
            }
        }
    }

    /// Follows redirects. The token goes to the hub alone, and a redirect that describes a file is not followed when
    /// only the description was asked for.
    fn follow(&self, method: &Method, url: &str, from: Option<u64>) -> Result<Response<Body>, Failure> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let mut request =
                ureq::http::Request::builder().method(method).uri(&url).header(ACCEPT_ENCODING, "identity");
            if let Some(token) = self.options.token.as_ref().filter(|_| origin(&url) == origin(&self.options.endpoint))
            {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            if let Some(from) = from {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            let request = request.body(()).map_err(|e| Failure::Fatal(one_line(&e)))?;
            let response = self.agent.run(request).map_err(|e| classify(&e))?;
            let status = response.status();
            if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
                || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            {
                return Err(Failure::Transient(format!("the hub answers {status}")));
            }
            let described = method == Method::HEAD && response.headers().contains_key("x-linked-etag");
            let Some(location) =
                header(response.headers(), &LOCATION).filter(|_| status.is_redirection() && !described)
            else {
                return Ok(response);
            };
            url = if location.starts_with('/') && !location.starts_with("//") {
                format!("{}{location}", origin(&url))
            } else {
                location.to_owned()
            };
        }
        Err(Failure::Fatal(format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn accept(&self, response: Response<Body>, url: &str) -> Result<Response<Body>, HubError> {
        let endpoint = self.options.endpoint.clone();
        let status = response.status();
        let advice = match status {
            StatusCode::UNAUTHORIZED if self.options.token.is_none() => {
                "it does not exist, or is private or gated: set HF_TOKEN to a token that may read it"
            }
            StatusCode::UNAUTHORIZED => "the token is not valid: check HF_TOKEN",
            StatusCode::FORBIDDEN => "the model is gated: accept its conditions on its page, and set HF_TOKEN",
            StatusCode::NOT_FOUND if url.starts_with(&format!("{endpoint}/api/")) => {
                return Err(HubError::NoSuchRepo { repo: self.repo.clone(), endpoint });
            }
            // These have a meaning to whoever asks.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED | StatusCode::RANGE_NOT_SATISFIABLE => {
                return Ok(response);
            }
            _ if status.is_success() || status.is_redirection() => return Ok(response),
            _ => return Err(HubError::Transfer { url: url.into(), reason: format!("the hub answers {status}") }),
        };
        Err(HubError::Denied { repo: self.repo.clone(), endpoint, status: status.as_u16(), advice })
    }

    fn url(&self, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{file}", self.options.endpoint, self.repo.id())
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

/// A file that is being downloaded, with the digest of what is there.
struct Partial<'a> {
    path: &'a Path,
    file: File,
    len: u64,
    digest: Sha256,
}

impl<'a> Partial<'a> {
    fn open(path: &'a Path) -> Result<Self, HubError> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let opened = opened.and_then(|mut file| {
            let mut digest = Sha256::new();
            let len = io::copy(&mut file, &mut digest)?;
            Ok((file, len, digest))
        });
        let (file, len, digest) = opened.map_err(|source| HubError::Io { path: path.to_owned(), source })?;
        Ok(Self { path, file, len, digest })
    }

    fn io<T>(&self, result: io::Result<T>) -> Result<T, HubError> {
        result.map_err(|source| HubError::Io { path: self.path.to_owned(), source })
    }

    fn restart(&mut self) -> Result<(), HubError> {
        self.len = 0;
        self.digest.reset();
        self.io(self.file.set_len(0))?;
        let start = self.file.seek(SeekFrom::Start(0));
        self.io(start).map(drop)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        let written = self.file.write_all(bytes);
        self.io(written)?;
        self.digest.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn verify(&self, metadata: &Metadata) -> Result<(), String> {
        if let Some(size) = metadata.size.filter(|size| *size != self.len) {
            return Err(format!("more than the {size} bytes that the hub announced"));
        }
        match metadata.sha256() {
            Some(expected) if !format!("{:x}", self.digest.clone().finalize()).eq_ignore_ascii_case(expected) => {
                Err("the SHA-256 is not the one that the hub announced".into())
            }
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<(), HubError> {
        self.io(self.file.sync_all())
    }

    fn remove(self) {
        // It is empty; if it stays, the next download begins with it.
        let _ = std::fs::remove_file(self.path);
    }
}

fn classify(error: &ureq::Error) -> Failure {
    let fatal = match error {
        ureq::Error::Io(e) => matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound),
        ureq::Error::Timeout(_) | ureq::Error::Protocol(_) | ureq::Error::ConnectionFailed => false,
        _ => true,
    };
    let reason = one_line(error);
    if fatal { Failure::Fatal(reason) } else { Failure::Transient(reason) }
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end])
}

/// Whether a URL leads to this machine.
pub fn is_loopback(url: &str) -> bool {
    let host = origin(url).rsplit("://").next().unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|h| host == *h || host.strip_prefix(h).is_some_and(|p| p.starts_with(':')))
}

fn one_line(message: &dyn std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
