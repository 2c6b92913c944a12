//! PTX cut into statements.

/// Content of a module.
#[derive(Debug, Default)]
pub struct TopLevel {
    /// Declarations of arrays outside kernels.
    pub arrays: Vec<String>,
    /// Name, parameters and body of each kernel.
    pub kernels: Vec<(String, String, String)>,
}

/// A statement of a kernel's body.
#[derive(Debug, PartialEq, Eq)]
pub enum Statement {
    /// `.reg .b32 %r<9>`.
    Registers(String),
    /// A variable in shared or local memory.
    Declaration(String),
    /// The place of a branch.
    Label(String),
    /// An instruction, its guard included.
    Instruction(String),
    /// A table of branches' places, with its name.
    Targets(String, String),
    /// A block of names begins.
    Open,
    /// It ends.
    Close,
}

impl Statement {
    /// A label as the name of a table of places.
    fn with_targets(&self, places: &str) -> Self {
        let name = if let Self::Label(name) = self { name.clone() } else { String::new() };
        Self::Targets(name, places.trim().into())
    }
}

/// Lines that say nothing of what a kernel computes. They have no semicolon at their ends.
const LINES: [&str; 15] = [
    ".version",
    ".target",
    ".address_size",
    ".file",
    ".loc",
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".noreturn",
    ".explicitcluster",
    ".reqnctapercluster",
    ".maxclusterrank",
    ".blocksareclusters",
];

/// A module without comments, debugging sections and lines without a meaning here.
fn stripped(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if line.starts_with(".section") {
            break;
        }
        let first = line.split_whitespace().next().unwrap_or("");
        if !LINES.contains(&first) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Cuts a module apart.
pub fn top_level(text: &str) -> TopLevel {
    let text = stripped(text);
    let mut found = TopLevel::default();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(".entry") {
        found.arrays.extend(arrays(&rest[..start]));
        let after = &rest[start + ".entry".len()..];
        let Some(open) = after.find('{') else { break };
        let (head, code) = (&after[..open], &after[open + 1..]);
        let (name, params) = head.split_once('(').unwrap_or((head, ""));
        let end = closing(code);
        let params = params.rsplit_once(')').map_or("", |(params, _)| params);
        found.kernels.push((name.trim().into(), params.into(), code[..end].into()));
        rest = code.get(end + 1..).unwrap_or("");
    }
    found.arrays.extend(arrays(rest));
    found
}

fn arrays(text: &str) -> impl Iterator<Item = String> {
    let variables = text.split(';').map(str::trim);
    let named = [".global", ".const", ".shared"];
    variables.filter(move |text| named.iter().any(|space| text.contains(space))).map(str::to_owned)
}

/// Where the brace is closed that was opened before this text.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Cuts a kernel's body apart.
pub fn body(code: &str) -> Vec<Statement> {
    let mut statements = vec![];
    let mut text = String::new();
    for letter in code.chars() {
        match letter {
            // Braces within a statement hold operands.
            '{' if text.trim().is_empty() => statements.push(Statement::Open),
            '}' if text.trim().is_empty() => statements.push(Statement::Close),
            ';' => {
                match (text.trim().strip_prefix(".branchtargets"), statements.last_mut()) {
                    (Some(places), Some(last)) => *last = last.with_targets(places),
                    _ => statements.extend(statement(text.trim())),
                }
                text.clear();
            }
            ':' if is_label(text.trim()) => {
                statements.push(Statement::Label(text.trim().into()));
                text.clear();
            }
            _ => text.push(if letter == '\n' { ' ' } else { letter }),
        }
    }
    statements
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || "$_%".contains(letter))
}

fn statement(text: &str) -> Option<Statement> {
    if text.is_empty() || text.starts_with(".pragma") {
        return None;
    }
    if text.starts_with(".reg") {
        return Some(Statement::Registers(text.into()));
    }
    if text.starts_with(".shared") || text.starts_with(".local") {
        return Some(Statement::Declaration(text.into()));
    }
    Some(Statement::Instruction(text.into()))
}

#[cfg(test)]
mod tests;
