use super::{MAX_PIECE_BYTES, check};
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
    let [before, after] = check(&file(|_| ())).unwrap();
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
