//! Probes.

use crate::format::synthetic::{H, Tensors, V};
use gorgon_draft::format::{HeadSpec, HeadsFormat, ProbeKind, ProbeSpec};
use serde_json::{Value, json};

fn rows(kind: ProbeKind) -> usize {
    match kind {
        ProbeKind::Ppd => 6,
        ProbeKind::Pass => 3,
        ProbeKind::Space => 1,
    }
}

pub fn probes(kind: ProbeKind) -> Tensors {
    Tensors::default().with(kind.tensor(), &[rows(kind), H])
}

pub fn config(kind: ProbeKind) -> Value {
    let mut config = json!({"model_type": kind.name(), "num_probes": 3, "hidden_size": H, "vocab_size": V});
    if kind == ProbeKind::Ppd {
        config["ensemble"] = 2.into();
    }
    config
}

fn with(kind: ProbeKind, key: &str, value: Value) -> Value {
    let mut config = config(kind);
    config[key] = value;
    config
}

#[test]
fn one_table_tells_the_method() {
    for kind in ProbeKind::ALL {
        let found = probes(kind).clean(HeadsFormat::Probes(kind), Some(&config(kind)));
        let HeadSpec::Probes(spec) = found.spec else { panic!("{:?}", found.spec) };
        let members = if kind == ProbeKind::Ppd { 2 } else { 1 };
        let (vocab_size, two_pass) = (Some(V), false);
        assert_eq!(spec, ProbeSpec { kind, places: 3, members, hidden_size: H, vocab_size, two_pass });
    }
}

#[test]
fn contradictions_are_named() {
    let (ppd, space) = (ProbeKind::Ppd, ProbeKind::Space);
    let broken = |kind, tensors: Tensors, config: Value, problem: &str| {
        tensors.broken(HeadsFormat::Probes(kind), Some(&config), &[problem]);
    };
    broken(ppd, probes(ppd), with(ppd, "num_probes", 4.into()), "wrong shape: prompt_tokens.weight has 6 rows, not 8");
    broken(
        ppd,
        probes(ppd),
        with(ppd, "model_type", "pass".into()),
        "config.json: model_type is pass, but the tensors are of ppd",
    );
    broken(ppd, probes(ppd).with("prompt_norm.weight", &[H]), config(ppd), "unexpected: prompt_norm.weight");
    broken(
        ppd,
        probes(ppd),
        with(ppd, "hidden_size", (H + 1).into()),
        "config.json: hidden_size is 65, but the tensors say 64",
    );
    broken(space, probes(space), with(space, "ensemble", 2.into()), "config.json: ensemble is 2, but space has none");
    let two = Tensors::default().with(space.tensor(), &[2, H]);
    broken(space, two, config(space), "wrong shape: mask_token.weight has 2 rows, not 1");
    probes(ppd).broken(HeadsFormat::Probes(ppd), None, &["no config.json: the number of probes is unknown"]);
}
