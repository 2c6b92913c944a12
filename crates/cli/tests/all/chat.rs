//! `gorgon chat` through pipes, and `--prompt -`.

use crate::gorgon;

use gorgon::{json, stderr, stdout};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tiny() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny").to_str().unwrap().to_owned()
}

/// Runs the program with some input.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(args)
        .args(["--offline"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its options reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The document of a chat.
fn chat(args: &[&str], input: &str) -> Value {
    let model = tiny();
    let output = fed(&[&["chat", "--model", &model, "--json"], args].concat(), input.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&output)
}

fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap_or_else(|| panic!("{key}: {value}")) as usize
}

#[test]
fn a_turn_reads_its_own_tokens_only() {
    for drafter in ["none", "ngram:2", "early-exit:2"] {
        let message = "What is 12 plus 7?\n".repeat(6);
        let document = chat(&["--drafter", drafter, "--max-new-tokens", "40"], &message);
        let turns = document["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 6);
        let mut text = 0;
        for (at, turn) in turns.iter().enumerate() {
            let (prompt, read) = (number(turn, "prompt_tokens"), number(turn, "prompt_tokens_read"));
            assert_eq!(number(turn, "cached_tokens"), prompt - read);
            // The last token of an answer was never read, the rest of it was.
            assert_eq!(prompt - read, if at == 0 { 0 } else { text - 1 }, "{drafter}, turn {at}: {turn}");
            assert!(at == 0 || read <= number(&turns[1], "prompt_tokens_read") + 1, "{drafter}, turn {at}: {turn}");
            text = prompt + turn["ids"].as_array().unwrap().len();
        }
        assert_eq!(document["messages"].as_array().unwrap().len(), 12);
    }
}

#[test]
fn a_full_context_leaves_old_turns_out_and_goes_on() {
    let long = "word ".repeat(600);
    let input = format!("{}{long}\n{}", "Tell me a story about a cat.\n".repeat(12), "Are you there?\n".repeat(2));
    let document = chat(&["--context", "256", "--max-new-tokens", "48", "--system", "Be kind."], &input);
    let turns = document["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 15);
    assert!(turns[12]["error"].as_str().unwrap().contains("too long"), "{}", turns[12]);
    let answered: Vec<&Value> = turns.iter().filter(|turn| turn["error"].is_null()).collect();
    assert_eq!(answered.len(), 14);
    let left_out: Vec<usize> = answered.iter().map(|turn| number(turn, "trimmed_turns")).collect();
    assert!(left_out.is_sorted() && left_out[0] == 0 && left_out[13] > 2, "{left_out:?}");
    answered.iter().for_each(|turn| assert!(number(turn, "prompt_tokens") < 256));
    // All of it is kept, though not all of it is in the prompt.
    assert_eq!(document["messages"].as_array().unwrap().len(), 1 + 2 * 14);
    let prose = fed(
        &["chat", "--model", &tiny(), "--context", "256", "--max-new-tokens", "48"],
        "Tell me a story about a cat.\n".repeat(12).as_bytes(),
    );
    assert!(stderr(&prose).contains("turns are left out") && stderr(&prose).contains("old turns left out]"));
}

#[test]
fn a_comparison_shows_both_answers_and_their_times() {
    let model = tiny();
    let args = ["chat", "--model", &model, "--drafter", "ngram:2", "--max-new-tokens", "24"];
    let output = fed(&args, b"Count from one to ten.\n/compare\n/compare Say it again.\n/stats\n");
    let (shown, said) = (stdout(&output), stderr(&output));
    assert_eq!(shown.matches(" │ drafted, ").count(), 2, "{shown}");
    assert_eq!(said.matches("the same text").count(), 2, "{said}");
    assert!(said.contains("× plain") && said.contains("tokens per step"), "{said}");
    assert!(!shown.contains('\u{1b}') && !said.contains('\u{1b}'));
    let coloured = fed(&[&args[..], &["--color", "always"]].concat(), b"Spell the word letter.\n/compare\n");
    assert!(stdout(&coloured).contains("\u{1b}[32m"), "{}", stdout(&coloured));
    let plain = fed(&["chat", "--model", &model], b"/compare\n/compare hello\nhello\n");
    assert!(stderr(&plain).contains("no drafter to compare with"));
}

#[test]
fn settings_change_and_are_checked() {
    let input = "/set max_new_tokens 3\nhello\n/set temprature 1\n/set temperature -1\n/set drafter ngram:2\n\
                 /set temperature 0.7\n/set seed 3\nhello\n/retry\n/hepl\n/set\n";
    let model = tiny();
    let output = fed(&["chat", "--model", &model], input.as_bytes());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("[3 tokens").count() + said.matches("[2 tokens").count(), 3, "{said}");
    assert!(said.contains("did you mean \"temperature\"?") && said.contains("did you mean \"/help\"?"), "{said}");
    assert!(said.contains("temperature 0.7, top_p none") && said.contains("drafter ngram:2"), "{said}");
    assert_eq!(said.matches("error:").count(), 3, "{said}");
    // The same seed gives the same answer.
    let sampled = || chat(&["--temperature", "1", "--seed", "5", "--max-new-tokens", "20"], "hello\n/retry\n");
    let (one, two) = (sampled(), sampled());
    assert_eq!(one["turns"][0]["ids"], two["turns"][0]["ids"]);
    assert_eq!(one["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_saved_conversation_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.json");
    let name = file.to_str().unwrap();
    let first = chat(&["--max-new-tokens", "20"], &format!("hello\n/system Be brief.\n/save {name}\n"));
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(saved["messages"][0]["content"], "Be brief.");
    assert_eq!(saved["messages"][2]["content"], first["turns"][0]["text"]);
    let second = chat(&["--max-new-tokens", "20"], &format!("/load {name}\nand now?\n"));
    assert_eq!(second["messages"].as_array().unwrap().len(), 5);
    assert!(number(&second["turns"][0], "prompt_tokens") > number(&first["turns"][0], "prompt_tokens"));
    std::fs::write(&file, "{\"messages\": 3}").unwrap();
    let model = tiny();
    let output =
        fed(&["chat", "--model", &model, "--max-new-tokens", "4"], format!("/load {name}\nhello\n").as_bytes());
    assert!(output.status.success() && stderr(&output).contains("talk.json"), "{}", stderr(&output));
    assert!(stderr(&output).contains("tokens/s"));
}

#[test]
fn blocks_are_one_message() {
    let document = chat(&["--max-new-tokens", "4"], "\"\"\"one\n/help\n\"\"\"\ntwo\n\"\"\"\nthree\nfour");
    let users: Vec<&str> = document["turns"].as_array().unwrap().iter().map(|t| t["user"].as_str().unwrap()).collect();
    assert_eq!(users, ["one\n/help", "two", "three\nfour"]);
}

#[test]
fn the_prompt_comes_from_stdin() {
    let model = tiny();
    let args = ["generate", "--model", &model, "--max-new-tokens", "8", "--json"];
    let ids = |output: Output| json(&output)["prompt_ids"].clone();
    let typed = ids(fed(&[&args[..], &["--prompt", "one\ntwo"]].concat(), b""));
    assert_eq!(ids(fed(&[&args[..], &["--prompt", "-"]].concat(), b"one\ntwo\n")), typed);
    for (input, word) in [(&b""[..], "empty"), (b"a\xff", "UTF-8")] {
        let output = fed(&[&args[..], &["--prompt", "-"]].concat(), input);
        assert_eq!(output.status.code(), Some(2));
        assert!(json(&output)["error"].as_str().unwrap().contains(word), "{}", stdout(&output));
    }
    let chat = fed(&["chat", "--model", &model, "-p", "-", "--json"], b"hello\n");
    assert_eq!(json(&chat)["turns"][0]["user"], "hello");
}

/// Heads draft in trees whose size follows from the times of steps, where the text does not depend on it and no tree is
/// named. The text is that of plain decoding.
#[test]
fn heads_draft_as_much_as_pays() {
    let folder = tempfile::tempdir().unwrap();
    let config: Value =
        serde_json::from_slice(&std::fs::read(Path::new(&tiny()).join("config.json")).unwrap()).unwrap();
    crate::random_heads::write(folder.path(), number(&config, "hidden_size"), number(&config, "vocab_size"));
    let (heads, asked) = (folder.path().to_str().unwrap(), "Tell me a story.\nWhat is 12 + 30?\nTell me a story.\n");
    for (options, tree) in [
        (&[][..], "trellis:64"),
        (&["--temperature", "0.8", "--seed", "3"], "trellis:64"),
        (&["--temperature", "0.8", "--accept", "sampling"], "mc_sim_7b_63"),
        (&["--tree", "chain:2"], "chain:2"),
    ] {
        let drafted = chat(&[options, &["--heads", heads]].concat(), asked);
        assert_eq!(drafted["tree"], tree, "{options:?}");
        if tree == "trellis:64" {
            let plain = chat(options, asked);
            assert_eq!(drafted["messages"], plain["messages"], "{options:?}");
        }
    }
    // Another rule in the middle of a chat takes another tree.
    let mixed = chat(&["--heads", heads], "Hello!\n/set accept typical\nHello!\n/set accept greedy\nHello!\n");
    assert_eq!((&mixed["tree"], &mixed["accept"]), (&"trellis:64".into(), &"greedy".into()));
    let model = tiny();
    for (more, noted) in [
        (&[][..], false),
        (&["--temperature", "1", "--accept", "sampling"], true),
        (&["--accept", "sampling", "--tree", "chain:2"], false),
        (&["--accept", "sampling", "-q"], false),
    ] {
        let said = fed(&[&["chat", "--model", &model, "--heads", heads, "--prompt", "Hello!"], more].concat(), b"");
        assert_eq!(stderr(&said).contains("note: the heads are not calibrated"), noted, "{}", stderr(&said));
    }
}
