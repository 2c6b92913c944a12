//! The name of a model on the hub.

/// A text that is no name of a model.
#[derive(Debug, thiserror::Error)]
#[error("{model}: no such folder, and not the name of a model on the hub (owner/name or owner/name@revision)")]
pub struct InvalidRepo {
    /// The text.
    pub model: String,
}

/// A model on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub(crate) owner: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) revision: Box<str>,
}

impl Repo {
    /// Reads `owner/name` or `owner/name@revision`; the revision is `main` unless it is given.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(model: &str) -> Result<Self, InvalidRepo> {
        let (id, revision) = model.split_once('@').unwrap_or((model, "main"));
        match id.split_once('/') {
            Some((owner, name)) if is_plain(owner) && is_plain(name) && revision.split('/').all(is_plain) => {
                Ok(Self { owner: owner.into(), name: name.into(), revision: revision.into() })
            }
            _ => Err(InvalidRepo { model: model.into() }),
        }
    }

    /// `owner/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }
}

impl std::fmt::Display for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)?;
        if &*self.revision == "main" { Ok(()) } else { write!(f, "@{}", self.revision) }
    }
}

/// Whether a name can be one part of a path, on any system, without meaning anything else.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+=".contains(c))
}
