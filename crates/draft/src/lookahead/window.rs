//! The window of guesses: its levels, their place in a tree, and how they move on.

use gorgon_core::Token;
use gorgon_core::tree::{DraftTree, NodeInput, Trie};

/// Draws so many tokens of the text.
type Draw<'a> = &'a mut dyn FnMut(usize) -> Vec<Token>;

/// Levels of guesses, `W` columns wide.
///
/// In the pass over `p` levels, `L_0` has `W + N - 2 - p` tokens (column 0 is the root) and the others `W + N - 1 - p`.
/// With `p = N - 1` levels the window is full.
#[derive(Clone, Debug)]
pub(super) struct Window {
    columns: usize,
    n: usize,
    levels: Vec<Vec<Token>>,
    /// The nodes of the last level's rows in the last tree; empty if none was made.
    newest: Vec<usize>,
}

impl Window {
    pub fn new(columns: usize, n: usize) -> Self {
        Self { columns, n, levels: vec![], newest: vec![] }
    }

    pub fn clear(&mut self) {
        self.levels.clear();
        self.newest.clear();
    }

    pub fn levels(&self) -> &[Vec<Token>] {
        &self.levels
    }

    pub fn is_full(&self) -> bool {
        self.levels.len() == self.n - 1
    }

    /// Tokens of level `level` where there are `levels` of them.
    fn length(&self, level: usize, levels: usize) -> usize {
        self.columns + self.n - 1 - levels - usize::from(level == 0)
    }

    /// Rows of the window in the largest pass.
    pub fn most_rows(columns: usize, n: usize) -> usize {
        let window = Self::new(columns, n);
        let rows = |levels: usize| (0..levels).map(|level| window.length(level, levels)).sum();
        (1..n).map(rows).max().unwrap_or(0)
    }

    /// The longest path of rows.
    pub fn depth(columns: usize, n: usize) -> usize {
        columns + n - 3
    }

    /// Starts with a first level drawn from the text, if there is none.
    pub fn begin(&mut self, draw: Draw<'_>) {
        if self.levels.is_empty() {
            self.levels.push(draw(self.length(0, 1)));
        }
    }

    /// Every row's parent row and token; row 0 is the root, the others follow level by level.
    fn rows(&self) -> Vec<(usize, Token)> {
        let mut rows = vec![(0, 0)];
        // The rows of the level above by column; column 0 of the first level is the root.
        let mut above = vec![0];
        for &token in &self.levels[0] {
            rows.push((above[above.len() - 1], token));
            above.push(rows.len() - 1);
        }
        for level in &self.levels[1..] {
            let first = rows.len();
            rows.extend(above.iter().copied().zip(level.iter().copied()));
            above = (first..rows.len()).collect();
        }
        rows
    }

    /// Adds the window's rows behind the guesses: merged with those as drafts, or as probes.
    pub fn place(&mut self, mut trie: Trie, as_drafts: bool) -> DraftTree {
        let rows = self.rows();
        let mut nodes = vec![0];
        let draft = if as_drafts {
            let mut paths: Vec<Vec<Token>> = vec![vec![]];
            for &(parent, token) in &rows[1..] {
                let path = [&paths[parent][..], &[token]].concat();
                nodes.push(trie.insert(&path).last().copied().unwrap_or(0));
                paths.push(path);
            }
            trie.into_draft()
        } else {
            let mut draft = trie.into_draft();
            for &(parent, token) in &rows[1..] {
                nodes.push(draft.push_probe(nodes[parent], NodeInput::Token(token)));
            }
            draft
        };
        // In the first of several passes the root's own row is none of the next level's.
        let newest = match self.levels.len() {
            1 if self.is_full() => nodes.len(),
            1 => nodes.len() - 1,
            _ => self.levels[self.levels.len() - 1].len(),
        };
        self.newest = nodes.split_off(nodes.len() - newest);
        draft
    }

    /// The argmaxes at the rows of the last level; `None` if they were not verified.
    pub fn argmax(&self, at: impl Fn(usize) -> Option<Token>) -> Option<Vec<Token>> {
        let argmax: Option<Vec<Token>> = self.newest.iter().map(|&node| at(node)).collect();
        argmax.filter(|argmax| !argmax.is_empty())
    }

    /// Keys and tuples of the pool: column `i` gives `L_0[i] -> (L_1[i], .., L_{N-2}[i], a_i)`, column 0 the root's.
    pub fn tuples(&self, root: Token, argmax: &[Token]) -> Vec<(Token, Vec<Token>)> {
        let keys = std::iter::once(root).chain(self.levels[0].iter().copied());
        let tuple = |column: usize| self.levels[1..].iter().map(move |level| level[column]);
        keys.zip(argmax).enumerate().map(|(i, (key, &last))| (key, tuple(i).chain([last]).collect())).collect()
    }

    /// Moves on by `columns` columns, as many as tokens were emitted or one, with the argmaxes as the newest level.
    /// Columns that are missing then are drawn from the text.
    pub fn advance(&mut self, argmax: Vec<Token>, columns: usize, draw: Draw<'_>) {
        let was_full = self.is_full();
        // The first row of levels has no column 0, so the first of the argmaxes is the one after it.
        let is_first = self.levels.len() == 1 && !was_full;
        self.levels.push(argmax);
        if was_full {
            self.levels.remove(0);
        }
        let (levels, last) = (self.levels.len(), self.levels.len() - 1);
        for level in 0..levels {
            let length = self.length(level, levels);
            // A level that became the first one loses column 0 too; a filled-up level has none to lose.
            let dropped = match (was_full, level) {
                (true, 0) => columns,
                (true, _) => columns - 1,
                (false, level) if level == last && is_first => columns - 1,
                (false, _) => columns,
            };
            let tokens = &mut self.levels[level];
            tokens.drain(..dropped.min(tokens.len()));
            let missing = length.saturating_sub(tokens.len());
            tokens.extend(draw(missing));
            tokens.truncate(length);
        }
        self.newest.clear();
    }
}
