//! Lines of input, and blocks of several lines between `"""` and `"""`.

/// Opens and closes a block.
const MARK: &str = "\"\"\"";

/// Kind of some lines of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Lines without a mark.
    Plain,
    /// A block that has no end yet.
    Open,
    /// The lines of a whole block.
    Closed(String),
}

/// Looks for a block in the lines so far.
pub fn block(text: &str) -> Block {
    let Some(inside) = text.trim_start().strip_prefix(MARK) else { return Block::Plain };
    match inside.trim_end().strip_suffix(MARK) {
        Some(whole) => Block::Closed(whole.trim_matches('\n').to_owned()),
        None => Block::Open,
    }
}

/// Collects lines into messages: one per line, or one per block.
#[derive(Debug, Default)]
pub struct Lines {
    open: String,
}

impl Lines {
    /// Adds a line. Returns the input that it completes.
    pub fn push(&mut self, line: &str) -> Option<String> {
        if !self.open.is_empty() {
            self.open.push('\n');
        }
        self.open.push_str(line.strip_suffix('\r').unwrap_or(line));
        match block(&self.open) {
            Block::Open => None,
            Block::Plain | Block::Closed(_) => Some(std::mem::take(&mut self.open)),
        }
    }

    /// Ends the input. Returns the block that was still open, closed.
    pub fn finish(&mut self) -> Option<String> {
        let open = std::mem::take(&mut self.open);
        (!open.is_empty()).then(|| open + MARK)
    }
}

#[cfg(test)]
mod tests;
