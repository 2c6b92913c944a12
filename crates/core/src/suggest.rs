//! Suggestions for mistyped names.

/// How alike two names must be: Jaro's measure, from 0 (nothing in common) to 1 (equal).
const ALIKE: f64 = 0.75;

/// The known name that was probably meant by `given`, if one is alike. Names may carry their parameters
/// (`chain:N`); only the part before them is compared.
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bare = |text: &str| text.split([':', '[']).next().unwrap_or(text).to_ascii_lowercase();
    let given = bare(given);
    let alike = known.into_iter().map(|name| (strsim::jaro(&given, &bare(name)), name));
    let best = alike.filter(|(alike, _)| *alike > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, name)| name)
}

/// `did you mean "NAME"? `, or nothing: the beginning of a sentence that goes on with all names.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(given, known).map_or_else(String::new, |name| format!("did you mean {name:?}? "))
}

#[cfg(test)]
mod tests;
