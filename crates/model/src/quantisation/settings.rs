//! Settings of a quantised checkpoint: formats, and the modules that have them.

use super::format::Format;
use super::patterns::Pattern;
use crate::config::fields::Fields;
use crate::weights::Entry;
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of a quantised checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantisation {
    pub(super) method: &'static str,
    pub(super) groups: Vec<Group>,
    /// Modules that stay as they are.
    pub(super) kept: Vec<Pattern>,
    /// Whether the lists decide alone. Elsewhere a module that has quantised tensors is quantised whatever they say.
    pub(super) exact_lists: bool,
    pub(super) ignored: Vec<String>,
}

/// Modules of one format.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub targets: Vec<Pattern>,
    pub format: Arc<dyn Format>,
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        // Formats are settings and nothing else, all of which this shows.
        self.targets == other.targets && format!("{:?}", self.format) == format!("{:?}", other.format)
    }
}

/// The method of GGUF files.
pub(super) const GGUF: &str = "gguf";

/// Modules that stay as they are where a config names none.
const KEPT: &str = "lm_head";

impl Quantisation {
    /// One format for all linear layers but those in the lists under `keys`.
    pub(super) fn uniform(
        method: &'static str,
        format: impl Format + 'static,
        f: &Fields,
        keys: &[&str],
    ) -> Result<Self, String> {
        let mut kept = vec![];
        for key in keys {
            for name in f.texts(key)?.unwrap_or_default() {
                kept.push(Pattern::loose(&name));
            }
        }
        if kept.is_empty() {
            kept.push(Pattern::loose(KEPT));
        }
        let groups = vec![Group { targets: vec![Pattern::linear()], format: Arc::new(format) }];
        Ok(Self { method, groups, kept, exact_lists: false, ignored: vec![] })
    }

    /// One format for all modules that have its tensors, the embedding among them.
    pub(super) fn by_tensors(format: impl Format + 'static) -> Self {
        let groups = vec![Group { targets: vec![], format: Arc::new(format) }];
        Self { method: GGUF, groups, kept: vec![], exact_lists: false, ignored: vec![] }
    }

    /// Whether the embedding may be quantised too.
    pub(crate) fn has_embedding(&self) -> bool {
        self.method == GGUF
    }

    /// Copy that says which settings are ignored.
    pub(super) fn ignoring(mut self, settings: Vec<String>) -> Self {
        self.ignored.extend(settings);
        self
    }

    /// The method's name.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The formats, for people.
    pub fn formats(&self) -> Vec<String> {
        self.groups.iter().map(|group| group.format.description()).collect()
    }

    /// Settings that do not change how weights are read, and are not applied.
    pub fn ignored_settings(&self) -> &[String] {
        &self.ignored
    }

    /// The module that tensor `name` marks as quantised.
    pub(crate) fn marked<'a>(&self, name: &'a str) -> Option<&'a str> {
        let mut markers = self.groups.iter().flat_map(|group| group.format.markers());
        markers.find_map(|suffix| name.strip_suffix(*suffix)?.strip_suffix('.'))
    }

    /// How module `module` is stored, going by the lists and by the tensors that are there.
    pub(crate) fn format(&self, module: &str, entries: &BTreeMap<String, Entry>) -> Option<&dyn Format> {
        let entry = |suffix: &str| entries.get(&format!("{module}.{suffix}"));
        let marked = |format: &dyn Format| format.markers().iter().any(|suffix| entry(suffix).is_some());
        let plain =
            || entry("weight").is_some_and(|entry| matches!(entry.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16));
        let listed = || self.groups.iter().find(|group| group.targets.iter().any(|p| p.matches(module)));
        if !self.kept.iter().any(|pattern| pattern.matches(module))
            && let Some(group) = listed()
        {
            return Some(&*group.format).filter(|format| marked(*format) || !plain());
        }
        let any = self.groups.first().map(|group| &*group.format);
        any.filter(|format| !self.exact_lists && marked(*format))
    }
}
