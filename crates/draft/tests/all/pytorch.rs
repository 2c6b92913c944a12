//! Heads in PyTorch files load as if they were safetensors, and damaged files are errors.

use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadsFormat;
use gorgon_draft::pytorch;
use std::path::Path;

const HEADS: &[u8] = include_bytes!("../data/medusa_lm_head.pt");

fn open(dir: &Path, name: &str, bytes: &[u8]) -> Result<HeadsFolder, String> {
    std::fs::write(dir.join(name), bytes).unwrap();
    HeadsFolder::open(dir).map_err(|error| error.to_string())
}

#[test]
fn heads_load_with_their_names_shapes_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let folder = open(dir.path(), "medusa_lm_head.pt", HEADS).unwrap();
    assert_eq!(folder.detected.format, HeadsFormat::MedusaV1);
    assert_eq!(folder.checkpoint.entries().len(), 6);
    assert_eq!(folder.checkpoint.read_all("1.0.linear.bias").unwrap(), [-1.0, 0.0, 1.0, 2.0]);
    assert_eq!(folder.checkpoint.read_all("0.1.weight").unwrap()[31], 31.0 / 32.0);
}

#[test]
fn the_file_that_is_called_as_heads_are_wins_and_safetensors_win_over_it() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("optimizer.pt"), b"something else").unwrap();
    assert!(open(dir.path(), "medusa_lm_head.pt", HEADS).is_ok());
    pytorch::convert(&dir.path().join("medusa_lm_head.pt"), &dir.path().join("model.safetensors")).unwrap();
    assert!(open(dir.path(), "medusa_lm_head.pt", b"broken").is_ok());
}

/// A file is as good as its folder, whatever else lies beside it.
#[test]
fn a_file_can_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("a.pt"), dir.path().join("b.bin"));
    for path in [&one, &other] {
        std::fs::write(path, HEADS).unwrap();
    }
    assert!(HeadsFolder::open(dir.path()).is_err(), "two files without a name of their own");
    let stored = dir.path().join("c.safetensors");
    pytorch::convert(&one, &stored).unwrap();
    for path in [&one, &other, &stored] {
        let folder = HeadsFolder::open(path).unwrap();
        assert_eq!((folder.detected.format, folder.path.as_path()), (HeadsFormat::MedusaV1, dir.path()));
    }
}

/// A pickle that would run a command says what it would call, and nothing is called.
#[test]
fn nothing_is_executed() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("executed");
    let pickle = format!("cos\nsystem\n(S'touch {}'\ntR.", mark.display());
    let error = open(dir.path(), "medusa_lm_head.pt", pickle.as_bytes()).unwrap_err();
    assert!(error.contains("medusa_lm_head.pt") && !error.contains('\n'), "{error}");
    assert!(!mark.exists());
}

#[test]
fn damaged_files_are_errors_that_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for cut in [0, 1, 20, HEADS.len() / 2, HEADS.len() - 1] {
        let error = open(dir.path(), "medusa_lm_head.pt", &HEADS[..cut]).unwrap_err();
        assert!(error.contains("medusa_lm_head.pt"), "{error}");
    }
    // Whatever a changed byte does, it is an error or other heads, never a panic.
    for at in (0..HEADS.len()).step_by(3) {
        let mut bytes = HEADS.to_vec();
        bytes[at] ^= 0x5a;
        let _ = open(dir.path(), "medusa_lm_head.pt", &bytes);
    }
}
