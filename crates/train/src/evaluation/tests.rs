//! Tests of `evaluation`.

use super::*;
use serde_json::json;

fn every() -> Vec<(&'static str, Metrics)> {
    let ranks = HeadRanks {
        head_loss: vec![1.5, 2.0],
        top1: vec![0.5, 0.25],
        top5: vec![1.0, 0.75],
        length_chain: 1.5,
        length_tree: 1.75,
    };
    let decoded = Some(Decoded { tokens_per_step: 1.25, by_depth: vec![0.25] });
    let (loss, top1, top5) = (2.5, 0.5, 0.75);
    let two = MedusaTwoMetrics {
        ranks: ranks.clone(),
        loss,
        kl: 0.01,
        agreement: 0.9,
        perplexity: 3.0,
        perplexity_before: 2.9,
        degraded: true,
        tau: None,
    };
    let eagle = EagleMetrics { loss, regression: 0.1, cross_entropy: 2.0, top1, top5, decoded: decoded.clone() };
    let eagle3 = Eagle3Metrics {
        loss,
        step_loss: vec![2.0, 2.5],
        step_top1: vec![0.5, 0.25],
        top1,
        top5,
        draftable: 1.0,
        decoded: None,
    };
    vec![
        ("heads", Metrics::Heads(HeadMetrics { loss, ranks, tau: Some(1.5) })),
        ("medusa-2", Metrics::MedusaTwo(two)),
        ("eagle", Metrics::Eagle(eagle)),
        ("eagle3", Metrics::Eagle3(eagle3)),
        ("distill-spec", Metrics::DistillSpec(DistillSpecMetrics { loss, acceptance: 0.5, top1, decoded })),
        ("pretrain", Metrics::Pretrain(PretrainMetrics { answer_loss: loss, answer_top1: top1 })),
    ]
}

#[test]
fn every_record_is_read_back_with_its_method_or_without() {
    for (method, metrics) in every() {
        let record = json!(metrics);
        assert_eq!(record["method"], method);
        assert_eq!(Metrics::read(&record).unwrap(), metrics);
        let mut earlier = record;
        earlier.as_object_mut().unwrap().remove("method");
        assert_eq!(Metrics::read(&earlier).unwrap(), metrics, "{method}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_read_as_nan() {
    for (method, metrics) in every() {
        let mut record = json!(metrics);
        let field = if method == "pretrain" { "answer_loss" } else { "loss" };
        record[field] = Value::Null;
        assert!(Metrics::read(&record).unwrap().loss().is_nan(), "{method}");
    }
    let mut record = json!(every()[0].1);
    record["top1"][1] = Value::Null;
    let Metrics::Heads(heads) = Metrics::read(&record).unwrap() else { panic!("{record}") };
    assert!(heads.ranks.top1[0] == 0.5 && heads.ranks.top1[1].is_nan());
}

#[test]
fn other_records_are_refused() {
    for record in [json!({}), json!(null), json!({"method": "none"}), json!({"method": "eagle", "loss": 1.0})] {
        assert!(Metrics::read(&record).is_err(), "{record}");
    }
}
