//! Search for the sub-layers that a target drafts best without.

use gorgon_core::accept::RandomSource;
use gorgon_model::pass::SkippedSublayers;

/// The best sub-layers to leave out that were found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The sub-layers.
    pub skipped: SkippedSublayers,
    /// Their score.
    pub score: f64,
    /// How often a score was taken.
    pub evaluations: usize,
}

/// Climbs from "leave out nothing": goes through all sub-layers of `layers` layers in random order, and leaves each one
/// out, or in again, where that raises the score. Ends after a round without a gain, or `evaluations` scores.
///
/// A score that is a sum over sub-layers has its maximum after one round. (The paper of Draft & Verify,
/// <https://arxiv.org/abs/2309.08168>, fits a Gaussian process to a thousand scores instead.)
///
/// # Errors
/// The first error of `score`.
pub fn climb<E>(
    layers: usize,
    evaluations: usize,
    random: &mut dyn RandomSource,
    score: &mut dyn FnMut(&SkippedSublayers) -> Result<f64, E>,
) -> Result<Found, E> {
    let skipped = SkippedSublayers::none(layers);
    let mut found = Found { score: score(&skipped)?, skipped, evaluations: 1 };
    loop {
        let mut order: Vec<usize> = (0..2 * layers).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.pick(&vec![1.0; i + 1]));
        }
        let mut gained = false;
        for index in order {
            if found.evaluations >= evaluations {
                return Ok(found);
            }
            let skipped = found.skipped.toggled(index);
            let reached = score(&skipped)?;
            found.evaluations += 1;
            if reached > found.score {
                gained = true;
                found = Found { skipped, score: reached, ..found };
            }
        }
        if !gained {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests;
