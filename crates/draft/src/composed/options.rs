//! Names with options.

/// `FIRST,KEY=VALUE,…`, taken apart.
pub(super) struct Options<'a> {
    /// Text in front of the options.
    pub first: String,
    found: Vec<(&'a str, String)>,
}

impl<'a> Options<'a> {
    /// A piece begins an option where it starts with one of `keys` and `=`. Any other piece belongs to what is in front
    /// of it, since names and lists have commas too.
    ///
    /// # Errors
    /// When an option is given twice.
    pub fn of(text: &str, keys: &[&'a str]) -> Result<Self, String> {
        let mut pieces = text.split(',');
        let mut options = Self { first: pieces.next().unwrap_or_default().to_owned(), found: vec![] };
        for piece in pieces {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            match keys.iter().find(|known| **known == key && piece != key) {
                Some(key) if options.get(key).is_some() => return Err(format!("{key}= is given twice")),
                Some(key) => options.found.push((key, value.to_owned())),
                None => {
                    let last = options.found.last_mut().map_or(&mut options.first, |(_, value)| value);
                    last.push(',');
                    last.push_str(piece);
                }
            }
        }
        Ok(options)
    }

    /// The value of an option.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.found.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
    }
}

/// A whole number within bounds.
///
/// # Errors
/// When it is none.
pub(super) fn number(key: &str, text: &str, (least, most): (usize, usize)) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{key}={text} is no whole number from {least} to {most}")),
    }
}
