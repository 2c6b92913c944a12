//! The exact distribution of what a rule emits, over all draws of drafter and rule.

use gorgon_core::Token;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{AcceptanceRule, DraftRows, RandomSource, Rows, SamplingScheme, TargetRows};
use gorgon_core::dist::{Row, Transform, normalise};
use gorgon_core::tree::TokenTree;

/// Vocabulary of the small settings.
pub const VOCAB: usize = 3;

/// Tree shapes, as parents by node: a lone root, a chain, a wide, a bushy and an unbalanced tree.
pub const SHAPES: [&[usize]; 5] = [&[0], &[0, 0, 1, 2], &[0, 0, 0, 0], &[0, 0, 0, 1, 1, 2], &[0, 0, 0, 0, 1, 1, 4]];

/// Depth of the deepest shape.
const DEPTH: usize = 3;

/// A number in `[0, 1)` that depends on everything it is given (splitmix64).
fn hashed(seed: u64, prefix: &[Token], salt: u64) -> f64 {
    let mut state = seed ^ (salt << 32);
    for &token in prefix.iter().chain(&[1 << 20]) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(token));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    (state >> 11) as f64 * 2.0_f64.powi(-53)
}

/// A distribution that depends on the whole prefix.
pub fn random_distribution(seed: u64, prefix: &[Token], vocab: usize) -> Vec<f64> {
    let mut distribution: Vec<f64> =
        (0..vocab).map(|token| 0.03 + hashed(seed, prefix, token as u64 + 1).powi(2)).collect();
    assert!(normalise(&mut distribution));
    distribution
}

/// The token that sparse distributions leave out after `prefix`.
fn hole(seed: u64, prefix: &[Token]) -> usize {
    (hashed(seed, prefix, 77) * VOCAB as f64) as usize
}

/// How the drafter's rows relate to the target's, and how its tokens relate to its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drafter {
    /// A distribution of its own.
    Random,
    /// A distribution of its own that misses a token.
    Sparse,
    /// All mass on a token that the target never emits.
    Disjoint,
    /// The target's own distribution.
    Equal,
    /// NaN rows, with tokens from anywhere.
    Broken,
    /// No rows at all, with tokens from anywhere.
    Absent,
    /// A row that misses a token, which is drafted nevertheless now and then.
    Straying,
}

pub const DRAFTERS: [Drafter; 7] = [
    Drafter::Random,
    Drafter::Sparse,
    Drafter::Disjoint,
    Drafter::Equal,
    Drafter::Broken,
    Drafter::Absent,
    Drafter::Straying,
];

/// A target and a drafter, both depending on the whole prefix, and the shape of the drafter's trees.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub seed: u64,
    pub drafter: Drafter,
    pub scheme: SamplingScheme,
    pub shape: &'static [usize],
    pub transform: Transform,
}

impl Setting {
    /// The target's raw distribution after `prefix`.
    pub fn target(&self, prefix: &[Token]) -> Vec<f64> {
        let mut distribution = random_distribution(self.seed, prefix, VOCAB);
        if matches!(self.drafter, Drafter::Sparse | Drafter::Disjoint) {
            distribution[hole(self.seed, prefix)] = 0.0;
            assert!(normalise(&mut distribution));
        }
        distribution
    }

    /// The row the drafter declares after `prefix`.
    pub fn draft(&self, prefix: &[Token]) -> Vec<f64> {
        let mut distribution = random_distribution(self.seed + 1000, prefix, VOCAB);
        match self.drafter {
            Drafter::Random | Drafter::Absent => {}
            Drafter::Broken => distribution[hole(self.seed + 1000, prefix)] = f64::NAN,
            Drafter::Equal => distribution = self.target(prefix),
            Drafter::Sparse | Drafter::Straying => {
                distribution[hole(self.seed + 1000, prefix)] = 0.0;
                assert!(normalise(&mut distribution));
            }
            Drafter::Disjoint => {
                distribution = vec![0.0; VOCAB];
                distribution[hole(self.seed, prefix)] = 1.0;
            }
        }
        distribution
    }

    /// The target's distribution after the transform: what a lossless rule must emit.
    pub fn wanted(&self, prefix: &[Token]) -> Vec<f64> {
        self.transform.apply(Row::Probabilities(&self.target(prefix))).into_vec()
    }

    /// The distribution that children after `prefix` are drawn from.
    fn source(&self, prefix: &[Token]) -> Vec<f64> {
        if matches!(self.drafter, Drafter::Broken | Drafter::Absent) {
            return random_distribution(self.seed + 2000, prefix, VOCAB);
        }
        // At temperature 0 a rule must not care where tokens come from, so they are drawn as if it were 1.
        let transform = if self.transform.is_greedy() { Transform::IDENTITY } else { self.transform };
        transform.apply(Row::Probabilities(&self.draft(prefix))).into_vec()
    }

    /// The joint distribution of the first `horizon` emitted tokens, a text's base-`VOCAB` number being its index.
    /// Where a step emits fewer, the text continues as `aim` says.
    pub fn emitted(&self, rule: &dyn AcceptanceRule, horizon: usize, aim: &NextTokens<'_>) -> Vec<f64> {
        let aim = Table::of(aim, horizon);
        let step = Step::new(self);
        let mut distribution = vec![0.0; VOCAB.pow(horizon as u32)];
        for (probability, mut text) in enumerate(|random| step.run(rule, random)) {
            text.truncate(horizon);
            aim.extend(text.len(), code(&text), probability, horizon, &mut distribution);
        }
        distribution
    }

    /// The mean number of drafts that one step of `rule` accepts.
    pub fn accepted(&self, rule: &dyn AcceptanceRule) -> f64 {
        let step = Step::new(self);
        enumerate(|random| step.run(rule, random).len() - 1).iter().map(|(mass, drafts)| mass * *drafts as f64).sum()
    }
}

/// A distribution for every prefix.
pub type NextTokens<'a> = dyn Fn(&[Token]) -> Vec<f64> + 'a;

/// The number of a prefix: a 1 and then its tokens as digits of base `VOCAB`.
fn code(prefix: &[Token]) -> usize {
    prefix.iter().fold(1, |code, &token| code * VOCAB + token as usize)
}

/// The distributions of all prefixes up to a length, by the prefixes' numbers: enumeration asks for them very often.
struct Table(Vec<Vec<f64>>);

impl Table {
    fn of(distribution: &NextTokens<'_>, length: usize) -> Self {
        let mut distributions = vec![Vec::new(); 2 * VOCAB.pow(length as u32)];
        let mut prefixes = vec![Vec::new()];
        while let Some(prefix) = prefixes.pop() {
            distributions[code(&prefix)] = distribution(&prefix);
            if prefix.len() < length {
                prefixes.extend((0..VOCAB as Token).map(|token| [&prefix[..], &[token]].concat()));
            }
        }
        Self(distributions)
    }

    /// Adds to `distribution` the texts of length `horizon` that start with the prefix numbered `code` and go on as
    /// this says.
    fn extend(&self, length: usize, code: usize, mass: f64, horizon: usize, distribution: &mut [f64]) {
        if length == horizon {
            distribution[code - VOCAB.pow(horizon as u32)] += mass;
            return;
        }
        for (token, p) in self.0[code].iter().enumerate().filter(|(_, p)| **p > 0.0) {
            self.extend(length + 1, code * VOCAB + token, mass * p, horizon, distribution);
        }
    }
}

/// One decoding step in a setting.
struct Step<'a> {
    setting: &'a Setting,
    target: Table,
    draft: Table,
    source: Table,
}

impl<'a> Step<'a> {
    fn new(setting: &'a Setting) -> Self {
        Self {
            setting,
            target: Table::of(&|prefix| setting.target(prefix), DEPTH),
            draft: Table::of(&|prefix| setting.draft(prefix), DEPTH),
            source: Table::of(&|prefix| setting.source(prefix), DEPTH),
        }
    }

    /// The tokens that one step of `rule` emits.
    fn run(&self, rule: &dyn AcceptanceRule, random: &mut dyn RandomSource) -> Vec<Token> {
        let (tree, codes, has_children) = self.tree(random);
        let mut target = Vec::with_capacity(tree.len() * VOCAB);
        let mut draft = Vec::with_capacity(tree.len() * VOCAB);
        for (&code, &has_children) in codes.iter().zip(&has_children) {
            target.extend_from_slice(&self.target.0[code]);
            // Rows of childless nodes must not be read.
            draft.extend_from_slice(if has_children { &self.draft.0[code] } else { &[f64::NAN; VOCAB] });
        }
        let rows = Rows::Probabilities { data: &draft, vocab: VOCAB };
        let rows = (self.setting.drafter != Drafter::Absent).then_some(rows);
        let draft = DraftRows::single(rows, self.setting.scheme);
        let verdict = rule.accept(&tree, draft, TargetRows::Probabilities { data: &target, vocab: VOCAB }, random);
        let verdict = verdict.unwrap();
        assert_eq!(verdict.path, tree.path(verdict.path[verdict.path.len() - 1]), "the path must start at the root");
        verdict.path[1..].iter().map(|&node| tree.token(node)).chain([verdict.bonus]).collect()
    }

    /// A drafted tree, the number of every node's prefix, and which nodes have children. Where the drafter runs out of
    /// tokens, branches are missing.
    fn tree(&self, random: &mut dyn RandomSource) -> (TokenTree, Vec<usize>, Vec<bool>) {
        let shape = self.setting.shape;
        let mut tree = TokenTree::root(0);
        let (mut codes, mut has_children) = (vec![1], vec![false]);
        let mut placed = vec![None; shape.len()];
        placed[0] = Some(0);
        for node in 0..shape.len() {
            let slots: Vec<usize> = (1..shape.len()).filter(|&child| shape[child] == node).collect();
            let Some(parent) = placed[node].filter(|_| !slots.is_empty()) else { continue };
            let children = self.children(codes[parent], slots.len(), random);
            has_children[parent] = !children.is_empty();
            for (&slot, token) in slots.iter().zip(children) {
                placed[slot] = Some(tree.push(parent, token));
                codes.push(codes[parent] * VOCAB + token as usize);
                has_children.push(false);
            }
        }
        (tree, codes, has_children)
    }

    /// The children the drafter takes after the prefix numbered `code`.
    fn children(&self, code: usize, count: usize, random: &mut dyn RandomSource) -> Vec<Token> {
        let source = &self.source.0[code];
        match self.setting.drafter {
            Drafter::Broken | Drafter::Absent => SamplingScheme::Independent.children(source, count, random).into_vec(),
            Drafter::Straying => {
                let strays: Vec<bool> = (0..count).map(|_| random.flip(0.25)).collect();
                let drawn = strays.iter().filter(|stray| !**stray).count();
                let mut drawn = self.setting.scheme.children(source, drawn, random).into_vec().into_iter();
                let stray = source.iter().position(|&p| p == 0.0).map(|token| token as Token);
                strays.into_iter().filter_map(|is_stray| if is_stray { stray } else { drawn.next() }).collect()
            }
            _ => self.setting.scheme.children(source, count, random).into_vec(),
        }
    }
}

/// The joint distribution of the first `horizon` tokens of plain decoding from `aim`.
pub fn plain(horizon: usize, aim: &NextTokens<'_>) -> Vec<f64> {
    let mut distribution = vec![0.0; VOCAB.pow(horizon as u32)];
    Table::of(aim, horizon).extend(0, 1, 1.0, horizon, &mut distribution);
    distribution
}

/// The greatest difference between two laws; infinite if either holds no numbers.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let worst = |worst: f64, difference: f64| if difference.is_nan() { f64::INFINITY } else { worst.max(difference) };
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, worst)
}
