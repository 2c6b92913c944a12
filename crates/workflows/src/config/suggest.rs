//! The known name that a typo comes nearest to.

/// Similarity from which a name is suggested.
const NEAR: f64 = 0.84;

/// Names that other trainers use for keys of this one.
const ELSEWHERE: [(&str, &str); 9] = [
    ("lr", "learning_rate"),
    ("wd", "weight_decay"),
    ("grad_clip", "max_grad_norm"),
    ("max_steps", "steps"),
    ("num_epochs", "epochs"),
    ("num_train_epochs", "epochs"),
    ("grad_accum", "gradient_accumulation"),
    ("gradient_accumulation_steps", "gradient_accumulation"),
    ("max_length", "max_seq_len"),
];

/// The name nearest to `typed`, if one is near. A path whose last part is the whole of `typed` counts as near, and so
/// does a typo in the last part of a path, or another trainer's word for it. The table that `typed` is in does not.
pub(super) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| {
        let last = path.rsplit('.').next().unwrap_or_default();
        ELSEWHERE.iter().find(|(theirs, _)| *theirs == last).map_or(last, |(_, ours)| ours).to_owned()
    };
    let names = names.filter(|name| typed.strip_prefix(*name).is_none_or(|rest| !rest.starts_with('.')));
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
