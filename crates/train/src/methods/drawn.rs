//! Some places of a conversation, drawn anew in every step.

use gorgon_core::accept::random::SeededRandom;

/// Where places are drawn: a function of these alone, so that a resumed run draws the same ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    /// Separates the draws of methods and runs.
    pub seed: u64,
    /// The step; evaluations are none.
    pub step: Option<u64>,
    /// The conversation.
    pub index: usize,
    /// Number of conversations.
    pub conversations: usize,
}

impl Draw {
    /// At most `most` of these places, increasing.
    pub fn of(self, mut places: Vec<usize>, most: usize) -> Vec<usize> {
        if places.len() > most {
            let stream = self.step.map_or(u64::MAX, |step| step.wrapping_mul(self.conversations as u64));
            let mut random = SeededRandom::stream(self.seed, stream.wrapping_add(self.index as u64));
            for i in 0..most {
                let left = places.len() - i;
                places.swap(i, i + ((random.uniform() * left as f64) as usize).min(left - 1));
            }
            places.truncate(most);
            places.sort_unstable();
        }
        places
    }
}
