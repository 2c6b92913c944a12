use super::{MAX_PIECE_BYTES, MAX_STEPS, check};
use serde_json::{Value, json};

fn file(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut file = json!({
        "version": "1.0",
        "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
        ]},
        "model": {"type": "BPE", "dropout": null, "vocab": {"<s>": 0, "a": 1}, "merges": []},
    });
    change(&mut file);
    file.to_string().into_bytes()
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    check(&file(change)).unwrap_err()
}

#[test]
fn llamas_rules_make_texts_three_times_as_long() {
    let limits = check(&file(|_| ())).unwrap();
    let (before, after) = (limits.before, limits.after);
    assert_eq!((before.factor, before.plus), (3, 12));
    assert_eq!(after.factor, 1);
    assert!(before.check(80 << 20).is_ok());
    let words = before.check(100 << 20).unwrap_err();
    assert!(words.contains("104857600 bytes") && words.contains("314572812"), "{words}");
}

#[test]
fn long_added_tokens_are_refused() {
    let words = refused(|file| file["added_tokens"][0]["content"] = "x".repeat(50_000).into());
    assert_eq!(words, "added_tokens[0].content has 50000 bytes; at most 1024 are allowed");
}

#[test]
fn many_added_tokens_are_refused_by_their_sum() {
    let added = |count: usize| {
        let token = |id: usize| json!({"id": id, "content": format!("{id:0>1000}"), "special": true});
        move |file: &mut Value| file["added_tokens"] = (0..count).map(token).collect()
    };
    assert!(check(&file(added(2_000))).is_ok());
    let words = refused(added(2_100));
    assert_eq!(words, "the content of added_tokens in all has 2100000 bytes; at most 2097152 are allowed");
}

#[test]
fn chains_of_replacements_are_refused_by_their_product() {
    let rule = |times: usize| json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(times)});
    let chain = |rules: Vec<Value>| move |file: &mut Value| file["normalizer"]["normalizers"] = rules.into();
    let words = refused(chain(vec![rule(10); 8]));
    assert!(words.contains("8 rules make a text 100000000 times as long"), "{words}");
    assert!(check(&file(chain(vec![rule(10); 3]))).is_ok());
    assert!(refused(chain(vec![rule(1); 66])).contains("rules; at most 64"));
    assert!(refused(chain(vec![rule(MAX_PIECE_BYTES + 1)])).contains("1025 bytes"));
    let regex = json!({"type": "Replace", "pattern": {"Regex": "(?:)"}, "content": "a".repeat(1024)});
    assert!(refused(chain(vec![regex])).contains("1025 times"));
}

#[test]
fn long_prefixes_and_entries_are_refused() {
    let words = refused(|file| file["normalizer"] = json!({"type": "Prepend", "prepend": "x".repeat(30_000_000)}));
    assert!(words.starts_with("normalizer.prepend has 30000000 bytes"), "{words}");
    let words = refused(|file| file["model"]["vocab"] = json!({"x".repeat(5_000): 0}));
    assert!(words.starts_with("an entry of model.vocab has 5000 bytes"), "{words}");
    let words = refused(|file| file["model"]["vocab"] = json!([["x".repeat(5_000), 0.5]]));
    assert!(words.starts_with("an entry of model.vocab has 5000 bytes"), "{words}");
}

#[test]
fn random_ids_and_long_templates_are_refused() {
    assert!(refused(|file| file["model"]["dropout"] = json!(0.1)).contains("model.dropout 0.1 makes ids random"));
    let pieces = json!({"type": "TemplateProcessing", "single": vec![json!({"Sequence": {"id": "A"}}); 70]});
    assert!(refused(|file| file["post_processor"] = pieces).contains("70 pieces"));
}

#[test]
fn keys_that_are_given_twice_are_refused() {
    let text =
        String::from_utf8(file(|_| ())).unwrap().replacen("\"added_tokens\"", "\"model\":{},\"added_tokens\"", 1);
    assert!(check(text.as_bytes()).unwrap_err().contains("the key \"model\" is there twice"));
}

fn word_piece(chars: &Value) -> Value {
    json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
           "max_input_chars_per_word": chars, "vocab": {"[UNK]": 0, "a": 1, "##a": 2}})
}

/// Entries "a", "aa", … of up to so many bytes.
fn nested(longest: usize) -> Value {
    let entries: Vec<Value> = (1..=longest).map(|bytes| json!(["a".repeat(bytes), -1.0])).collect();
    json!({"type": "Unigram", "unk_id": 0, "vocab": entries})
}

#[test]
fn long_words_are_refused() {
    for chars in [json!(1025), json!(1_000_000_000), json!(1e9)] {
        let words = refused(|file| file["model"] = word_piece(&chars));
        assert_eq!(words, format!("model.max_input_chars_per_word is {chars}; at most 1024 are allowed"));
    }
    let limits = check(&file(|file| file["model"] = word_piece(&json!(100)))).unwrap();
    assert_eq!(limits.steps_per_byte, 100 * 101 / 2 + 100 * 2);
    assert!(limits.check_steps(1 << 20).is_ok());
    let limits = check(&file(|file| file["model"] = word_piece(&json!(1024)))).unwrap();
    let words = limits.check_steps(20_000).unwrap_err();
    let wanted = "searching 3 vocabulary entries in 20000 bytes can take 10536960000 steps (526848 for each byte)";
    assert!(words.starts_with(wanted), "{words}");
}

/// Bytes that Unigram and WordPiece read of candidates for a text of `a`s, counted.
fn steps_taken(text: usize, candidates: impl Fn(usize) -> Vec<usize>) -> u64 {
    (0..text).flat_map(|start| candidates(text - start)).map(|bytes| bytes as u64).sum()
}

#[test]
fn steps_stay_below_their_bound() {
    for (text, longest) in [(1, 1), (50, 7), (300, 300), (2_000, 64)] {
        let limits = check(&file(|file| file["model"] = nested(longest))).unwrap();
        let taken = steps_taken(text, |rest| (1..=rest.min(longest)).collect());
        assert!(taken <= text as u64 * limits.steps_per_byte, "{taken}");
        // Every start but those near the end takes all of them.
        assert!(text < 10 * longest || taken * 10 > text as u64 * limits.steps_per_byte * 9, "{taken}");
        let limits = check(&file(|file| file["model"] = word_piece(&json!(longest)))).unwrap();
        let taken = steps_taken(text.min(longest), |rest| (1..=rest).map(|bytes| bytes + 2).collect());
        assert!(taken <= text as u64 * limits.steps_per_byte, "{taken}");
    }
}

#[test]
fn texts_are_bounded_by_the_steps_of_their_entries() {
    let limits = check(&file(|file| file["model"] = nested(1024))).unwrap();
    assert_eq!((limits.entries, limits.steps_per_byte), (1024, 1024 * 1025 / 2));
    let most = (MAX_STEPS / limits.steps_per_byte) as usize;
    assert!(limits.check_steps(most).is_ok());
    assert!(limits.check_steps(most + 1).unwrap_err().contains("8589934592 are allowed; shorten the text"));
    // One long entry among short ones is no reason to refuse: T5's longest has 48 bytes.
    let mixed = json!({"type": "Unigram", "vocab": [["a", 0.0], ["b", 0.0], ["=".repeat(300), 0.0]]});
    assert_eq!(check(&file(|file| file["model"] = mixed)).unwrap().steps_per_byte, 301);
    let limits = check(&file(|_| ())).unwrap();
    assert!(limits.check_steps(256 << 20).is_ok(), "merges take no more than texts may be long");
}

/// A tokenizer of 256 Ki entries of 3 to 12 bytes, with a merge for each.
fn large() -> Vec<u8> {
    let (mut vocab, mut merges) = (serde_json::Map::new(), vec![]);
    let letters: Vec<char> = ('a'..='p').collect();
    for letter in &letters {
        vocab.insert(letter.to_string(), vocab.len().into());
    }
    let mut level: Vec<String> = letters.iter().map(char::to_string).collect();
    while vocab.len() < 256 << 10 {
        let pairs = level.iter().flat_map(|left| letters.iter().map(move |right| (left, right)));
        let pairs: Vec<_> = pairs.take((256 << 10) - vocab.len()).collect();
        for (left, right) in &pairs {
            vocab.insert(format!("{left}{right}"), vocab.len().into());
            merges.push(json!([left, right.to_string()]));
        }
        level = pairs.into_iter().map(|(left, right)| format!("{left}{right}")).collect();
    }
    file(|file| {
        file["added_tokens"] = json!([]);
        file["model"]["vocab"] = vocab.into();
        file["model"]["merges"] = merges.into();
    })
}

#[test]
fn a_large_vocabulary_is_read_once() {
    let bytes = large();
    assert_eq!(check(&bytes).unwrap().entries, 256 << 10);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), bytes).unwrap();
    let tokenizer = crate::tokenizer::Tokenizer::load(folder.path()).unwrap();
    assert_eq!(tokenizer.token((256 << 10) - 1).unwrap().len(), 5);
}

/// Prints how long a tokenizer of 256 Ki entries takes to load, and how long its check takes.
#[test]
#[ignore = "a measurement"]
fn load_time_of_a_large_vocabulary() {
    let bytes = large();
    let median = |work: &dyn Fn()| {
        let mut times: Vec<f64> = (0..9)
            .map(|_| {
                let began = std::time::Instant::now();
                work();
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[4]
    };
    let checked = median(&|| assert!(check(&bytes).is_ok()));
    let loaded = median(&|| drop(tokenizers::Tokenizer::from_bytes(&bytes).unwrap()));
    println!("{} bytes: load {loaded:.1} ms, check {checked:.1} ms", bytes.len());
}
