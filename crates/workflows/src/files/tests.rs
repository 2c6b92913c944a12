//! Tests of `files`.

use super::*;

#[test]
fn a_folder_is_as_large_as_its_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(dir.path().join("a/b"), [0; 300]).unwrap();
    std::fs::write(dir.path().join("c"), [0; 70]).unwrap();
    assert_eq!(folder_bytes(dir.path()), 370);
    assert_eq!(folder_bytes(&dir.path().join("nowhere")), 0);
}

#[test]
fn files_of_the_text_are_hashed_and_copied() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    let tools = "additional_chat_templates/tool_use.jinja";
    std::fs::create_dir_all(from.join(tools).parent().unwrap()).unwrap();
    std::fs::create_dir(&to).unwrap();
    for name in ["config.json", "tokenizer.json", "special_tokens_map.json", "merges.txt", tools, "notes.txt"] {
        std::fs::write(from.join(name), name).unwrap();
    }
    let hashes = description_hashes(&from).unwrap();
    let hashed: Vec<&str> = hashes.keys().map(String::as_str).collect();
    assert_eq!(hashed, [tools, "config.json", "special_tokens_map.json"]);
    copy_tokenizer(&from, &to).unwrap();
    for (name, is_copied) in [("tokenizer.json", true), ("merges.txt", true), (tools, true), ("notes.txt", false)] {
        assert_eq!(to.join(name).is_file(), is_copied, "{name}");
    }
}
