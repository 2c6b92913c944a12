use super::{closest, did_you_mean};

#[test]
fn typing_errors_find_their_name() {
    let known = ["none", "chain:N", "typical[:EPSILON,DELTA]", "medusa", "eagle"];
    assert_eq!(closest("chian:4", known), Some("chain:N"));
    assert_eq!(closest("typcal:0.1,0.3", known), Some("typical[:EPSILON,DELTA]"));
    assert_eq!(closest("Medussa", known), Some("medusa"));
    assert_eq!(closest("xyz", known), None);
    assert_eq!(closest("", known), None);
}

#[test]
fn a_suggestion_is_the_beginning_of_a_sentence() {
    assert_eq!(did_you_mean("gredy", ["greedy", "sampling"]), "did you mean \"greedy\"? ");
    assert_eq!(did_you_mean("qqq", ["greedy", "sampling"]), "");
}
