//! Tests of `provenance`.

use super::*;

fn launch(started: i64) -> Launch {
    let host = Host { device: "AMD EPYC".into(), cpu_threads: 2, formats: None };
    let started = Timestamp::from_second(started).unwrap();
    let build = Build { version: "0.1.0".into(), commit: "d8c46cc".into(), features: vec!["cpu".into()] };
    Launch::new(&build, ["gorgon", "train", "-c", "../my run.toml"], started, host)
}

#[test]
fn written_once_and_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let (path, input) = (dir.path().join("provenance.json"), dir.path().join("input"));
    fs::write(&input, "abc").unwrap();
    let mut provenance = Provenance::new(launch(0));
    provenance.add_input(&input).unwrap();
    assert!(provenance.add_input(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    provenance.write(&path).unwrap();
    assert!(provenance.write(&path).is_err());
    assert_eq!(Provenance::read(&path).unwrap(), provenance);
    let resumed = Resumed { step: 500, changes: vec![], config_sha256: None, launch: launch(86_400) };
    append_resumed(&path, &resumed).unwrap();
    append_resumed(&path, &resumed).unwrap();
    provenance.resumed = vec![resumed.clone(), resumed];
    assert_eq!(Provenance::read(&path).unwrap(), provenance);
    assert_eq!(provenance.launch.started, "1970-01-01T00:00:00Z");
    assert_eq!(provenance.launch.command[3], "../my run.toml");
}

#[test]
fn what_others_wrote_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("provenance.json");
    fs::write(&path, "{\"note\": 1.5, \"gorgon\": \"0.0.1\"}").unwrap();
    append_resumed(&path, &Resumed { step: 1, changes: vec![], config_sha256: None, launch: launch(0) }).unwrap();
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&file["note"], &file["resumed"][0]["step"]), (&Value::from(1.5), &Value::from(1)));
    for wrong in ["[]", "{", "{\"resumed\": 3}"] {
        fs::write(&path, wrong).unwrap();
        assert!(
            append_resumed(&path, &Resumed { step: 1, changes: vec![], config_sha256: None, launch: launch(0) })
                .is_err()
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), wrong);
    }
}

/// Files of earlier versions have `null` for the commit and no features.
#[test]
fn builds_of_earlier_versions_are_unknown() {
    let read = |text: &str| serde_json::from_str::<Build>(text).unwrap();
    let unknown = Build { version: "0.1.0".into(), commit: "unknown".into(), features: vec![] };
    assert_eq!(read("{\"gorgon\": \"0.1.0\", \"commit\": null}"), unknown);
    assert_eq!(read("{\"gorgon\": \"0.1.0\"}"), unknown);
    let now = serde_json::to_value(launch(0)).unwrap();
    assert_eq!(
        (&now["gorgon"], &now["commit"], &now["features"][0]),
        (&"0.1.0".into(), &"d8c46cc".into(), &"cpu".into())
    );
}

/// The expected values are from `sha256sum`.
#[test]
fn hashes() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1.safetensors"), dir.path().join("2.safetensors"));
    fs::write(&one, "abc").unwrap();
    fs::write(&two, vec![b'x'; 1_000_000]).unwrap();
    assert_eq!(hash_file(&one).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(hash_file(&two).unwrap(), TWO);
    assert_eq!(hash_folder_weights(&[&two, &one]).unwrap(), BOTH);
    assert!(hash_folder_weights(&[&one, &one]).is_err());
}

const TWO: &str = "1b977e9f84f1b26b6ed7f68b0498faee2385ea4125bd29adce4a7d9106ba3134";
const BOTH: &str = "e56a32c3c7d5922c3638b87a97faaef2f446b527ea3f91b4d412c77e58157573";
