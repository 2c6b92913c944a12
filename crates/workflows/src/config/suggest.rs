//! The known name that a typo comes nearest to.

/// Similarity from which a name is suggested.
const NEAR: f64 = 0.84;

/// The name nearest to `typed`, if one is near. A path whose last part is the whole of `typed` counts as near, and so
/// does a typo in the last part of a path.
pub(super) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let score = |name: &str| {
        let whole = strsim::jaro_winkler(typed, name);
        let (ours, theirs) = (last(typed), last(name));
        // The right key in the wrong table, or a typo of it.
        let part = strsim::damerau_levenshtein(&ours, &theirs);
        match part {
            0 => 0.99,
            _ if part <= ours.len().max(theirs.len()) / 4 => whole.max(0.9 - 0.01 * part as f64),
            _ => whole,
        }
    };
    let scored = names.map(|name| (score(name), name));
    scored.filter(|(score, _)| *score >= NEAR).max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}
