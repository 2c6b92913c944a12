//! The names of models and data sets on the hub.

/// A text that is no name of a model.
#[derive(Debug, thiserror::Error)]
#[error("{model}: no such folder, and not the name of a model on the hub (owner/name or owner/name@revision)")]
pub struct InvalidRepo {
    /// The text.
    pub model: String,
}

/// Kind of a repository; it decides addresses and the folder of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Dataset,
}

impl Kind {
    /// The first part of addresses and of the cache's folder names.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Model => "model",
            Self::Dataset => "data set",
        })
    }
}

/// A model or a data set on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    pub(crate) kind: Kind,
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
                Ok(Self { kind: Kind::Model, owner: owner.into(), name: name.into(), revision: revision.into() })
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
        if self.kind == Kind::Dataset {
            f.write_str("datasets/")?;
        }
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
