use super::*;

#[test]
fn a_conversation_comes_back_as_it_was() {
    let turn = |n: usize| Exchange { user: format!("question {n}\n\"é\""), assistant: format!("answer {n}") };
    let conversation = Conversation::resumed(Some("Be brief.".into()), vec![turn(1), turn(2)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.json");
    save(&conversation, &path).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.messages(0), conversation.messages(0));
    assert_eq!(loaded.exchanges(), conversation.exchanges());
    // No other file is left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(save(&conversation, &folder.path().join("none/talk.json")).is_err());
}

#[test]
fn a_list_alone_is_read() {
    let list = br#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    assert_eq!(parse(list).unwrap().exchanges().len(), 1);
    assert_eq!(parse(b"[]").unwrap().exchanges().len(), 0);
}

#[test]
fn wrong_files_are_refused_by_message() {
    let refused = |text: &str, words: &[&str]| {
        let message = parse(text.as_bytes()).expect_err(text);
        words.iter().for_each(|word| assert!(message.contains(word), "{text}: {message}"));
    };
    refused("{", &["no JSON"]);
    refused("3", &["list of messages"]);
    refused(r#"{"messages": [], "messages": []}"#, &["messages", "twice"]);
    refused("{\"messages\": {}}", &["list of messages"]);
    refused(r#"[{"role":"user"}]"#, &["message 1", "content"]);
    refused(r#"[{"role":"user","content":["a"]}]"#, &["message 1", "content"]);
    refused(r#"[{"role":"user","content":"a"}]"#, &["no answer"]);
    refused(r#"[{"role":"assistant","content":"a"}]"#, &["message 1", "out of order"]);
    refused(r#"[{"role":"robot","content":"a"}]"#, &["robot"]);
    let late = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"c"}]"#;
    refused(late, &["message 3", "out of order"]);
    assert!(load(Path::new("/no/such/talk.json")).unwrap_err().message().contains("/no/such/talk.json"));
    assert!(load(Path::new("/dev/zero")).is_err());
}
