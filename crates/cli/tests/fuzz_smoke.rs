//! Hostile input, bounded: the fuzz targets' functions over mutated valid files, and over the inputs in `fuzz/seeds`
//! that a fuzzer found to reach more code. `GORGON_FUZZ_ROUNDS` for more of them,
//! `GORGON_FUZZ_ONLY=TARGET` for one target, `GORGON_FUZZ_FROM` for other files, `GORGON_FUZZ_SEEDS=FOLDER` to write the
//! valid files there instead.

#[path = "../../../fuzz/src/targets/mod.rs"]
mod targets;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use targets::{TARGETS, Target};

/// A sequence of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper bits are the good ones.
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// Fragments that break readers: bounds of integers, brackets, keys without values, bytes that are no text.
const PIECES: [&[u8]; 24] = [
    b"0",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"null",
    b"{}",
    b"[]",
    b"[[[[",
    b"{\"a\":",
    b"\"",
    b"\\ud800",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\xff\xff\xff\x7f",
    b"\xef\xbb\xbf",
    b"../../x",
    b"{{",
    b"{% for x in range(999999999) %}",
    b"\n",
    b",",
    b"NaN",
    b"\x7f\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
];

fn mutate(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..1 + numbers.below(6) {
        let at = numbers.below(bytes.len() + 1);
        let end = (at + 1 + numbers.below(24)).min(bytes.len());
        match numbers.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            1 if at < bytes.len() => bytes[at] = numbers.below(256) as u8,
            // Headers lie at the start, footers at the end.
            2 if !bytes.is_empty() => {
                let near = numbers.below(bytes.len().min(64));
                let at = if numbers.below(2) == 0 { near } else { bytes.len() - 1 - near };
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, numbers.below(256) as u8][numbers.below(6)];
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.splice(at..at, PIECES[numbers.below(PIECES.len())].iter().copied())),
            5 => drop(bytes.splice(at..end.max(at), PIECES[numbers.below(PIECES.len())].iter().copied())),
            6 => drop(bytes.drain(at..end.max(at))),
            7 => {
                let piece = bytes[at..end.max(at)].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
        }
    }
    bytes
}

/// The inputs that are kept for a target, in the order of their names.
fn kept(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target.name);
    let Ok(inside) = folder.read_dir() else { return vec![] };
    let mut paths: Vec<_> = inside.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Reads bytes; a panic is kept with the bytes, so that it can be repeated.
fn survives(target: &Target, bytes: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.read)(bytes))) {
        let kept = std::env::temp_dir().join(format!("gorgon-fuzz-{}", target.name));
        std::fs::write(&kept, bytes).unwrap();
        panic!("{} panics on {what}, kept as {}: {}", target.name, kept.display(), words(&*panic));
    }
}

#[test]
fn hostile_bytes_end_in_errors() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (rounds, from) = (number("GORGON_FUZZ_ROUNDS").unwrap_or(150), number("GORGON_FUZZ_FROM").unwrap_or(0));
    let only = std::env::var("GORGON_FUZZ_ONLY").ok();
    let folder = std::env::var_os("GORGON_FUZZ_SEEDS");
    // Libraries panic, and are contained; what is told is what gets out.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(said) = panic.payload_as_str().filter(|said| said.contains("panics on")) {
            eprintln!("{said}");
        }
    }));
    for target in TARGETS.into_iter().filter(|target| only.as_ref().is_none_or(|only| target.name == only)) {
        let seeds = catch_unwind(target.seeds)
            .unwrap_or_else(|panic| panic!("{} panics on its seeds: {}", target.name, words(&*panic)));
        assert!(!seeds.is_empty() && seeds.iter().all(|seed| !seed.is_empty()), "{}", target.name);
        if let Some(folder) = &folder {
            let folder = Path::new(folder).join(target.name);
            std::fs::create_dir_all(&folder).unwrap();
            for (i, seed) in seeds.iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{i}")), seed).unwrap();
            }
            continue;
        }
        let seeds: Vec<Vec<u8>> = seeds.into_iter().chain(kept(&target)).collect();
        for (i, seed) in seeds.iter().enumerate() {
            survives(&target, seed, &format!("seed {i}"));
        }
        survives(&target, b"", "nothing");
        let mut numbers = Numbers(
            target.name.bytes().fold(11 + from, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))),
        );
        for round in 0..rounds {
            let bytes = mutate(&seeds, &mut numbers);
            survives(&target, &bytes, &format!("round {round}"));
        }
        eprintln!("fuzz-smoke: {} read {rounds} hostile files", target.name);
    }
}
