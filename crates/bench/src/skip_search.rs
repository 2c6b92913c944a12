//! Search for the sub-layers that a target drafts best without.

use crate::median;
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

/// A climb ends the search if so many before it found nothing better.
const FRUITLESS: usize = 4;
/// Of so many best sets the score is taken again,
const FINALISTS: usize = 4;
/// so often.
const RETAKES: usize = 3;

/// Takes scores as long as there are some left.
struct Scores<'a, E> {
    score: &'a mut dyn FnMut(&SkippedSublayers) -> Result<f64, E>,
    taken: usize,
    most: usize,
}

impl<E> Scores<'_, E> {
    fn are_left(&self) -> bool {
        self.taken < self.most
    }

    fn take(&mut self, skipped: &SkippedSublayers) -> Result<f64, E> {
        self.taken += 1;
        (self.score)(skipped)
    }
}

/// Climbs from "leave out nothing", then from random sets, until four climbs in a row found nothing better or most of
/// `evaluations` scores are taken. A score may be a time, and the greatest of many is a lucky one: those of the four best
/// sets are taken three times more, in turns, and the set with the greatest median of these is the one.
///
/// A climb goes through all sub-layers of `layers` layers in random order, and leaves each one out, or in again, where
/// that raises the score, until a round brings no gain. A score that is a sum over sub-layers has its maximum after one
/// round. (The paper of Draft & Verify, <https://arxiv.org/abs/2309.08168>, fits a Gaussian process to a thousand
/// scores instead.)
///
/// # Errors
/// The first error of `score`.
pub fn search<E>(
    layers: usize,
    evaluations: usize,
    random: &mut dyn RandomSource,
    score: &mut dyn FnMut(&SkippedSublayers) -> Result<f64, E>,
) -> Result<Found, E> {
    let retakes = (FINALISTS * RETAKES).min(evaluations / 4);
    let mut scores = Scores { score, taken: 0, most: evaluations.max(1) - retakes };
    let mut tops: Vec<(SkippedSublayers, f64)> = vec![];
    let (mut start, mut fruitless) = (SkippedSublayers::none(layers), 0);
    while scores.are_left() && fruitless < FRUITLESS {
        let top = climb(start, layers, random, &mut scores)?;
        fruitless = if tops.iter().all(|(_, score)| *score < top.1) { 0 } else { fruitless + 1 };
        if tops.iter().all(|(skipped, _)| *skipped != top.0) {
            tops.push(top);
        }
        let any = (0..2 * layers).filter(|_| random.pick(&[1.0, 1.0]) == 1);
        start = any.fold(SkippedSublayers::none(layers), |set, index| set.toggled(index));
    }
    tops.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    tops.truncate(FINALISTS);
    scores.most += retakes;
    retaken(tops, layers, &mut scores)
}

/// The set with the greatest median of new scores, and where there are none left, the first.
fn retaken<E>(tops: Vec<(SkippedSublayers, f64)>, layers: usize, scores: &mut Scores<'_, E>) -> Result<Found, E> {
    let mut again: Vec<Vec<f64>> = vec![vec![]; tops.len()];
    while scores.most - scores.taken >= tops.len() && again.iter().any(|taken| taken.len() < RETAKES) {
        for ((skipped, _), taken) in tops.iter().zip(&mut again) {
            taken.push(scores.take(skipped)?);
        }
    }
    let nothing = (SkippedSublayers::none(layers), f64::NEG_INFINITY);
    let medians = tops.into_iter().zip(again).map(|((set, first), taken)| (set, median(taken).unwrap_or(first)));
    let (skipped, score) = medians.fold(nothing, |best, other| if other.1 > best.1 { other } else { best });
    Ok(Found { skipped, score, evaluations: scores.taken })
}

/// The top above a set, as far as scores are left.
fn climb<E>(
    start: SkippedSublayers,
    layers: usize,
    random: &mut dyn RandomSource,
    scores: &mut Scores<'_, E>,
) -> Result<(SkippedSublayers, f64), E> {
    let mut top = (start.clone(), scores.take(&start)?);
    loop {
        let mut order: Vec<usize> = (0..2 * layers).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.pick(&vec![1.0; i + 1]));
        }
        let mut gained = false;
        for index in order {
            if !scores.are_left() {
                return Ok(top);
            }
            let skipped = top.0.toggled(index);
            let reached = scores.take(&skipped)?;
            if reached > top.1 {
                gained = true;
                top = (skipped, reached);
            }
        }
        if !gained {
            return Ok(top);
        }
    }
}

#[cfg(test)]
mod tests;
