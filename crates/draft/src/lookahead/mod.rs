//! Lookahead decoding (Fu et al., 2024, <https://arxiv.org/abs/2402.02057>): a window of Jacobi guesses makes n-grams,
//! a pool keeps them, and those that begin with the root are verified in the same pass.
//!
//! A window has `N - 1` levels: `L_0` with `W - 1` tokens (its column 0 is the root), `L_1..L_{N-2}` with `W`. Row
//! `(l, i)` sees the root, `(0, 1)..(0, i)` and `(1, i)..(l, i)`, so the window is a tree: `parent(0, i) = (0, i - 1)`
//! and `parent(l, i) = (l - 1, i)`. The argmaxes `a_i` at the last level make the tuples
//! `(L_1[i], .., L_{N-2}[i], a_i)` of the pool, keyed by `L_0[i]`, and the levels move up by one. The first `N - 2`
//! passes fill the window. Guesses are lists, so the text is lossless under any lossless rule.
//!
//! Differences from the authors' code: a fully matching guess emits all of its `N - 1` tokens and a bonus, guesses are
//! merged into a trie, and with `window` the rows of the window are drafts too (they are legal ones, and cost
//! nothing): then the window moves on by as many columns as tokens were emitted.

mod pool;
mod window;

use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};
use crate::method::TrainingFreeMethod;
use crate::refill::Refill;
use gorgon_core::Token;
use gorgon_core::tree::{OwnTree, TreeBuilder, TreeChoice, TreeKind, Trie};
use pool::Pool;
use window::Window;

/// The most tokens that a window and its guesses may have together.
const MOST_ROWS: usize = 1024;

/// Lookahead decoding, `lookahead:W,N,G` or `lookahead:W,N,G,window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookahead {
    /// Columns of the window, W.
    pub columns: usize,
    /// Tokens of an n-gram, N: its key and the `N - 1` tokens of a guess.
    pub n: usize,
    /// Guesses per key, G.
    pub guesses: usize,
    /// Whether the window's rows are drafts.
    pub window: bool,
}

impl Lookahead {
    /// Rows of a pass at most, the root included.
    pub fn rows(&self) -> usize {
        1 + Window::most_rows(self.columns, self.n) + self.guesses * (self.n - 1)
    }

    /// The longest path of drafts.
    fn depth(&self) -> usize {
        let guess = self.n - 1;
        if self.window { guess.max(Window::depth(self.columns, self.n)) } else { guess }
    }
}

impl TrainingFreeMethod for Lookahead {
    const SYNTAX: &'static str = "lookahead:W,N,G[,window]";

    fn parse(arguments: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("lookahead:{arguments}: {reason}");
        let (numbers, window) = match arguments.strip_suffix(",window") {
            Some(numbers) => (numbers, true),
            None => (arguments, false),
        };
        let numbers: Option<Vec<usize>> = numbers.split(',').map(|number| number.trim().parse().ok()).collect();
        let Some(&[columns, n, guesses]) = numbers.as_deref() else {
            return Err(wrong("expected W,N,G or W,N,G,window, three whole numbers"));
        };
        if columns == 0 || n < 2 {
            return Err(wrong("a window has at least 1 column, an n-gram at least 2 tokens"));
        }
        let rows = columns.checked_add(guesses).and_then(|wide| wide.checked_mul(n));
        if rows.is_none_or(|rows| rows > MOST_ROWS) {
            return Err(wrong("(W + G) · N is at most 1024"));
        }
        Ok(Self { columns, n, guesses, window })
    }

    fn name(&self) -> String {
        let window = if self.window { ",window" } else { "" };
        format!("lookahead:{},{},{}{window}", self.columns, self.n, self.guesses)
    }

    fn default_tree(&self) -> TreeChoice {
        OwnTree::new(self.rows(), self.depth()).map_or(TreeChoice::None, TreeChoice::Own)
    }

    fn check_tree(&self, tree: &TreeKind) -> Result<(), String> {
        let (name, rows, depth) = (self.name(), self.rows(), self.depth());
        match tree {
            TreeKind::Own(own) if own.nodes() >= rows && own.depth() >= depth => Ok(()),
            _ => Err(format!("{name} makes its own tree: it takes own:NODES,DEPTH from own:{rows},{depth} on")),
        }
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(LookaheadDrafter::new(*self))
    }
}

/// Drafts the n-grams of a window's pool.
#[derive(Clone, Debug)]
pub struct LookaheadDrafter {
    settings: Lookahead,
    name: String,
    refill: Refill,
    window: Window,
    pool: Pool,
    /// The root of the last proposal.
    root: Token,
    /// Whether the pool outlives a text.
    keeps_pool: bool,
}

impl LookaheadDrafter {
    /// A drafter with an empty pool.
    pub fn new(settings: Lookahead) -> Self {
        Self {
            settings,
            name: settings.name(),
            refill: Refill::default(),
            window: Window::new(settings.columns, settings.n),
            pool: Pool::new(settings.guesses),
            root: 0,
            keeps_pool: false,
        }
    }

    /// A drafter with an empty pool that outlives texts: [`reset`](Drafter::reset) keeps it.
    pub fn keeping_pool(settings: Lookahead) -> Self {
        Self { keeps_pool: true, ..Self::new(settings) }
    }

    /// The window's levels `L_0, L_1, ..`.
    pub fn levels(&self) -> &[Vec<Token>] {
        self.window.levels()
    }

    /// The pool: every key with its tuples, the oldest first.
    pub fn pool(&self) -> impl Iterator<Item = (Token, &[Vec<Token>])> {
        self.pool.iter()
    }

    /// The tuples of a key, the oldest first.
    pub fn guesses(&self, key: Token) -> &[Vec<Token>] {
        self.pool.guesses(key)
    }

    /// Adds a tuple of `N - 1` tokens as the newest of its key.
    pub fn insert(&mut self, key: Token, tuple: Vec<Token>) {
        self.pool.insert(key, tuple);
    }

    /// Removes a tuple of a key, if it is there.
    pub fn remove(&mut self, key: Token, tuple: &[Token]) {
        self.pool.remove(key, tuple);
    }
}

impl Drafter for LookaheadDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { feedback: Feedback::Argmax, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.refill.truncate(0);
        self.window.clear();
        if !self.keeps_pool {
            self.pool.clear();
        }
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.refill.truncate(length);
        self.window.clear();
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.refill.extend(pass.tokens);
        let Some(verified) = &pass.verified else { return Ok(()) };
        let Some(argmax) = self.window.argmax(|node| verified.argmax(node)) else { return Ok(()) };
        if self.window.is_full() {
            for (key, tuple) in self.window.tuples(self.root, &argmax) {
                self.pool.insert(key, tuple);
            }
        }
        let columns = if self.settings.window { verified.path.len() } else { 1 };
        self.window.advance(argmax, columns, &mut |count| self.refill.draw(verified.next, count).collect());
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if let Err(reason) = self.settings.check_tree(&context.tree.kind()) {
            return Err(DraftError::Tree(reason));
        }
        self.root = root;
        self.window.begin(&mut |count| self.refill.draw(root, count).collect());
        let mut trie = Trie::new(root, context.tree.max_nodes(), context.tree.max_depth());
        if self.window.is_full() {
            self.pool.guesses(root).iter().for_each(|guess| drop(trie.insert(guess)));
        }
        Ok(Proposal::list(self.window.place(trie, self.settings.window)))
    }
}

#[cfg(test)]
mod tests;
