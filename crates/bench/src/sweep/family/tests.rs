//! Tests of `family`.

use super::*;

#[test]
fn names_come_back_and_rules_have_their_alpha() {
    for family in Family::ALL.into_iter().chain([Family::Bild { fallback: 0.25 }, Family::TopBeta { beta: 5 }]) {
        assert_eq!(family.to_string().parse(), Ok(family));
        let transform = Transform::new(1.0, None, None).unwrap();
        let rule = family.rule(0.2).unwrap().rule(family.transform(transform));
        assert!(!rule.is_lossless(), "{family}");
    }
    let bild = Family::Bild { fallback: 0.25 };
    let expected = RuleChoice::Bild { fallback: 0.25, rollback: 2.0_f64.ln() };
    assert_eq!(bild.rule(0.5), Ok(expected));
    assert!(bild.rule(0.0).is_ok());
    let top_beta = Family::TopBeta { beta: 3 };
    assert_eq!(top_beta.rule(0.5), Ok(RuleChoice::TopBeta { beta: 3, gap: 2.0_f64.ln() }));
    for (family, alpha) in [(Family::Lossy, 1.0), (Family::Cascade(Deferral::Diff), 1.5), (bild, 1.0), (top_beta, 1.0)]
    {
        assert!(family.rule(alpha).is_err(), "{family} {alpha}");
    }
    for wrong in ["greedy", "bild:2", "chow:0.1", "top-beta:0", "top-beta:x", ""] {
        assert!(wrong.parse::<Family>().is_err(), "{wrong}");
    }
}
