//! The methods that probe.

/// Places behind a candidate at most.
pub const MAX_PLACES: usize = 16;
/// Members of an ensemble at most.
pub const MAX_MEMBERS: usize = 16;

/// A method that probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// Parallel prompt decoding.
    Ppd,
    /// PaSS.
    Pass,
    /// SPACE.
    Space,
}

impl ProbeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ppd, Self::Pass, Self::Space];

    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ppd => "ppd",
            Self::Pass => "pass",
            Self::Space => "space",
        }
    }

    /// The tensor that holds the embeddings.
    pub fn tensor(self) -> &'static str {
        match self {
            Self::Ppd => "prompt_tokens.weight",
            Self::Pass => "look_ahead.weight",
            Self::Space => "mask_token.weight",
        }
    }

    /// Whether one embedding stands in all places.
    pub fn is_shared(self) -> bool {
        self == Self::Space
    }
}
