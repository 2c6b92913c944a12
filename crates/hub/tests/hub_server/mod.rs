//! A server on the loopback interface that speaks as much of the hub's file interface as downloads need, and that can
//! be told to fail in the ways that networks do.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gorgon_hub::HubOptions;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// Files of the server, and its behaviour.
#[derive(Debug, Default)]
pub struct Behaviour {
    /// Commit in the listing.
    pub commit: String,
    pub files: BTreeMap<String, Vec<u8>>,
    /// An etag that differs from the SHA-256 of the content.
    pub etags: HashMap<String, String>,
    /// Ends the connection after so many bytes of a file's content, so many times.
    pub cuts: Vec<usize>,
    /// Answers a request for whatever contains the text with a status, so many times.
    pub statuses: Vec<(String, u16, usize)>,
    /// Sends whole files whatever part is asked for.
    pub ignore_ranges: bool,
    /// Sends this instead of a file's content, with the headers of the real one.
    pub content: Option<Vec<u8>>,
    /// Sends files by redirecting to another server.
    pub redirect: Option<String>,
    /// Sends this as the listing.
    pub listing: Option<String>,
    /// Sends zeros without end or length for whatever contains the text.
    pub endless: Option<String>,
    /// Sends headers, but no content, for whatever contains the text.
    pub stalled: Option<String>,
    /// Reads requests and says nothing.
    pub silent: bool,
    /// Whether the repository is private; there is none without it.
    pub private: Option<bool>,
    pub requests: Vec<Request>,
}

/// A running server. It ends with the process.
pub struct Server {
    pub endpoint: String,
    behaviour: Arc<Mutex<Behaviour>>,
}

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

impl Server {
    /// Starts a server that holds some files of any model.
    pub fn start(files: &[(&str, &[u8])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        let behaviour = Behaviour { commit: COMMIT.into(), files, ..Behaviour::default() };
        let behaviour = Arc::new(Mutex::new(behaviour));
        let shared = behaviour.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { endpoint, behaviour }
    }

    pub fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().unwrap()
    }

    /// The requests since the last call whose path contains a text.
    pub fn take_requests(&self, path: &str) -> Vec<Request> {
        let requests = std::mem::take(&mut self.behaviour().requests);
        requests.into_iter().filter(|r| r.path.contains(path)).collect()
    }
}

/// Options with an empty cache.
pub fn options(endpoint: &str) -> (TempDir, HubOptions) {
    let folder = tempfile::tempdir().unwrap();
    let options = HubOptions {
        offline: false,
        cache: folder.path().join("hub"),
        endpoint: endpoint.into(),
        token: None,
        attempts: 3,
        pause: Duration::from_millis(1),
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(10),
    };
    (folder, options)
}

/// One request for each connection.
fn serve(stream: &TcpStream, behaviour: &Mutex<Behaviour>) {
    let Some(request) = read_request(stream) else { return };
    let (answer, silent, stalled) = {
        let mut behaviour = behaviour.lock().unwrap();
        behaviour.requests.push(request.clone());
        let stalled = behaviour.stalled.as_ref().is_some_and(|path| request.path.contains(path));
        (behaviour.answer(&request), behaviour.silent, stalled)
    };
    let pause = || -> ! {
        loop {
            std::thread::park();
        }
    };
    if silent {
        pause();
    }
    let mut stream = stream;
    let _ = stream.write_all(answer.head.as_bytes());
    if request.method != "HEAD" {
        if stalled {
            pause();
        }
        let _ = stream.write_all(&answer.body);
        while answer.endless && stream.write_all(&[0; 1 << 16]).is_ok() {}
    }
    let _ = stream.flush();
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned())));
    let headers: HashMap<_, _> = headers.collect();
    let mut body = vec![0; headers.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body })
}

struct Answer {
    head: String,
    body: Vec<u8>,
    endless: bool,
}

fn answer(status: u16, headers: &[(&str, String)], body: Vec<u8>) -> Answer {
    let mut head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    Answer { head: head + "\r\n", body, endless: false }
}

impl Behaviour {
    fn answer(&mut self, request: &Request) -> Answer {
        let failing =
            self.statuses.iter_mut().find(|(path, _, times)| request.path.contains(path.as_str()) && *times > 0);
        if let Some((_, status, times)) = failing {
            *times -= 1;
            return answer(*status, &[("Content-Length", "0".into())], Vec::new());
        }
        if self.endless.as_ref().is_some_and(|path| request.path.contains(path)) {
            return Answer { endless: true, ..answer(200, &[("ETag", "\"endless\"".into())], Vec::new()) };
        }
        if let Some(json) = self.upload(request) {
            return answer(200, &[("Content-Length", json.len().to_string())], json.into_bytes());
        }
        if request.path == "/api/models/owner/name" && self.private.is_none() {
            return answer(404, &[("Content-Length", "0".into())], Vec::new());
        }
        if request.path.starts_with("/api/") {
            let listing = self.listing.clone().unwrap_or_else(|| {
                let files: Vec<_> = self.files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
                serde_json::json!({"sha": self.commit, "siblings": files, "private": self.private}).to_string()
            });
            return answer(200, &[("Content-Length", listing.len().to_string())], listing.into_bytes());
        }
        let resolved = request.path.split_once("/resolve/").and_then(|(_, rest)| rest.split_once('/'));
        let name = resolved.map_or_else(|| request.path.rsplit('/').next().unwrap_or_default(), |(_, name)| name);
        let name = name.to_owned();
        match self.files.get(&name).cloned() {
            Some(content) => self.file(request, &name, &content),
            None => answer(404, &[("Content-Length", "0".into())], Vec::new()),
        }
    }

    /// The answers of an upload: a new repository, which files go where, and the commit.
    fn upload(&self, request: &Request) -> Option<String> {
        let json = match request.path.as_str() {
            "/api/repos/create" => serde_json::json!({"url": "http://hub/owner/name"}),
            "/api/models/owner/name/preupload/main" => {
                let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                let mode =
                    |file: &serde_json::Value| serde_json::json!({"path": file["path"], "uploadMode": "regular"});
                serde_json::json!({"files": body["files"].as_array().unwrap().iter().map(mode).collect::<Vec<_>>()})
            }
            "/api/models/owner/name/commit/main" => serde_json::json!({"commitOid": self.commit}),
            _ => return None,
        };
        Some(json.to_string())
    }

    fn file(&mut self, request: &Request, name: &str, content: &[u8]) -> Answer {
        let etag = self.etags.get(name).cloned().unwrap_or_else(|| format!("{:x}", Sha256::digest(content)));
        let mut headers = vec![("X-Repo-Commit", self.commit.clone())];
        if let Some(other) = &self.redirect {
            headers.push(("X-Linked-ETag", format!("\"{etag}\"")));
            headers.push(("X-Linked-Size", content.len().to_string()));
            headers.push(("Content-Length", "0".into()));
            headers.push(("Location", format!("{other}/elsewhere/{name}")));
            return answer(302, &headers, Vec::new());
        }
        headers.push(("ETag", format!("\"{etag}\"")));
        let range = request.headers.get("range").filter(|_| !self.ignore_ranges);
        let start = range.and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        let start = start.unwrap_or(0).min(content.len());
        headers.push(("Content-Length", (content.len() - start).to_string()));
        if range.is_some() {
            headers.push(("Content-Range", format!("bytes {start}-{}/{}", content.len() - 1, content.len())));
        }
        let mut body = self.content.clone().unwrap_or_else(|| content[start..].to_vec());
        if request.method == "GET" && !self.cuts.is_empty() {
            body.truncate(self.cuts.remove(0));
        }
        answer(if range.is_some() { 206 } else { 200 }, &headers, body)
    }
}
