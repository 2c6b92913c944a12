//! Distillation by serving engines that misbehave: rows are complete, unique, and those that the model gives itself.
#![cfg(unix)]

mod chain;
mod engine;

use chain::{Job, backbone, finished, start};
use engine::{Mood, Server};
use gorgon_data::shard::{self, Row};
use gorgon_text::tokenizer::Tokenizer;
use std::collections::BTreeSet;
use std::path::Path;

fn rows(job: &Job) -> Vec<Row> {
    shard::read(&job.path("data").join(shard::file_name(0)), 10_000).unwrap().0
}

/// Greedy answers of the model itself.
fn own() -> Vec<Row> {
    let job = Job::new();
    job.distill(&["sampling.temperature=0.0"]);
    rows(&job)
}

fn args(config: &str, urls: &[&str]) -> Vec<String> {
    let keys =
        ["sampling.temperature=0.0", "serving.pause_ms=2", "serving.attempts=400", "serving.timeout_seconds=3.0"];
    let mut args = vec!["distill".to_owned(), "-c".into(), config.into(), format!("servers={urls:?}")];
    args.extend(keys.map(str::to_owned));
    args
}

fn report(job: &Job) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(job.path("data/report.json")).unwrap()).unwrap()
}

#[test]
fn engines_that_misbehave_yield_the_models_own_rows() {
    use Mood::{Broken, Busy, Cut, Drip, HalfJson, Honest, OtherJson, Silent};
    let one = Server::start(backbone(), &[Honest, Broken, Honest, Cut, Busy, Honest, HalfJson]);
    let two = Server::start(backbone(), &[Silent, Honest, OtherJson, Honest, Honest, Busy, Honest, Broken]);
    let mut drips = vec![Honest; 40];
    drips[7] = Drip;
    let three = Server::start(backbone(), &drips);
    // Nobody listens here.
    let dead = "http://127.0.0.1:9/v1";
    let job = Job::new();
    let config = job.text("distill.toml");
    let args = args(&config, &[&one.url, dead, &two.url, &three.url]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Killed on the way, wherever it is when so many more questions were asked.
    let asked = || one.asked() + two.asked() + three.asked();
    let mut kills = 0;
    for _ in 0..3 {
        let before = asked();
        let mut child = start(&args, &[]);
        while asked() < before + 25 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        kills += u32::from(child.kill().is_ok() && !child.wait().unwrap().success());
    }
    finished(&args, &[]);
    let (served, own) = (rows(&job), own());
    assert_eq!(served.len(), own.len());
    for (a, b) in served.iter().zip(&own) {
        assert!(a == b, "row {}: {:?} {:?}", a.row, a.ends, b.ends);
    }
    let numbers: BTreeSet<u64> = served.iter().map(|row| row.row).collect();
    assert_eq!(numbers.len(), 60);
    assert_eq!(report(&job)["answers_retokenised"], 0);
    // Every answer has a seed of its own, the same whenever it is asked for.
    let seeds: BTreeSet<u64> = [&one, &two, &three].iter().flat_map(|server| server.seeds()).collect();
    let answers: usize = served.iter().map(|row| row.ends.len()).sum();
    assert_eq!(seeds.len(), answers);
    eprintln!(
        "crash-test: served by engines that misbehave, killed {kills} times in {} questions: rows lost 0",
        asked()
    );
}

/// Without ids that can be trusted, the text is tokenised again, and every such answer is marked.
#[test]
fn answers_without_sound_ids_are_marked() {
    let text = Tokenizer::load(backbone()).unwrap();
    let own = own();
    for moods in [&[Mood::TextOnly][..], &[Mood::NoIdsAtAll], &[Mood::WrongIds, Mood::MadUpIds]] {
        let server = Server::start(backbone(), moods);
        let job = Job::new();
        let config = job.text("distill.toml");
        let args = args(&config, &[&server.url]);
        finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let served = rows(&job);
        let answers: usize = served.iter().map(|row| row.ends.len()).sum();
        assert_eq!(report(&job)["answers_retokenised"], answers, "{moods:?}");
        assert!(served.iter().flat_map(|row| &row.ends).all(|end| end.ends_with(":retokenised")));
        assert_eq!(served.len(), own.len());
        for (a, b) in served.iter().zip(&own) {
            // Up to the first answer's end the text is the same; ids that spell it can differ.
            let said = |row: &Row| {
                let first = row.example.assistant.iter().position(|own| *own).unwrap();
                let rest =
                    row.example.assistant[first..].iter().position(|own| !own).unwrap_or(row.example.ids.len() - first);
                text.decode(&row.example.ids[..first + rest], true).unwrap()
            };
            assert_eq!(said(a), said(b), "{moods:?} row {}", a.row);
        }
    }
}

/// Servers that never answer end the job in one line; what they did answer is kept.
#[test]
fn servers_that_stay_away_are_named() {
    let job = Job::new();
    let config = job.text("distill.toml");
    let broken = Server::start(backbone(), &[Mood::Broken]);
    let run = |urls: &[&str], more: &[&str]| {
        let args = args(&config, urls);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let output = start(&args, &[]).wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&[&broken.url], &["serving.attempts=3"]);
    assert!(code == Some(1) && said.contains(&broken.url) && said.contains("500"), "{code:?} {said}");
    let (code, said) = run(&["ftp://somewhere"], &[]);
    assert!(code == Some(2) && said.contains("ftp://somewhere"), "{code:?} {said}");
    let (code, said) = run(&[&broken.url], &["self_talk_turns=1"]);
    assert!(code == Some(2) && said.contains("self_talk_turns"), "{code:?} {said}");
    let some = Server::start(backbone(), &[Mood::Honest]);
    let (code, said) = run(&[&some.url, &broken.url], &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(Path::new(&job.path("data").join("shards.json")).exists());
}

/// A server that redirects is given up, and the other one answers everything. Without another one the job ends.
#[test]
fn a_server_that_moved_away_is_given_up() {
    let job = Job::new();
    let config = job.text("distill.toml");
    let (moved, honest) = (Server::start(backbone(), &[Mood::Moved]), Server::start(backbone(), &[Mood::Honest]));
    let run = |urls: &[&str]| {
        let args = args(&config, urls);
        let output = start(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]).wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&[&moved.url]);
    assert!(code == Some(1) && said.contains("no server is left") && said.contains("307"), "{code:?} {said}");
    let (code, said) = run(&[&moved.url, &honest.url]);
    assert!(code == Some(0) && said.contains(&format!("server given up: {}", moved.url)), "{code:?} {said}");
    assert!(rows(&job) == own());
}

/// Whatever one server sends, only that server is lost: the others answer everything.
#[test]
fn strange_answers_lose_one_server_alone() {
    let (honest, own) = (Server::start(backbone(), &[Mood::Honest]), own());
    for (mood, attempts, words) in [
        (Mood::Teapot, 400, "418"),
        (Mood::Huge, 4, "an answer of more than"),
        (Mood::KeyTwice, 4, "the key \"choices\" is there twice"),
    ] {
        let (job, strange) = (Job::new(), Server::start(backbone(), &[mood]));
        let run = |urls: &[&str], more: &str| {
            let args = args(&job.text("distill.toml"), urls);
            let args: Vec<&str> = args.iter().map(String::as_str).chain([more]).collect();
            let output = start(&args, &[]).wait_with_output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, said) = run(&[&strange.url], &format!("serving.attempts={attempts}"));
        assert!(code == Some(1) && said.contains(words) && said.len() < 2_000, "{mood:?}: {code:?} {said}");
        let (code, said) = run(&[&strange.url, &honest.url], "serving.attempts=400");
        assert_eq!(code, Some(0), "{mood:?}: {said}");
        assert!(rows(&job) == own, "{mood:?}");
    }
}

/// An answer is never longer than was asked for, though its text is.
#[test]
fn endless_answers_are_cut_off() {
    let server = Server::start(backbone(), &[Mood::Endless]);
    let job = Job::new();
    let args = args(&job.text("distill.toml"), &[&server.url]);
    finished(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let rows = rows(&job);
    assert!(rows.iter().all(|row| row.ends == ["length:retokenised"] && row.example.labels() <= 24));
    assert!(rows.iter().any(|row| row.example.labels() == 24));
    assert!(rows.iter().all(|row| row.example.ids.len() <= 160), "max_tokens of a conversation");
}
