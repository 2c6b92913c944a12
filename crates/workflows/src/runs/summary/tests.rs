//! Tests of `summary`.

use super::*;

fn verb(config: &str) -> Option<Verb> {
    Subject::of(&config.parse().unwrap()).verb
}

#[test]
fn the_config_tells_the_command() {
    assert_eq!(verb("method = \"pretrain\"\nmodel = \"m\""), Some(Verb::Train));
    assert_eq!(verb("methods = [\"compare\"]"), Some(Verb::Compare));
    assert_eq!(verb("out = \"m\"\n[data]\nfiles = []"), Some(Verb::Pretrain));
    // A damaged config names no command, so none is recommended.
    assert_eq!(verb("model = \"m\""), None);
    assert_eq!(verb(""), None);
    assert_eq!(Verb::Pretrain.resume(Path::new("run")), "gorgon dev pretrain --resume run");
}
