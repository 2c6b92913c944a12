//! Memory and speed of the automaton, and of a store of 10M tokens: `cargo bench --bench suffix_store`, a JSON row each.
//!
//! The store's documents have 400 tokens each of a vocabulary of 50,000, whose ranks are about log-uniform (a token of
//! rank r has a share of 1/r); a fifth of every document is copied from earlier ones. Looked up is, at every token, a text
//! of 200,000 tokens made in the same way: half new, half copied from the store.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_draft::store::{Store, StoreBuilder};
use gorgon_draft::suffix::automaton::SuffixAutomaton;
use gorgon_text::tokenizer::Tokenizer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

const TOKENS: usize = 10_000_000;
const DOCUMENT: usize = 400;
const LOOKED_UP: usize = 200_000;
const VOCABULARY: f64 = 50_000.0;

fn main() {
    let mut random = SeededRandom::new(1);
    let text = written(TOKENS, 0.2, None, &mut random);
    automaton("10M-store text, first 100K tokens", &text[..100_000]);
    automaton("one token, 100K times", &vec![7; 100_000]);
    automaton("pages of the documentation", &pages());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut builder = StoreBuilder::default();
    text.chunks(DOCUMENT).for_each(|document| builder.add(document).expect("documents fit"));
    let started = Instant::now();
    builder.write(&path, &"0".repeat(64)).expect("a store");
    let build = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let store = Store::open(&path).expect("a store");
    let open = started.elapsed().as_secs_f64();
    let bytes = store.bytes() as f64 / store.tokens() as f64;
    println!(
        "{}",
        json!({"what": "store", "tokens": store.tokens(), "documents": store.documents(), "bytes_per_token": bytes,
               "build_seconds": build, "open_milliseconds": open * 1e3})
    );
    look_up(&store, &written(LOOKED_UP, 0.5, Some(&text), &mut random));
}

/// Tokens, a share of which is in copied runs of 5 to 60 tokens.
fn written(length: usize, share: f64, from: Option<&[Token]>, random: &mut SeededRandom) -> Vec<Token> {
    let mut text: Vec<Token> = Vec::with_capacity(length);
    while text.len() < length {
        let known = from.unwrap_or(&text).len();
        let run = 5 + (random.uniform() * 55.0) as usize;
        if known > 1000 && random.uniform() < share {
            let at = (random.uniform() * (known - run) as f64) as usize;
            let copied = from.unwrap_or(&text)[at..at + run].to_vec();
            text.extend(copied);
        } else {
            text.extend((0..run).map(|_| VOCABULARY.powf(random.uniform()) as Token));
        }
    }
    text.truncate(length);
    text
}

/// Tokens of the README and of the book, by the tokenizer of the model that comes along.
fn pages() -> Vec<Token> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tokenizer = Tokenizer::load(&root.join("checkpoints/tiny")).expect("a tokenizer");
    let mut pages: Vec<PathBuf> = vec![root.join("README.md")];
    for folder in ["docs", "docs/src", "docs/src/guides", "docs/src/methods", "docs/src/reference"] {
        let inside = root.join(folder).read_dir().expect("the documentation");
        pages.extend(inside.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("md".as_ref())));
    }
    pages.sort();
    let texts = pages.iter().map(|path| std::fs::read_to_string(path).expect("a page"));
    texts.flat_map(|text| tokenizer.encode(&text, false).expect("tokens")).collect()
}

/// An automaton of a text: its size, and the times of a token read and of a step's counts.
fn automaton(what: &str, text: &[Token]) {
    let mut automaton = SuffixAutomaton::new();
    let started = Instant::now();
    text.iter().for_each(|&token| automaton.push(token));
    let read = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let first = std::hint::black_box(automaton.following(automaton.matched().0).count());
    let counted = started.elapsed().as_secs_f64();
    let mut steps: Vec<f64> = vec![];
    for &token in &text[..2000] {
        automaton.push(token);
        let (state, started) = (automaton.matched().0, Instant::now());
        std::hint::black_box(automaton.following(state).count());
        steps.push(started.elapsed().as_secs_f64() * 1e6);
    }
    steps.sort_by(f64::total_cmp);
    println!(
        "{}",
        json!({"what": "automaton", "text": what, "tokens": text.len(), "states_per_token": automaton.states() as f64 /
               automaton.len() as f64, "bytes_per_token": automaton.bytes() as f64 / automaton.len() as f64,
               "nanoseconds_per_token": read * 1e9 / text.len() as f64, "first_count_milliseconds": counted * 1e3,
               "followers": first, "count_p50_microseconds": steps[1000], "count_p99_microseconds": steps[1980]})
    );
}

/// Times of looking up the longest match at every token of a text, and of naming what follows it.
fn look_up(store: &Store, text: &[Token]) {
    for round in 0..3 {
        let (mut found, mut followers, mut tokens) = (vec![], vec![], 0);
        for end in 1..=text.len() {
            let started = Instant::now();
            let longest = std::hint::black_box(store.longest(&text[end.saturating_sub(256)..end]));
            found.push(started.elapsed().as_secs_f64() * 1e6);
            tokens += longest.length;
            // Drafts are made of matches of a few tokens and more.
            if longest.length >= 3 {
                let started = Instant::now();
                std::hint::black_box(store.followers(longest).count());
                followers.push(started.elapsed().as_secs_f64() * 1e6);
            }
        }
        found.sort_by(f64::total_cmp);
        followers.sort_by(f64::total_cmp);
        let at = |times: &[f64], share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{}",
            json!({"what": "look-ups", "round": round, "look_ups": text.len(), "mean_match": tokens as f64 / text.len() as
                   f64, "p50_microseconds": at(&found, 0.5), "p99_microseconds": at(&found, 0.99),
                   "followers_p50_microseconds": at(&followers, 0.5), "followers_p99_microseconds": at(&followers, 0.99)})
        );
    }
}
