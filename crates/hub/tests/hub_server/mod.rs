//! A server on the loopback interface that speaks as much of the hub's file interface as downloads need, and that can
//! be told to fail in the ways that networks do.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest, Sha256};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
}

/// What the server holds and how it behaves.
#[derive(Debug, Default)]
pub struct Behaviour {
    /// What the listing calls the commit.
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

/// One request for each connection.
fn serve(stream: &TcpStream, behaviour: &Mutex<Behaviour>) {
    let Some(request) = read_request(stream) else { return };
    let answer = {
        let mut behaviour = behaviour.lock().unwrap();
        behaviour.requests.push(request.clone());
        behaviour.answer(&request)
    };
    let mut stream = stream;
    let _ = stream.write_all(answer.head.as_bytes());
    if request.method != "HEAD" {
        let _ = stream.write_all(&answer.body);
    }
    let _ = stream.flush();
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| line.split_once(": ").map(|(k, v)| (k.to_lowercase(), v.to_owned())));
    Some(Request { method, path, headers: headers.collect() })
}

struct Answer {
    head: String,
    body: Vec<u8>,
}

fn answer(status: u16, headers: &[(&str, String)], body: Vec<u8>) -> Answer {
    let mut head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    Answer { head: head + "\r\n", body }
}

impl Behaviour {
    fn answer(&mut self, request: &Request) -> Answer {
        let failing =
            self.statuses.iter_mut().find(|(path, _, times)| request.path.contains(path.as_str()) && *times > 0);
        if let Some((_, status, times)) = failing {
            *times -= 1;
            return answer(*status, &[("Content-Length", "0".into())], Vec::new());
        }
        if request.path.starts_with("/api/models/") {
            let listing = self.listing.clone().unwrap_or_else(|| {
                let files: Vec<_> = self.files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
                serde_json::json!({"sha": self.commit, "siblings": files}).to_string()
            });
            return answer(200, &[("Content-Length", listing.len().to_string())], listing.into_bytes());
        }
        let name = request.path.rsplit('/').next().unwrap_or_default().to_owned();
        match self.files.get(&name).cloned() {
            Some(content) => self.file(request, &name, &content),
            None => answer(404, &[("Content-Length", "0".into())], Vec::new()),
        }
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
