//! Token ids of GGUF files against llama.cpp's, which `scripts/check_gguf.py` collects and names in `GORGON_GGUF_IDS`.

use gorgon_text::tokenizer::Tokenizer;
use serde_json::Value;
use std::path::Path;

#[test]
fn ids_equal_those_of_llama_cpp() {
    let Ok(path) = std::env::var("GORGON_GGUF_IDS") else {
        eprintln!("SKIPPED: GORGON_GGUF_IDS names no file; python3 scripts/check_gguf.py makes one");
        return;
    };
    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let texts: Vec<&str> = document["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let mut all = 0;
    for model in document["ids"].as_array().unwrap() {
        let file = Path::new(model["model"].as_str().unwrap());
        let tokenizer = Tokenizer::load(file).unwrap();
        let mut differ = 0;
        for (text, expected) in texts.iter().zip(model["ids"].as_array().unwrap()) {
            let expected: Vec<u64> = expected.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            let ids: Vec<u64> = tokenizer.encode(text, false).unwrap().into_iter().map(u64::from).collect();
            if ids != expected {
                eprintln!("{}: {text:?}: {ids:?}, llama.cpp: {expected:?}", file.display());
                differ += 1;
            }
        }
        println!("{{\"model\": {:?}, \"texts\": {}, \"differ\": {differ}}}", file.display(), texts.len());
        all += differ;
    }
    assert_eq!(all, 0);
}
