//! Tables of plain text, for the terminal and for Markdown.

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    heading: String,
    align: Align,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

impl Column {
    /// A column of words, aligned to the left.
    #[must_use]
    pub fn text(heading: &str) -> Self {
        Self { heading: one_line(heading), align: Align::Left }
    }

    /// A column of numbers, aligned to the right.
    #[must_use]
    pub fn number(heading: &str) -> Self {
        Self { heading: one_line(heading), align: Align::Right }
    }
}

/// A table. Widths count characters, so that scripts with wide characters are not aligned exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: vec![] }
    }

    /// Adds a row. Missing cells are empty; further cells get columns without headings.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| one_line(&cell.into())).collect();
        while self.columns.len() < cells.len() {
            self.columns.push(Column::text(""));
            self.rows.iter_mut().for_each(|row| row.push(String::new()));
        }
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// For the terminal: columns two spaces apart, a rule under the headings.
    #[must_use]
    pub fn to_text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.clone()).collect();
        let widths = self.widths(&headings, &self.rows, 1);
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let mut text = String::new();
        for row in [&headings, &rule].into_iter().chain(&self.rows) {
            text.push_str(self.pad(row, &widths).join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// For Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|column| escape(&column.heading)).collect();
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
        // `---` and `--:` are the shortest rules that all readers of Markdown know.
        let widths = self.widths(&headings, &rows, 3);
        let rule = self.columns.iter().zip(&widths).map(|(column, &width)| match column.align {
            Align::Left => "-".repeat(width),
            Align::Right => "-".repeat(width - 1) + ":",
        });
        let rule: Vec<String> = rule.collect();
        let mut text = String::new();
        for row in [&headings, &rule].into_iter().chain(&rows) {
            text.push_str(&format!("| {} |\n", self.pad(row, &widths).join(" | ")));
        }
        text
    }

    fn widths(&self, headings: &[String], rows: &[Vec<String>], least: usize) -> Vec<usize> {
        let width = |(i, heading): (usize, &String)| {
            let cells = rows.iter().map(|row| row[i].chars().count());
            cells.chain([heading.chars().count(), least]).max().unwrap_or(least)
        };
        headings.iter().enumerate().map(width).collect()
    }

    fn pad(&self, row: &[String], widths: &[usize]) -> Vec<String> {
        let cells = row.iter().zip(&self.columns).zip(widths);
        let padded = cells.map(|((cell, column), &width)| match column.align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        padded.collect()
    }
}

/// A cell is one line, and sends no commands to a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A bar would end a cell in Markdown.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests;
