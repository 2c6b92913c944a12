//! Lists of modules.

use regex::{Regex, RegexBuilder};

/// Names of modules.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Every linear layer.
    Linear,
    /// One module.
    Exact,
    /// A module, what lies inside it, or any module whose name ends so.
    Loose,
    /// Names that begin with a match.
    Regex(Box<Regex>),
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
    }
}

/// The longest pattern that is compiled, and the memory that it may take then.
const LONGEST: usize = 4096;
const COMPILED: usize = 1 << 20;

impl Pattern {
    /// All linear layers.
    pub fn linear() -> Self {
        Self { text: "Linear".into(), kind: Kind::Linear }
    }

    /// A name in a list of modules that are not converted.
    pub fn loose(name: &str) -> Self {
        Self { text: name.into(), kind: Kind::Loose }
    }

    /// A name in `targets` or `ignore` of compressed-tensors: a class, a module, or `re:` with a regular expression.
    pub fn new(text: &str) -> Result<Self, String> {
        let kind = match text.strip_prefix("re:") {
            None if text == "Linear" => Kind::Linear,
            None => Kind::Exact,
            Some(_) if text.len() > LONGEST => return Err(format!("a pattern of {} bytes", text.len())),
            Some(expression) => {
                let anchored = format!("^(?:{expression})");
                let compiled = RegexBuilder::new(&anchored).size_limit(COMPILED).build();
                let compiled = compiled.map_err(|error| error.to_string().replace('\n', " "))?;
                Kind::Regex(Box::new(compiled))
            }
        };
        Ok(Self { text: text.into(), kind })
    }

    /// Whether a linear layer of this name is meant.
    pub fn matches(&self, module: &str) -> bool {
        let name = self.text.as_str();
        match &self.kind {
            Kind::Linear => module != "model.embed_tokens",
            Kind::Exact => module == name,
            Kind::Loose => {
                let inside = module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                let end = module.strip_suffix(name).is_some_and(|start| start.ends_with('.'));
                inside || end || module.contains(&format!(".{name}."))
            }
            Kind::Regex(expression) => expression.is_match(module),
        }
    }
}
