//! Hydra heads and multi-token-prediction modules through the command line: trained, looked at, decoded with, exported.

use crate::chain;
use crate::gorgon;

use chain::{Job, backbone, finished};
use gorgon::{json, refused, stderr};

/// The heads in a folder are recognised, and decoding with them gives the plain text.
fn decodes(dir: &str, drafter: &str, format: &str, tree: &str) {
    let model = backbone().to_str().unwrap();
    let found = json(&finished(&["inspect", dir, "--json"], &[]));
    assert_eq!(found["facts"]["format"], format, "{found}");
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(0), "{found}");
    let decode = |more: &[&str]| {
        let base = ["generate", "--model", model, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
        json(&finished(&[&base[..], more].concat(), &[]))
    };
    let plain = decode(&[]);
    let trees = [tree, "chain:3", "mc_sim_7b_63", "dynamic:20,3,4"];
    for (i, tree) in trees.into_iter().enumerate() {
        let named = ["--heads", dir, "--drafter", drafter, "--tree", tree];
        let drafted = decode(if i == 0 { &named[..2] } else { &named });
        assert_eq!(drafted["ids"], plain["ids"]);
        assert_eq!((&drafted["drafter"], &drafted["tree"]), (&drafter.into(), &tree.into()));
    }
    let oracle = decode(&["--heads", dir, "--drafter", "oracle:1,1"]);
    assert_eq!(oracle["ids"], plain["ids"]);
    assert!(oracle["tokens_per_step"].as_f64().unwrap() >= 1.5, "{}", oracle["tokens_per_step"]);
}

/// Trains with these settings and returns the run folder.
fn trained(job: &Job, method: &str, more: &[&str]) -> String {
    let config = job.text("train.toml");
    let method = format!("method={method:?}");
    let rates = ["training.learning_rate=3e-3", "training.save_every=4"];
    let train = [&["train", "-c", &config, &method][..], &rates, more].concat();
    let plan = finished(&[&train[..], &["--dry-run"]].concat(), &[]);
    assert!(stderr(&plan).contains(" parameters; ") && !job.path("runs").exists(), "{}", stderr(&plan));
    let document = json(&finished(&[&train[..], &["--json"]].concat(), &[]));
    let evaluation = &document["evaluation"];
    for key in ["head_loss", "top1", "top5"] {
        assert!(evaluation[key].is_array(), "{key}: {evaluation}");
    }
    assert!(evaluation["tau"].as_f64().unwrap() >= 1.0);
    let run = job.run().unwrap();
    let first = job.weights();
    // The resolved config repeats the run, bit for bit, with cached states too.
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap(), "cache_features=true"], &[]);
    assert_eq!(job.weights(), first);
    run.to_str().unwrap().into()
}

#[test]
fn hydra_heads_are_trained_decoded_with_and_exported() {
    let job = Job::new();
    job.distill(&[]);
    let run = trained(&job, "hydra", &["hydra.heads=3"]);
    let out = job.text("exported");
    decodes(&format!("{run}/heads"), "hydra", "hydra", "mc_sim_7b_63");
    finished(&["export", &run, "--to", "hydra", &out], &[]);
    decodes(&out, "hydra", "hydra", "mc_sim_7b_63");
    refused(&["export", &run, "--to", "eagle", &job.text("other")], &["hydra"]);
    let model = backbone().to_str().unwrap();
    refused(&["generate", "--model", model, "--heads", &run, "--drafter", "medusa", "--prompt", "x"], &["hydra"]);
}

#[test]
fn hydra_plus_plus_is_trained_decoded_with_and_exported() {
    let job = Job::new();
    job.distill(&[]);
    let plus = ["hydra.heads=2", "hydra.blocks=4", "hydra.prefix_attention=true", "hydra.soft_targets=true"];
    let run = trained(&job, "hydra", &[&plus[..], &["hydra.tied_blocks=true"]].concat());
    let out = job.text("exported");
    decodes(&format!("{run}/heads"), "hydra", "hydra++", "mc_sim_7b_63");
    finished(&["export", &run, "--to", "hydra", &out], &[]);
    decodes(&out, "hydra", "hydra++", "mc_sim_7b_63");
}

#[test]
fn modules_are_trained_and_decoded_with() {
    let job = Job::new();
    job.distill(&[]);
    let run = trained(&job, "mtp", &["mtp.depths=2"]);
    decodes(&format!("{run}/heads"), "mtp", "mtp", "dynamic:60,5,10");
    let out = job.text("exported");
    finished(&["export", &run, "--to", "mtp", &out], &[]);
    decodes(&out, "mtp", "mtp", "dynamic:60,5,10");
    refused(&["export", &run, "--to", "hydra", &job.text("other")], &["mtp heads, not Hydra heads"]);
    // Loaded modules are fitted further: without a step's worth of rate they stay what they were.
    let config = job.text("train.toml");
    let start = format!("init_from={run:?}");
    let on = ["train", "-c", &config, "method=\"mtp\"", "training.learning_rate=1e-30", "training.warmup=0", &start];
    let before = std::fs::read(format!("{run}/heads/model.safetensors")).unwrap();
    finished(&[&on[..], &["mtp.depths=2"]].concat(), &[]);
    assert_eq!(std::fs::read(job.run().unwrap().join("heads/model.safetensors")).unwrap(), before);
    refused(&[&on[..], &["mtp.depths=3"]].concat(), &["start from it", "model.layers.4."]);
    refused(&[&on[..], &["mtp.depths=1"]].concat(), &["eh_proj", "not among what is fitted"]);
    refused(&[&on[..6], &["method=\"medusa\"", &start]].concat(), &["start from it", "0.0.linear.weight"]);
    refused(&[&on[..], &["method=\"medusa-2\""]].concat(), &["start", "medusa-2 does not start from heads"]);
    refused(&[&on[..6], &["init_from=\"/no/such\""]].concat(), &["/no/such"]);
}

#[test]
fn an_adapter_is_trained_and_decoded_with() {
    let job = Job::new();
    job.distill(&[]);
    let own = ["method=\"kangaroo\"", "kangaroo.exit_layer=1", "kangaroo.stop=0.2"];
    finished(&[&["train", "-c", &job.text("train.toml")][..], &own].concat(), &[]);
    let (run, first) = (job.run().unwrap(), job.weights());
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap(), "cache_features=true"], &[]);
    assert_eq!(job.weights(), first);
    let run = run.to_str().unwrap().to_owned();
    decodes(&format!("{run}/heads"), "kangaroo", "kangaroo", "chain:6");
    let out = job.text("exported");
    finished(&["export", &run, "--to", "kangaroo", &out], &[]);
    decodes(&out, "kangaroo", "kangaroo", "chain:6");
    refused(
        &["export", &run, "--to", "mtp", &job.text("other")],
        &["kangaroo heads, not multi-token-prediction modules"],
    );
    let deep = ["method=\"kangaroo\"", "kangaroo.exit_layer=99"];
    refused(&[&["train", "-c", &job.text("train.toml")][..], &deep].concat(), &["kangaroo.exit_layer = 99"]);
}

#[test]
fn a_model_is_trained_to_draft_for_itself() {
    let job = Job::new();
    job.distill(&[]);
    let own = ["method=\"layerskip\"", "layerskip.exit_layer=1", "training.save_every=4"];
    let document = json(&finished(&[&["train", "-c", &job.text("train.toml"), "--json"][..], &own].concat(), &[]));
    assert_eq!(document["evaluation"]["exit_loss"].as_array().map(Vec::len), Some(2), "{document}");
    let run = job.run().unwrap();
    let first = std::fs::read(run.join("model/model.safetensors")).unwrap();
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap()], &[]);
    assert_eq!(std::fs::read(job.run().unwrap().join("model/model.safetensors")).unwrap(), first);
    let model = run.join("model");
    let base = ["generate", "--model", model.to_str().unwrap(), "--prompt", "What is 3 + 4?", "--max-new-tokens", "24"];
    let decode = |more: &[&str]| json(&finished(&[&base[..], more, &["--json"]].concat(), &[]));
    let drafted = decode(&["--drafter", "early-exit:1"]);
    assert_eq!((&drafted["ids"], &drafted["tree"]), (&decode(&[])["ids"], &"chain:6".into()));
    let run = run.to_str().unwrap();
    refused(&["generate", "--model", run, "--prompt", "x"], &["the run folder of a training (layerskip), not a model"]);
    let wrong = ["method=\"layerskip\"", "cache_features=true"];
    refused(&[&["train", "-c", &job.text("train.toml")][..], &wrong].concat(), &["cache_features"]);
}

#[test]
fn a_block_drafter_is_trained_and_decoded_with() {
    let job = Job::new();
    job.distill(&[]);
    let own = ["method=\"block\"", "block.layers=1", "block.block_size=4", "block.conv=true", "block.selector.k=4"];
    finished(&[&["train", "-c", &job.text("train.toml")][..], &own].concat(), &[]);
    let (run, first) = (job.run().unwrap(), job.weights());
    finished(&["train", "-c", run.join("config.toml").to_str().unwrap(), "cache_features=true"], &[]);
    assert_eq!(job.weights(), first);
    let run = run.to_str().unwrap();
    decodes(&format!("{run}/heads"), "block", "dflash", "trellis:60");
    let out = job.text("exported");
    finished(&["export", run, "--to", "dflash", &out], &[]);
    decodes(&out, "block", "dflash", "trellis:60");
    refused(&["export", run, "--to", "mtp", &job.text("other")], &["block heads, not multi-token-prediction modules"]);
    refused(&["export", run, "--to", "speculators", &job.text("other")], &["have no place there", "speculators"]);
    // DFlash, without the parts of its second version, goes to speculators and back.
    let published = Job::new();
    published.distill(&[]);
    let own = ["method=\"block\"", "block.layers=1", "block.block_size=4"];
    finished(&[&["train", "-c", &published.text("train.toml")][..], &own].concat(), &[]);
    let run = published.run().unwrap();
    let (there, back) = (published.text("speculators"), published.text("back"));
    finished(&["export", run.to_str().unwrap(), "--to", "speculators", &there], &[]);
    decodes(&there, "block", "speculators", "trellis:60");
    finished(&["export", &there, "--to", "dflash", &back], &[]);
    decodes(&back, "block", "dflash", "trellis:60");
}

/// Probes of every kind: trained, published, decoded with, exported, resumed from.
#[test]
fn probes_are_trained_and_decoded_with() {
    let distilled = Job::new();
    distilled.distill(&[]);
    for (method, own, tree) in [
        ("ppd", "ppd.ensemble=2", "own:24,3"),
        ("pass", "pass.two_pass=true", "chain:4"),
        ("space", "space.masks=2", "chain:2"),
    ] {
        let job = Job::like(&distilled);
        let run = trained(&job, method, &[own]);
        decodes(&format!("{run}/heads"), method, method, tree);
        let out = job.text("exported");
        finished(&["export", &run, "--to", "probes", &out], &[]);
        decodes(&out, method, method, tree);
        refused(&["export", &run, "--to", "hydra", &job.text("other")], &["not Hydra heads"]);
        let model = backbone().to_str().unwrap();
        let other = if method == "ppd" { "pass" } else { "ppd" };
        let named = ["generate", "--model", model, "--heads", &out, "--drafter", other, "--prompt", "x"];
        refused(&named, &[method, other]);
    }
}

/// CLLM: trajectories beside shards, a fitted model, and its text by Jacobi decoding.
#[test]
fn a_backbone_is_fitted_for_jacobi_decoding() {
    let job = Job::new();
    job.distill(&[]);
    let (train, data, model) = (job.text("train.toml"), job.text("data"), backbone().to_str().unwrap());
    let on = ["train", "-c", &train, "method=\"cllm\"", "training.learning_rate=1e-3"];
    refused(&on, &["no trajectories are here"]);
    let make = ["dev", "trajectories", &data, "--model", model, "--block", "4", "--json"];
    let made = json(&finished(&make, &[]));
    assert!(made["blocks"].as_u64().unwrap() > 10 && made["kept"] == 0, "{made}");
    let again = json(&finished(&make, &[]));
    assert_eq!((&again["kept"], &again["iterations"]), (&made["shards"], &made["iterations"]));
    for (name, keys) in [("lora", &["cllm.weights=lora", "cllm.lora.rank=4"][..]), ("full", &["cllm.weights=full"])] {
        let document = json(&finished(&[&on[..], keys, &["--json"]].concat(), &[]));
        let evaluation = &document["evaluation"];
        assert!(evaluation["kl"].is_number() && evaluation["tau"].as_f64().unwrap() >= 1.0, "{evaluation}");
        let run = job.run().unwrap();
        let first = std::fs::read(run.join("merged/model.safetensors")).unwrap();
        finished(&["train", "-c", run.join("config.toml").to_str().unwrap()], &[]);
        assert_eq!(std::fs::read(job.run().unwrap().join("merged/model.safetensors")).unwrap(), first);
        let out = job.text(&format!("exported-{name}"));
        finished(&["export", run.to_str().unwrap(), "--to", "merged", &out], &[]);
        let decode = |drafter: &str| {
            let base = ["generate", "--model", &out, "--prompt", "What is 3 + 4?", "--max-new-tokens", "24", "--json"];
            json(&finished(&[&base[..], &["--drafter", drafter]].concat(), &[]))
        };
        assert_eq!(decode("none")["ids"], decode("jacobi:4")["ids"]);
    }
    let file = job.path("data/trajectories-00000.parquet");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    refused(&on, &["trajectories-00000.parquet"]);
}

#[test]
fn wrong_settings_are_refused_in_a_line() {
    let job = Job::new();
    job.distill(&[]);
    let train = job.text("train.toml");
    for (method, given, word) in [
        ("hydra", "hydra.heads=0", "hydra.heads"),
        ("hydra", "hydra.decay=nan", "hydra.decay"),
        ("hydra", "hydra.typo=1", "typo"),
        ("mtp", "mtp.depths=9", "mtp.depths"),
        ("block", "block.block_size=1", "block.block_size"),
        ("kangaroo", "kangaroo.stop=2", "kangaroo.stop"),
        ("ppd", "ppd.ensemble=0", "ppd.ensemble"),
        ("pass", "pass.look_ahead=17", "pass.look_ahead"),
        ("space", "space.mask_token=100000", "space.mask_token"),
        ("cllm", "cllm.label_smoothing=2", "cllm.label_smoothing"),
    ] {
        refused(&["train", "-c", &train, &format!("method={method:?}"), given], &[word]);
    }
    for drafter in ["hydra", "mtp", "block", "kangaroo", "ppd"] {
        let model = backbone().to_str().unwrap();
        refused(&["generate", "--model", model, "--drafter", drafter, "--prompt", "x"], &["heads"]);
    }
}
