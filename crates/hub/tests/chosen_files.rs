//! Which files of a repository are downloaded, against a server on the loopback interface.

mod hub_server;

use std::collections::BTreeSet;
use std::path::PathBuf;

use gorgon_hub::{HubError, HubOptions, Repo, heads, resolve};
use hub_server::{Server, options};

const CONFIG: &[u8] = b"{}";

fn model_folder(model: &str, options: &HubOptions) -> Result<PathBuf, HubError> {
    resolve(model, options, &mut |_| {})
}

fn heads_folder(options: &HubOptions) -> Result<PathBuf, HubError> {
    heads(&Repo::parse("owner/name").unwrap(), options, &mut |_| {})
}

#[test]
fn files_of_the_text_are_downloaded_too() {
    const FOLDER: &str = "additional_chat_templates";
    let tools = format!("{FOLDER}/tool_use.jinja");
    let files: [(&str, &[u8]); 6] = [
        ("config.json", CONFIG),
        ("model.safetensors", b"weights"),
        ("special_tokens_map.json", b"{}"),
        ("chat_template.jinja", b"usual"),
        (&tools, b"with tools"),
        ("tokenizer.model", b"never"),
    ];
    let server = Server::start(&files);
    let (_folder, options) = options(&server.endpoint);
    let folder = model_folder("owner/name", &options).unwrap();
    assert_eq!(std::fs::read(folder.join(tools)).unwrap(), b"with tools");
    let top = [FOLDER, "chat_template.jinja", "config.json", "model.safetensors", "special_tokens_map.json"];
    assert!(server.take_requests("tokenizer.model").is_empty());
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(entries.collect::<BTreeSet<_>>(), top.map(String::from).into());
}

#[test]
fn heads_have_names_of_their_own() {
    let server = Server::start(&[("config.json", CONFIG), ("medusa_lm_head.safetensors", b"heads")]);
    let (_folder, options) = options(&server.endpoint);
    let folder = model_folder("owner/name", &options).unwrap();
    assert!(folder.join("medusa_lm_head.safetensors").is_file());

    server.behaviour().statuses = vec![(String::new(), 500, 99)];
    assert_eq!(
        model_folder("owner/name", &options).unwrap(),
        folder,
        "without a tokenizer the hub is asked, but not needed"
    );
}

#[test]
fn heads_may_be_a_pytorch_file() {
    let server = Server::start(&[("config.json", CONFIG), ("pytorch_model.bin", b"heads"), ("training.md", b"")]);
    let (_folder, options) = options(&server.endpoint);
    let refused = model_folder("owner/name", &options).unwrap_err().to_string();
    assert!(refused.contains("pytorch_model.bin") && refused.contains(".safetensors"), "{refused}");
    let folder = heads_folder(&options).unwrap();
    assert!(folder.join("pytorch_model.bin").is_file() && !folder.join("training.md").exists());

    server.behaviour().statuses = vec![(String::new(), 500, 99)];
    assert_eq!(heads_folder(&options).unwrap(), folder, "heads in the cache need no hub");

    let server = Server::start(&[("config.json", CONFIG), ("a.safetensors", b"heads"), ("pytorch_model.bin", b"")]);
    let (_folder, options) = self::options(&server.endpoint);
    let folder = heads_folder(&options).unwrap();
    assert!(folder.join("a.safetensors").is_file() && !folder.join("pytorch_model.bin").exists());
}
