//! Live stores: kept by a server or a run, saved, drafted from, and refused where answers must not depend on each other.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{gorgon, json, refused, stderr};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server that runs until it is dropped.
struct Served(Child, String);

fn tiny() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny").to_str().unwrap().to_owned()
}

fn serve(more: &[&str]) -> Served {
    let mut process = Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(["serve", "--model", &tiny(), "--port", "0"])
        .args(more)
        .env_remove("GORGON_API_KEY")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" is served at ") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the server ended");
    }
    let url = line.split_once(" is served at ").unwrap().1.split(' ').next().unwrap().to_owned();
    // Whatever else it says must not stop it.
    std::thread::spawn(move || lines.lines().for_each(drop));
    Served(process, url)
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A round of `bench` drafts from no answer of the warm-up or of an earlier round: neither from a store that grows nor
/// from what a drafter keeps of texts.
#[test]
fn rounds_of_a_measurement_know_nothing_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("prompts.jsonl");
    std::fs::write(&prompts, "{\"prompt\": \"What is 12 plus 30?\"}\n{\"prompt\": \"Count from 1 to 12.\"}\n").unwrap();
    let steps = |drafter: &str, tree: &str| {
        let prompts = prompts.to_str().unwrap();
        let drafts = ["--drafter", drafter, "--tree", tree];
        let args = ["bench", "--model", &tiny(), "--prompts", prompts, "--rounds", "2", "--json"];
        let runs = json(&gorgon(&[&args[..], &drafts].concat()))["runs"].clone();
        let drafted = runs.as_array().unwrap().iter().filter(|run| run["drafted"] == true);
        let steps: Vec<u64> = drafted.map(|run| run["steps"].as_u64().unwrap()).collect();
        assert_eq!((steps.len(), &steps[..2]), (4, &steps[2..]), "{drafter}");
        steps
    };
    let own = steps("suffix", "own:60,59");
    let stored = steps("suffix:live", "own:60,59");
    // The second prompt may be drafted from the first one's answer.
    assert!(stored[0] == own[0] && stored[1] <= own[1], "{stored:?} {own:?}");
    // Within a budget it chooses the nodes by the clock.
    steps("recycle", "dynamic:8,2,4");
}

/// Eight clients ask while others save the store. All answers are in it then, and each text is the model's own.
#[test]
fn a_server_keeps_the_answers_of_all_its_clients() {
    let server = serve(&["--drafter", "suffix:live:1", "--batch", "4"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let save = |name: &str| gorgon(&["store", "save", "--url", &server.1, &path(name), "--json"]);
    let early = save("early");
    assert_eq!(early.status.code(), Some(1), "{}", stderr(&early));
    assert!(json(&early)["error"].to_string().contains("no answer is finished yet"), "{}", stderr(&early));
    assert!(!folder.path().join("early").exists());
    let question = |client: usize| format!("What is {client} plus 30?");
    let text = |output: &std::process::Output| json(output)["turns"][0]["text"].as_str().unwrap().to_owned();
    let ask = |client: usize| gorgon(&["chat", "--url", &server.1, "--prompt", &question(client), "--json"]);
    let (save, ask, text) = (&save, &ask, &text);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|client| scope.spawn(move || [ask(client), ask(client)])).collect();
        for saver in 0..2 {
            scope.spawn(move || (0..5).for_each(|i| drop(save(&format!("early-{saver}-{i}")))));
        }
        let both = |[one, two]: [std::process::Output; 2]| {
            assert_eq!(text(&one), text(&two));
            text(&one)
        };
        clients.into_iter().map(|client| both(client.join().unwrap())).collect()
    });
    let saved = json(&save("answers.store"));
    assert_eq!(saved["documents"], 16, "{saved}");
    let lone = gorgon(&["chat", "--model", &tiny(), "--prompt", &question(3), "--json"]);
    assert_eq!(answers[3], text(&lone));
    // The store has the answer.
    let (store, model) = (path("answers.store"), tiny());
    let steps = |drafter: &str| {
        let args = ["generate", "--model", &model, "--prompt", &question(5), "--json", "--drafter", drafter];
        let found = json(&finished(&args, &[]));
        (found["text"].as_str().unwrap().to_owned(), found["steps"].as_u64().unwrap())
    };
    let (drafted, plain) = (steps(&format!("suffix:{store}")), steps("none"));
    assert!(drafted.0 == plain.0 && 3 * drafted.1 < plain.1, "{drafted:?} {plain:?}");
}

/// An answer that ends at a stop string is one: it joins the store. One whose client left does not.
#[test]
fn answers_that_end_at_a_stop_string_join_the_store() {
    let server = serve(&["--drafter", "suffix:live:1,else=rest:live:1"]);
    let ask = |more: &str, whole: bool| {
        let body = format!(r#"{{"prompt": "What is 3 plus 30?", "temperature": 0, "max_tokens": 400{more}}}"#);
        let address = server.1.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let (mut reply, mut first) = (String::new(), [0; 64]);
        if whole {
            stream.read_to_string(&mut reply).unwrap();
        } else {
            stream.read_exact(&mut first).unwrap();
        }
        reply
    };
    let reply = ask(r#", "ignore_eos": true, "stop": ["e"]"#, true);
    assert!(reply.contains(r#""finish_reason":"stop""#), "{reply}");
    ask(r#", "ignore_eos": true, "stream": true"#, false);
    let reply = ask(r#", "stop": ["a"]"#, true);
    assert!(reply.contains(r#""finish_reason":"stop""#), "{reply}");
    let folder = tempfile::tempdir().unwrap();
    let saved =
        json(&gorgon(&["store", "save", "--url", &server.1, folder.path().join("s").to_str().unwrap(), "--json"]));
    assert_eq!(saved["documents"], 2, "{saved}");
}

#[test]
fn stores_are_handed_out_where_there_is_one_and_to_whom_may_ask() {
    let folder = tempfile::tempdir().unwrap();
    let (out, key) = (folder.path().join("out"), folder.path().join("key"));
    std::fs::write(&key, "a-secret\n").unwrap();
    let save = |server: &Served| gorgon(&["store", "save", "--url", &server.1, out.to_str().unwrap()]);
    for (server, words) in [
        (serve(&["--drafter", "suffix"]), "suffix:live"),
        (serve(&["--drafter", "suffix:live", "--api-key-file", key.to_str().unwrap()]), "401"),
        (serve(&["--drafter", "suffix:live", "--host", "0.0.0.0"]), "on a loopback address only"),
    ] {
        let output = save(&server);
        assert!(output.status.code() == Some(1) && stderr(&output).contains(words), "{}", stderr(&output));
        assert!(!out.exists());
    }
    refused(&["store", "save", "--url", "nowhere", out.to_str().unwrap()], &["nowhere", "http://"]);
}

/// A server that answers `/v1/models` with one text and everything else with another, and then closes.
fn scripted(models: &'static str, other: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A connection that is closed with something unread may lose the answer.
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let is_models = head.first().is_some_and(|line| line.contains("/models"));
            let _ = stream.write_all(if is_models { models } else { other }.as_bytes());
        }
    });
    url
}

/// A body without an end fills neither memory nor disk, and one that is broken off leaves nothing behind.
#[test]
fn a_store_is_as_long_as_the_server_says() {
    let models = "HTTP/1.1 200 OK\r\nContent-Length: 23\r\nConnection: close\r\n\r\n{\"data\": [{\"id\": \"m\"}]}";
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 35\r\nConnection: close\r\n\r\n\
                 {\"data\": [{\"id\": \"m\"}], \"data\": []}";
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (models, other, words) in [
        (models, format!("{head}\r\nmuch"), "no length of its store"),
        (models, format!("{head}Content-Length: 999999999999999\r\n\r\nmuch"), "no length of its store"),
        (models, format!("{head}Content-Length: 99\r\n\r\nlittle"), ""),
        (models, format!("{head}Content-Length: 6\r\n\r\nlittle"), "no store"),
        (twice, head.into(), "twice"),
    ] {
        let url = scripted(models, other.leak());
        let output = gorgon(&["store", "save", "--url", &url, out.to_str().unwrap()]);
        assert!(output.status.code() == Some(1) && stderr(&output).contains(words), "{words}: {}", stderr(&output));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{words}");
    }
}

/// Of prompts that come again in a round, the first answers are drafted in the next ones.
#[test]
fn a_run_drafts_from_its_own_answers() {
    let (model, held_out) = (tiny(), tiny().replace("checkpoints/tiny", "datasets/tiny-chat/held_out.jsonl"));
    let held_out = std::fs::read_to_string(held_out).unwrap();
    let some: Vec<&str> = held_out.lines().take(6).collect();
    let named = |(number, line): (usize, &&str)| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["id"] = number.into();
        record.to_string()
    };
    let lines: Vec<String> = some.repeat(3).iter().enumerate().map(named).collect();
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("prompts.jsonl");
    std::fs::write(&prompts, lines.join("\n")).unwrap();
    let tokens = |drafter: &str| {
        let prompts = prompts.to_str().unwrap();
        let args = ["bench", "--model", &model, "--prompts", prompts, "--drafter", drafter, "--limit", "18", "--json"];
        let found = json(&finished(&[&args[..], &["--max-new-tokens", "40", "--rounds", "1"]].concat(), &[]));
        found["summary"]["tokens_per_step"].as_f64().unwrap()
    };
    let (alone, live) = (tokens("suffix"), tokens("suffix:live"));
    assert!(live > 1.3 * alone, "{live} {alone}");
    // By a fixed rule: measured gains depend on a clock.
    assert!(tokens("rest:live:2,below=1,else=suffix") > 1.3 * alone);
}

#[test]
fn answers_that_must_not_depend_on_each_other_refuse_one() {
    let job = Job::new();
    let config = job.text("distill.toml");
    let distil = |temperature: &str, drafter: &str| {
        let (temperature, drafter) = (format!("sampling.temperature={temperature}"), format!("drafter={drafter:?}"));
        gorgon(&["distill", "-c", &config, "--dry-run", &temperature, &drafter])
    };
    for drafter in ["suffix:live", "rest:live:4", "suffix:live,else=ngram:2"] {
        let output = distil("0.7", drafter);
        let words = stderr(&output);
        assert!(output.status.code() == Some(2) && words.contains("live store"), "{words}");
    }
    assert!(distil("0.0", "suffix:live").status.success(), "{}", stderr(&distil("0.0", "suffix:live")));
    let model = backbone().to_str().unwrap();
    for (drafter, words) in [("suffix:live:0", "from 1 to"), ("rest:live:x", "MiB"), ("suffix:live:99999999", "65536")]
    {
        refused(&["generate", "--model", model, "--prompt", "x", "--drafter", drafter], &[drafter, words]);
    }
}
