//! Drafters that need no weights of their own, by name. Adding one takes its folder and a line here.

use crate::draft_model::DraftSampling;
use crate::drafter::Drafter;
use crate::store::StoreFile;
use gorgon_core::tree::{TreeChoice, TreeKind};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use std::fmt;

pub use crate::method::TrainingFreeMethod;

/// The methods: an enum with an arm for each.
macro_rules! methods {
    ($($name:literal => $arm:ident($kind:ty)),+ $(,)?) => {
        /// A drafter that needs no weights of its own.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum TrainingFree {
            $(
                #[doc = concat!("`", $name, "`")]
                $arm($kind),
            )+
        }

        impl TrainingFree {
            /// How each of them is written on the command line.
            pub const SYNTAX: &'static [&'static str] = &[$(<$kind as TrainingFreeMethod>::SYNTAX),+];

            /// The drafter of a name, if there is one.
            ///
            /// # Errors
            /// When its arguments are wrong.
            pub fn parse(name: &str, arguments: &str) -> Option<Result<Self, String>> {
                match name {
                    $($name => Some(<$kind as TrainingFreeMethod>::parse(arguments).map(Self::$arm)),)+
                    _ => None,
                }
            }

            /// The tree that it drafts unless another one is named.
            pub fn default_tree(&self) -> TreeChoice {
                match self {
                    $(Self::$arm(method) => method.default_tree(),)+
                }
            }

            /// Fails if it cannot draft for a model.
            ///
            /// # Errors
            /// One line with the offending value.
            pub fn check(&self, model: &ModelConfig) -> Result<(), String> {
                match self {
                    $(Self::$arm(method) => method.check(model),)+
                }
            }

            /// Fails if it cannot draft trees of this kind.
            ///
            /// # Errors
            /// One line with its name and the trees that it can draft.
            pub fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
                match self {
                    $(Self::$arm(method) => method.check_tree(tree),)+
                }
            }

            /// The store that it reads, if it reads one.
            pub fn store(&self) -> Option<&StoreFile> {
                match self {
                    $(Self::$arm(method) => method.store(),)+
                }
            }

            /// The store that it reads, to be shared.
            pub fn store_mut(&mut self) -> Option<&mut StoreFile> {
                match self {
                    $(Self::$arm(method) => method.store_mut(),)+
                }
            }

            /// True if it writes a file that belongs to one model's weights. Then call [`Self::bind`].
            pub fn is_of_weights(&self) -> bool {
                match self {
                    $(Self::$arm(method) => method.is_of_weights(),)+
                }
            }

            /// Binds the file that it writes to weights with this SHA-256, in hexadecimal.
            ///
            /// # Errors
            /// One line with the path when the file is of other weights.
            pub fn bind(&mut self, weights: &str) -> Result<(), String> {
                match self {
                    $(Self::$arm(method) => method.bind(weights),)+
                }
            }

            /// Opens the files that it names.
            ///
            /// # Errors
            /// One line with the path.
            pub fn opened(self) -> Result<Self, String> {
                match self {
                    $(Self::$arm(method) => method.opened().map(Self::$arm),)+
                }
            }

            /// Drafts nothing any more where fewer than `least` tokens match.
            ///
            /// # Errors
            /// When it goes by no match.
            pub fn declining_below(self, least: usize) -> Result<Self, String> {
                match self {
                    $(Self::$arm(method) => method.declining_below(least).map(Self::$arm),)+
                }
            }

            /// Bytes that a drafter keeps for one sequence of at most so many tokens, as far as they are worth counting.
            pub fn bytes(&self, model: &ModelConfig, compute: &Compute, tokens: usize) -> u128 {
                match self {
                    $(Self::$arm(method) => method.bytes(model, compute, tokens),)+
                }
            }

            /// A drafter for one sequence.
            pub fn drafter(&self) -> Box<dyn Drafter> {
                match self {
                    $(Self::$arm(method) => method.drafter(),)+
                }
            }

            /// A drafter for one sequence whose drafts serve a rule: it draws them if it can.
            pub fn drafter_for(&self, sampling: DraftSampling) -> Box<dyn Drafter> {
                match self {
                    $(Self::$arm(method) => method.drafter_for(sampling),)+
                }
            }
        }

        impl fmt::Display for TrainingFree {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$arm(method) => f.write_str(&method.name()),)+
                }
            }
        }
    };
}

methods! {
    "suffix" => Suffix(crate::suffix::Suffix),
    "rest" => Rest(crate::rest::Rest),
    "ngram" => Ngram(crate::ngram::Ngram),
    "jacobi" => Jacobi(crate::jacobi::Jacobi),
    "lookahead" => Lookahead(crate::lookahead::Lookahead),
    "early-exit" => EarlyExit(crate::early_exit::EarlyExit),
    "pipelined" => Pipelined(crate::pipelined::Pipelined),
    "skip" => Skip(crate::skip::Skip),
    "partial" => Partial(crate::partial::Partial),
    "swift" => Swift(crate::swift::Swift),
    "recycle" => Recycle(crate::recycle::Recycle),
}
