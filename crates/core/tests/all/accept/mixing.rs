//! Rules that aim at another distribution than the target's emit exactly that distribution.

use gorgon_core::Token;
use gorgon_core::accept::{
    AcceptanceRule, Beta, Cascade, Deferral, DraftRows, Greedy, Lossy, LossyGreedy, Rows, SamplingScheme, TargetRows,
    Verdict, balanced_beta, lossy_distribution, random::SeededRandom,
};
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::TokenTree;

use crate::accept::settings::{Drafter, SHAPES, Setting, distance, plain, random_distribution};

const DEFERRALS: [Deferral; 6] =
    [Deferral::Chow, Deferral::Diff, Deferral::Opt, Deferral::TokenV1, Deferral::TokenV2, Deferral::TokenV3];

fn transforms() -> [Transform; 3] {
    [Transform::IDENTITY, Transform::new(0.5, None, None).unwrap(), Transform::new(1.5, Some(2), None).unwrap()]
}

fn max(distribution: &[f64]) -> f64 {
    distribution.iter().copied().fold(0.0, f64::max)
}

/// `π` from its definition: the rule on raw distributions, the mixture of transformed ones.
fn stated_mixture(deferral: Deferral, alpha: f64, setting: &Setting, prefix: &[Token]) -> Vec<f64> {
    let (raw_p, raw_q) = (setting.target(prefix), setting.draft(prefix));
    let scaled = |distribution: &[f64]| setting.transform.apply(Row::Probabilities(distribution));
    let (p, q) = (scaled(&raw_p), scaled(&raw_q));
    let distance = p.iter().zip(&q).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0;
    let defers = |v: usize| match deferral {
        Deferral::Chow => max(&raw_q) < 1.0 - alpha,
        Deferral::Diff => max(&raw_q) < max(&raw_p) - alpha,
        Deferral::Opt => max(&raw_q) < max(&raw_p) - alpha * distance,
        Deferral::TokenV1 => raw_q[v] < max(&raw_p) - alpha,
        Deferral::TokenV2 => raw_p[v] < max(&raw_p) - alpha,
        Deferral::TokenV3 => raw_p[v] < (1.0 - alpha) * max(&raw_p),
    };
    let deferred: f64 = (0..q.len()).filter(|&v| defers(v)).map(|v| q[v]).sum();
    (0..q.len()).map(|v| p[v] * deferred + if defers(v) { 0.0 } else { q[v] }).collect()
}

/// Settings whose drafter has valid rows; with a horizon up to which every position is drafted on every path.
fn drafted_settings(scheme: SamplingScheme) -> Vec<(Setting, usize)> {
    let shapes: [(&[usize], usize); 3] = [(SHAPES[1], 3), (SHAPES[2], 1), (&[0, 0, 0, 1, 1, 2], 2)];
    let mut settings = Vec::new();
    for (row, transform) in transforms().into_iter().enumerate() {
        for (column, drafter) in [Drafter::Random, Drafter::Sparse, Drafter::Disjoint].into_iter().enumerate() {
            // A Latin square, so that every pair of choices occurs.
            let (shape, horizon) = shapes[(row + column) % 3];
            settings.push((Setting { seed: (40 + row) as u64, drafter, scheme, shape, transform }, horizon));
        }
    }
    settings
}

/// A rule for a transform and α.
pub type MakeCascade = dyn Fn(Transform, f64) -> Box<dyn AcceptanceRule>;

/// The first setting in which a rule that should be the cascade of `deferral` does not emit its mixture.
pub fn cascade_failure(deferral: Deferral, make: &MakeCascade) -> Option<String> {
    for scheme in [SamplingScheme::Independent, SamplingScheme::WithoutReplacement, SamplingScheme::Deterministic] {
        for (setting, horizon) in drafted_settings(scheme) {
            for alpha in [0.1, 0.4] {
                let aim = |prefix: &[Token]| stated_mixture(deferral, alpha, &setting, prefix);
                let rule = make(setting.transform, alpha);
                let error = distance(&setting.emitted(&*rule, horizon, &aim), &plain(horizon, &aim));
                if error > 1e-12 {
                    return Some(format!("error {error:e} at alpha {alpha} in {setting:?}"));
                }
            }
        }
    }
    None
}

/// The real rule.
fn cascade(deferral: Deferral) -> impl Fn(Transform, f64) -> Box<dyn AcceptanceRule> {
    move |transform, alpha| Box::new(Cascade { deferral, alpha, transform })
}

#[test]
fn cascades_emit_the_stated_mixture() {
    for deferral in DEFERRALS {
        assert_eq!(cascade_failure(deferral, &cascade(deferral)), None, "{deferral:?}");
    }
}

#[test]
fn planted_deferral_bugs_are_noticed() {
    // α turned round, the distance left in or out, q in place of p and the reverse, a difference in place of a ratio.
    let turned = |transform, alpha: f64| cascade(Deferral::Chow)(transform, 1.0 - alpha);
    assert!(cascade_failure(Deferral::Chow, &turned).is_some());
    for (deferral, mistaken) in [
        (Deferral::Diff, Deferral::Opt),
        (Deferral::Opt, Deferral::Diff),
        (Deferral::TokenV1, Deferral::TokenV2),
        (Deferral::TokenV2, Deferral::TokenV1),
        (Deferral::TokenV3, Deferral::TokenV2),
    ] {
        assert!(cascade_failure(deferral, &cascade(mistaken)).is_some(), "{deferral:?} as {mistaken:?}");
    }
}

/// The first chain on which a rule that should be the cascade `token-v2` does not emit its mixture.
pub fn token_v2_failure(make: &MakeCascade) -> Option<String> {
    for scheme in [SamplingScheme::Independent, SamplingScheme::Deterministic] {
        for (transform, alpha) in transforms().into_iter().flat_map(|t| [(t, 0.15), (t, 0.3), (t, 0.5)]) {
            let setting = Setting { seed: 5, drafter: Drafter::Random, scheme, shape: &[0, 0, 1], transform };
            let aim = |prefix: &[Token]| stated_mixture(Deferral::TokenV2, alpha, &setting, prefix);
            let error = distance(&setting.emitted(&*make(transform, alpha), 2, &aim), &plain(2, &aim));
            if error > 1e-12 {
                return Some(format!("error {error:e} at alpha {alpha} in {setting:?}"));
            }
        }
    }
    None
}

#[test]
fn token_v2_passes_the_check_that_its_bugs_fail() {
    assert_eq!(token_v2_failure(&cascade(Deferral::TokenV2)), None);
}

/// A rule for a transform, α and β.
pub type MakeLossy = dyn Fn(Transform, f64, f64) -> Box<dyn AcceptanceRule>;

/// The first chain on which a rule that should be lossy sampling does not emit the stated distribution.
pub fn lossy_failure(make: &MakeLossy) -> Option<String> {
    for scheme in [SamplingScheme::Independent, SamplingScheme::WithoutReplacement, SamplingScheme::Deterministic] {
        for (transform, drafter) in transforms().into_iter().flat_map(|t| [(t, Drafter::Random), (t, Drafter::Sparse)])
        {
            let setting = Setting { seed: 60, drafter, scheme, shape: &[0, 0, 1], transform };
            for (alpha, beta) in [(0.0, 1.0), (0.3, 1.0), (0.3, 0.8), (0.6, 1.3), (0.9, 0.2)] {
                let aim = |prefix: &[Token]| stated_lossy(&setting, alpha, beta, prefix);
                let error = distance(&setting.emitted(&*make(transform, alpha, beta), 2, &aim), &plain(2, &aim));
                if error > 1e-12 {
                    return Some(format!("error {error:e} at alpha {alpha}, beta {beta} in {setting:?}"));
                }
            }
        }
    }
    None
}

/// `min(q, p/(1-α)) + (1 - Σ min(q, p/(1-α)))·norm(max(0, p/β - q))`; for a list, `q` is a point mass on its token.
fn stated_lossy(setting: &Setting, alpha: f64, beta: f64, prefix: &[Token]) -> Vec<f64> {
    let p = setting.wanted(prefix);
    let mut q = setting.transform.apply(Row::Probabilities(&setting.draft(prefix)));
    if setting.scheme == SamplingScheme::Deterministic {
        let best = Row::Probabilities(&q).argmax();
        q = (0..q.len()).map(|v| if v == best { 1.0 } else { 0.0 }).collect();
    }
    let accepted: Vec<f64> = p.iter().zip(&q).map(|(p, &q)| q.min(p / (1.0 - alpha))).collect();
    let weights: Vec<f64> = p.iter().zip(&q).map(|(p, q)| (p / beta - q).max(0.0)).collect();
    let (kept, sum): (f64, f64) = (accepted.iter().sum(), weights.iter().sum());
    let left = |v: usize| if sum > 0.0 { weights[v] / sum } else { p[v] };
    (0..p.len()).map(|v| accepted[v] + (1.0 - kept) * left(v)).collect()
}

#[test]
fn lossy_sampling_emits_the_stated_law() {
    let make = |transform, alpha, beta| -> Box<dyn AcceptanceRule> {
        Box::new(Lossy { alpha, beta: Beta::Fixed(beta), transform })
    };
    assert_eq!(lossy_failure(&make), None);
}

#[test]
fn balanced_lossy_sampling_emits_the_balanced_law() {
    for seed in 0..8 {
        let (scheme, transform) = (SamplingScheme::Independent, Transform::IDENTITY);
        let setting = Setting { seed, drafter: Drafter::Random, scheme, shape: &[0, 0], transform };
        let aim = |prefix: &[Token]| {
            let (p, q) = (setting.target(prefix), setting.draft(prefix));
            let beta = balanced_beta(&p, &q, 0.3).unwrap();
            let distribution: Vec<f64> = p.iter().zip(&q).map(|(p, &q)| q.min(p / 0.7).max(p / beta)).collect();
            assert!(distance(&distribution, &lossy_distribution(&p, &q, 0.3, beta)) < 1e-12);
            distribution
        };
        let rule = Lossy { alpha: 0.3, beta: Beta::Balanced, transform };
        assert!(distance(&setting.emitted(&rule, 1, &aim), &plain(1, &aim)) < 1e-12);
    }
}

#[test]
fn lossy_sampling_without_slack_is_lossless_on_trees() {
    for (setting, horizon) in drafted_settings(SamplingScheme::WithoutReplacement) {
        let wanted = |prefix: &[Token]| setting.wanted(prefix);
        let rule = Lossy { alpha: 0.0, beta: Beta::Fixed(1.0), transform: setting.transform };
        assert!(rule.is_lossless());
        assert!(distance(&setting.emitted(&rule, horizon, &wanted), &plain(horizon, &wanted)) < 1e-12);
    }
}

/// A tree of the drafter's top 3 at each node, with distributions that depend on the prefix; the verdict of `rule` on
/// it.
fn on_top_k_tree(seed: u64, rule: &dyn AcceptanceRule) -> (TokenTree, Verdict) {
    const VOCAB: usize = 6;
    let mut tree = TokenTree::root(0);
    let mut prefixes: Vec<Vec<Token>> = vec![Vec::new()];
    let draft = |prefix: &[Token]| random_distribution(seed * 2 + 1, prefix, VOCAB);
    for node in 0..13 {
        let width = if seed.is_multiple_of(2) { 3 } else { 1 };
        let prefix = prefixes[node].clone();
        for &token in &SamplingScheme::Deterministic.children(&draft(&prefix), width, &mut SeededRandom::new(0)) {
            tree.push(node, token);
            prefixes.push([&prefix[..], &[token]].concat());
        }
    }
    let rows = |distribution: &dyn Fn(&[Token]) -> Vec<f64>| {
        prefixes.iter().flat_map(|p| distribution(p)).collect::<Vec<f64>>()
    };
    let (p, q) = (rows(&|prefix| random_distribution(seed * 2, prefix, VOCAB)), rows(&draft));
    let draft = DraftRows::single(Some(Rows::Probabilities { data: &q, vocab: VOCAB }), SamplingScheme::Deterministic);
    let target = TargetRows::Probabilities { data: &p, vocab: VOCAB };
    let verdict = rule.accept(&tree, draft, target, &mut SeededRandom::new(seed)).unwrap();
    (tree, verdict)
}

/// The first top-k tree on which a rule that should be lossy greedy is not the cascade `token-v3` at temperature 0.
fn lossy_greedy_failure(make: &dyn Fn(f64) -> Box<dyn AcceptanceRule>) -> Option<String> {
    let (mut differs_from_greedy, mut drafted) = (0, 0);
    for seed in 0..200 {
        for alpha in [0.0, 0.1, 0.3, 0.6, 1.0] {
            let (_, v3) = on_top_k_tree(seed, &*cascade(Deferral::TokenV3)(Transform::GREEDY, alpha));
            if v3 != on_top_k_tree(seed, &*make(alpha)).1 {
                return Some(format!("seed {seed}, alpha {alpha}"));
            }
            differs_from_greedy += usize::from(v3 != on_top_k_tree(seed, &Greedy).1);
            drafted += v3.path.len() - 1;
        }
    }
    assert!(differs_from_greedy > 100 && drafted > 500, "{differs_from_greedy} and {drafted} say little");
    None
}

#[test]
fn at_temperature_0_token_v3_is_lossy_greedy() {
    assert_eq!(lossy_greedy_failure(&|alpha| Box::new(LossyGreedy { alpha })), None);
    // p(v) >= α·max p, and no slack at all.
    assert!(lossy_greedy_failure(&|alpha| Box::new(LossyGreedy { alpha: 1.0 - alpha })).is_some());
    assert!(lossy_greedy_failure(&|_| Box::new(Greedy)).is_some());
}

#[test]
fn at_temperature_0_opt_emits_what_diff_emits() {
    let text = |deferral, seed, alpha| {
        let (tree, verdict) = on_top_k_tree(seed, &*cascade(deferral)(Transform::GREEDY, alpha));
        verdict.path.iter().map(|&node| tree.token(node)).chain([verdict.bonus]).collect::<Vec<Token>>()
    };
    let mut differs_from_chow = 0;
    for (seed, alpha) in (0..200).flat_map(|seed| [0.05, 0.2, 0.5].map(|alpha| (seed, alpha))) {
        let opt = text(Deferral::Opt, seed, alpha);
        assert_eq!(opt, text(Deferral::Diff, seed, alpha), "seed {seed}, alpha {alpha}");
        differs_from_chow += usize::from(opt != text(Deferral::Chow, seed, alpha));
    }
    assert!(differs_from_chow > 50, "{differs_from_chow}");
}

#[test]
fn lossy_greedy_accepts_from_its_threshold_on() {
    // p(v) = 0.35 beside max p = 0.5: accepted iff 1-α <= 0.7.
    let tree = TokenTree::from_parts(vec![0, 1], vec![0, 0]).unwrap();
    let p = [0.15, 0.35, 0.5, 0.2, 0.3, 0.5];
    let target = TargetRows::Probabilities { data: &p, vocab: 3 };
    let verdict =
        |alpha| LossyGreedy { alpha }.accept(&tree, DraftRows::NONE, target, &mut SeededRandom::new(0)).unwrap();
    assert_eq!(verdict(0.29), Verdict { path: vec![0].into(), bonus: 2 });
    assert_eq!(verdict(0.31), Verdict { path: vec![0, 1].into(), bonus: 2 });
}
