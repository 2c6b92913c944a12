//! How far a fitted backbone moved from its original, on held-out answers.

use gorgon_core::Token;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy, soft_cross_entropy_between};
use gorgon_kernels::projected::Projected;

/// The language of a backbone in one held-out conversation, summed over its labels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Language {
    labels: usize,
    /// `KL(original || fitted)`.
    divergence: f64,
    /// Cross-entropy of the labels, fitted and original.
    entropy: [f64; 2],
    /// Labels at which both have the same first guess.
    agreeing: usize,
}

/// Means over the labels of all conversations.
#[derive(Clone, Copy, Debug)]
pub(super) struct LanguageMeans {
    /// `KL(original || fitted)`.
    pub divergence: f64,
    /// Perplexity of the fitted backbone, and of the original.
    pub perplexity: [f64; 2],
    /// Share of labels at which both have the same first guess.
    pub agreeing: f64,
}

impl Language {
    /// The states of both in front of each label.
    pub fn of(own: Projected<'_>, original: Projected<'_>, labels: &[Token], chunk: usize) -> Self {
        let sum = |losses: &[f32]| losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        let crossed = soft_cross_entropy_between(own, original, 0.0, chunk, false);
        // Cross-entropy less entropy is the divergence.
        let entropy = sum(&soft_cross_entropy_between(original, original, 0.0, chunk, false).losses);
        let scales = vec![0f32; labels.len()];
        let of = |states: Projected<'_>| {
            let labels = Labels { tokens: labels, scales: &scales };
            sum(&linear_cross_entropy(states.hidden, states.weight, labels, chunk, false).losses)
        };
        Self {
            labels: labels.len(),
            divergence: sum(&crossed.losses) - entropy,
            entropy: [of(own), of(original)],
            agreeing: crossed.ranks.iter().filter(|&&rank| rank == 0).count(),
        }
    }

    pub fn means(all: &[Self]) -> LanguageMeans {
        let labels = all.iter().map(|l| l.labels).sum::<usize>().max(1) as f64;
        let mean = |of: &dyn Fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / labels;
        LanguageMeans {
            divergence: mean(&|l| l.divergence),
            perplexity: [mean(&|l| l.entropy[0]).exp(), mean(&|l| l.entropy[1]).exp()],
            agreeing: mean(&|l| l.agreeing as f64),
        }
    }
}
