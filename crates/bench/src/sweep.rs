//! Quality against rejections and speed: lossy rules over a range of α, beside the target alone, the draft model alone
//! and lossless drafting.

mod family;

pub use family::Family;

use crate::BenchError;
use crate::measure::BenchPrompt;
use crate::observed::Observed;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{ChoiceError, RuleChoice, Verdict};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{TokenTree, TreeBuilder};
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_infer::{Generation, Limits, Method, Request, Session, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One way of answering.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subject {
    /// Who answers.
    pub who: Who,
    /// Transform applied to every distribution.
    pub transform: Transform,
}

/// Who answers, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    /// The target, plainly.
    Target,
    /// The draft model, plainly.
    Draft,
    /// The target with drafts, losslessly.
    Lossless,
    /// The target with drafts, by a lossy rule.
    Lossy {
        /// The rule but for its α.
        family: Family,
        /// α.
        alpha: f64,
        /// The rule.
        rule: RuleChoice,
    },
}

impl Subject {
    /// Everything that a sweep compares: references at every temperature that is in use, and each family at each α.
    ///
    /// # Errors
    /// When an α is out of a rule's range.
    pub fn all(families: &[Family], alphas: &[f64], transform: Transform) -> Result<Vec<Self>, ChoiceError> {
        let mut transforms = vec![];
        for family in families {
            let own = family.transform(transform);
            if !transforms.contains(&own) {
                transforms.push(own);
            }
        }
        let references =
            |&transform: &Transform| [Who::Target, Who::Draft, Who::Lossless].map(move |who| Self { who, transform });
        let mut all: Vec<Self> = transforms.iter().flat_map(references).collect();
        for &family in families {
            for &alpha in alphas {
                let who = Who::Lossy { family, alpha, rule: family.rule(alpha)? };
                all.push(Self { who, transform: family.transform(transform) });
            }
        }
        Ok(all)
    }

    fn rule(&self) -> RuleChoice {
        match self.who {
            Who::Lossy { rule, .. } => rule,
            _ => RuleChoice::Auto.resolve(&self.transform),
        }
    }

    /// Name in tables and plots.
    pub fn name(&self) -> String {
        match self.who {
            Who::Target => "target alone".into(),
            Who::Draft => "draft model alone".into(),
            Who::Lossless => self.rule().to_string(),
            Who::Lossy { family, .. } => family.to_string(),
        }
    }

    /// Whether the text has the target's distribution.
    pub fn is_lossless(&self) -> bool {
        match self.who {
            Who::Draft => false,
            _ => self.rule().rule(self.transform).is_lossless(),
        }
    }
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Which of the subjects.
    pub subject: usize,
    /// The prompt.
    pub id: String,
    /// The round, from 0.
    pub round: usize,
    /// Whether it is right.
    pub right: bool,
    /// New tokens after the first, which comes from prefill.
    pub tokens: usize,
    /// Seconds they took.
    pub seconds: f64,
    /// Steps.
    pub steps: usize,
    /// Drafts accepted.
    pub accepted: usize,
    /// Places at which drafts were tried: one for each accepted draft, and one where a step ended in a rejection.
    pub tries: usize,
    /// Places at which all drafts were rejected.
    pub rejections: usize,
}

/// Totals over a subject's answers.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Name of the rule.
    pub rule: String,
    /// The rule with all parameters, as `--accept` takes it.
    pub accept: String,
    /// α, where there is one.
    pub alpha: Option<f64>,
    /// The temperature.
    pub temperature: f64,
    /// Whether the text has the target's distribution.
    pub lossless: bool,
    /// Answers.
    pub answers: usize,
    /// Right ones.
    pub right: usize,
    /// The share of right ones.
    pub quality: f64,
    /// The share of places with drafts at which all were rejected; none without drafts.
    pub rejection_rate: Option<f64>,
    /// Mean tokens per step, the bonus included.
    pub tokens_per_step: f64,
    /// New tokens a second.
    pub tokens_per_second: f64,
    /// The speed over that of the target alone at the same temperature.
    pub speedup: Option<f64>,
}

/// Models, prompts and settings of a sweep.
pub struct Sweep<'a> {
    /// The target.
    pub decoder: &'a Arc<Decoder>,
    /// The draft model.
    pub model: &'a DraftModel,
    /// Arranges the drafts.
    pub builder: &'a dyn TreeBuilder,
    /// When answers end.
    pub limits: Limits,
    /// Seed of all chance; a prompt's answers of a round all begin with the same.
    pub seed: u64,
}

/// Drafts that were tried, and those rejected.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    tries: usize,
    rejections: usize,
}

impl Fate {
    fn count(&mut self, tree: &TokenTree, verdict: &Verdict) {
        let last = verdict.path.last().copied().unwrap_or(0);
        let rejected = usize::from(tree.children(last).next().is_some());
        self.tries += verdict.path.len() - 1 + rejected;
        self.rejections += rejected;
    }
}

impl Sweep<'_> {
    /// Lets every subject answer every prompt, `rounds` times, each prompt beginning with another subject. `judge` says
    /// whether an answer to a prompt, given by its number, is right; `observe` gets each prompt that is done.
    ///
    /// # Errors
    /// When a prompt does not fit, or a model fails.
    pub fn run(
        &self,
        subjects: &[Subject],
        prompts: &[BenchPrompt],
        rounds: usize,
        judge: &dyn Fn(usize, &[Token]) -> bool,
        observe: &mut dyn FnMut(),
    ) -> Result<Vec<Answer>, BenchError> {
        let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
        let tokens = longest + self.limits.max_new_tokens;
        let mut target = DecoderTarget::new(self.decoder.clone(), tokens, Hooks::none());
        let mut draft = DecoderTarget::new(self.model.decoder().clone(), tokens, Hooks::none());
        let mut answers = vec![];
        for round in 0..rounds {
            for (number, prompt) in prompts.iter().enumerate() {
                let turn = round * prompts.len() + number;
                for place in 0..subjects.len() {
                    let subject = (place + turn) % subjects.len();
                    let of = &subjects[subject];
                    let (generation, fate) = self.answer(of, &mut target, &mut draft, prompt, turn as u64)?;
                    answers.push(Answer {
                        subject,
                        id: prompt.id.clone(),
                        round,
                        right: judge(number, &generation.ids),
                        tokens: generation.ids.len() - 1,
                        seconds: generation.decode_time.as_secs_f64(),
                        steps: generation.accepted.len(),
                        accepted: generation.accepted.iter().sum(),
                        tries: fate.tries,
                        rejections: fate.rejections,
                    });
                }
                observe();
            }
        }
        Ok(answers)
    }

    fn answer(
        &self,
        subject: &Subject,
        target: &mut DecoderTarget,
        draft: &mut DecoderTarget,
        prompt: &BenchPrompt,
        turn: u64,
    ) -> Result<(Generation, Fate), BenchError> {
        let choice = subject.rule();
        let rule = choice.rule(subject.transform);
        let rule = Observed::new(rule, Fate::count);
        let random = &mut SeededRandom::stream(self.seed, turn);
        let go_on = &mut |_| ControlFlow::Continue(());
        let generation = match subject.who {
            // Without drafts there is nothing to count.
            Who::Target => decode(target, &prompt.ids, rule.rule().as_ref(), random, &self.limits, go_on),
            Who::Draft => decode(draft, &prompt.ids, rule.rule().as_ref(), random, &self.limits, go_on),
            Who::Lossless | Who::Lossy { .. } => {
                let sampling = DraftSampling::of(choice, subject.transform);
                let drafter = &mut DraftModelDrafter::new(self.model.clone(), sampling);
                let builder = self.builder;
                Session::new(target, drafter).generate(
                    Method { tree: builder, rule: &rule },
                    Request::new(&prompt.ids, &self.limits, random),
                    go_on,
                )
            }
        }?;
        Ok((generation, rule.into_counts()))
    }
}

/// Sums up answers, a point per subject.
pub fn points(subjects: &[Subject], answers: &[Answer]) -> Vec<Point> {
    let speed = |subject: usize| {
        let of = answers.iter().filter(|answer| answer.subject == subject);
        let (tokens, seconds) = of.fold((0, 0.0), |sum, a| (sum.0 + a.tokens, sum.1 + a.seconds));
        tokens as f64 / f64::max(seconds, 1e-12)
    };
    let point = |(number, subject): (usize, &Subject)| {
        let of = || answers.iter().filter(|answer| answer.subject == number);
        let sum = |value: fn(&Answer) -> usize| of().map(value).sum::<usize>();
        let (answers, right) = (of().count(), sum(|a| usize::from(a.right)));
        let (tries, rejections) = (sum(|a| a.tries), sum(|a| a.rejections));
        let alone = subjects.iter().position(|s| s.who == Who::Target && s.transform == subject.transform);
        let tokens_per_second = speed(number);
        Point {
            rule: subject.name(),
            accept: subject.rule().to_string(),
            alpha: match subject.who {
                Who::Lossy { alpha, .. } => Some(alpha),
                _ => None,
            },
            temperature: subject.transform.temperature(),
            lossless: subject.is_lossless(),
            answers,
            right,
            quality: right as f64 / answers.max(1) as f64,
            rejection_rate: (tries > 0).then(|| rejections as f64 / tries as f64),
            tokens_per_step: sum(|a| a.accepted + a.steps) as f64 / sum(|a| a.steps).max(1) as f64,
            tokens_per_second,
            speedup: alone.map(|alone| tokens_per_second / speed(alone).max(1e-12)),
        }
    };
    subjects.iter().enumerate().map(point).collect()
}
