//! Published weights that turn out to be worse.

use super::{Job, Learner, Path, heads, learn, questions, replace, tiny};

/// Weights that were published and are worse on later texts than those before are rolled back.
#[test]
fn published_weights_are_rolled_back() {
    let job = Job::new();
    let live = heads(&job);
    let [weights, previous] =
        ["model", "previous"].map(|name| Path::new(&live).join(name).with_extension("safetensors"));
    let start = std::fs::read(&weights).unwrap();
    let mut server = Learner::start(&tiny(), ["--heads", &live], &job.text("log"));
    questions().iter().for_each(|question| drop(server.answer(question)));
    assert!(learn(&job, &live, &[]).contains("published: "));
    let learnt = std::fs::read(&weights).unwrap();
    server.waits_for("newer weights of the drafter");
    // The worse weights become the published ones, the better ones those before.
    replace(&previous, &learnt);
    replace(&weights, &start);
    let said = learn(&job, &live, &["training.learning_rate=1e-6", "training.steps=4"]);
    assert!(said.contains("rolled back: "), "{said}");
    assert!(std::fs::read(&weights).unwrap() == learnt && !previous.exists());
    // Weights of another shape are not compared.
    std::fs::write(&previous, b"none").unwrap();
    let said = learn(&job, &live, &["training.learning_rate=100.0", "training.steps=4"]);
    assert!(said.contains("previous.safetensors: not compared") && said.contains("stays as it is"), "{said}");
    assert!(std::fs::read(&weights).unwrap() == learnt);
}
