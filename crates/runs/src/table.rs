//! Tables for people, on a terminal and in Markdown: cells are made harmless here, and comfy-table lays them out.

use crate::visible;
use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, TableComponent, Width};
use unicode_width::UnicodeWidthStr;

/// Spaces between columns.
const GAP: usize = 2;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    heading: String,
    alignment: CellAlignment,
    is_spare: bool,
}

impl Column {
    /// A column of words, aligned to the left.
    #[must_use]
    pub fn text(heading: &str) -> Self {
        Self { heading: visible::line(heading), alignment: CellAlignment::Left, is_spare: false }
    }

    /// A column of numbers, aligned to the right.
    #[must_use]
    pub fn number(heading: &str) -> Self {
        Self { heading: visible::line(heading), alignment: CellAlignment::Right, is_spare: false }
    }

    /// Copy that a narrow terminal leaves out.
    #[must_use]
    pub fn spare(self) -> Self {
        Self { is_spare: true, ..self }
    }
}

/// A table. Without a single heading it has no heading row.
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
        let mut cells: Vec<String> = cells.into_iter().map(|cell| visible::line(&cell.into())).collect();
        while self.columns.len() < cells.len() {
            self.columns.push(Column::text(""));
            self.rows.iter_mut().for_each(|row| row.push(String::new()));
        }
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// For a terminal: columns two spaces apart, a rule under the headings. Where that would be wider than `width` columns
    /// of the terminal, cells are wrapped between words; where words are too wide, spare columns are left out, the last
    /// one first; where they are too wide even so, each row is a list of its cells.
    #[must_use]
    pub fn to_text(&self, width: Option<u16>) -> String {
        let words = self.widest_words();
        let least = words.iter().sum::<usize>() + GAP * words.len().saturating_sub(1);
        if width.is_some_and(|width| least > usize::from(width)) {
            return match self.columns.iter().rposition(|column| column.is_spare) {
                Some(spare) => self.without(spare).to_text(width),
                // Without headings the terminal wraps the lines.
                None if !self.has_headings() => self.to_text(None),
                None => self.to_lists(),
            };
        }
        let mut table = self.laid_out(str::to_owned);
        table.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─');
        let columns = self.columns.len();
        for ((i, column), word) in table.column_iter_mut().enumerate().zip(words) {
            let gap = if i + 1 == columns { 0 } else { GAP };
            column.set_padding((0, gap as u16));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed((word + gap) as u16)));
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.trim_fmt() + "\n"
    }

    fn has_headings(&self) -> bool {
        self.columns.iter().any(|column| !column.heading.is_empty())
    }

    /// Copy without a column.
    fn without(&self, column: usize) -> Self {
        let mut fewer = self.clone();
        fewer.columns.remove(column);
        fewer.rows.iter_mut().for_each(|row| drop(row.remove(column)));
        fewer
    }

    /// Width of the widest word of each column.
    fn widest_words(&self) -> Vec<usize> {
        let widest = |text: &str| text.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
        let of = |i: usize| self.rows.iter().map(|row| widest(&row[i])).max().unwrap_or(0);
        self.columns.iter().enumerate().map(|(i, column)| of(i).max(widest(&column.heading))).collect()
    }

    /// A line for each cell that is not empty, behind the heading of its column, and an empty line between rows.
    fn to_lists(&self) -> String {
        let widest = self.columns.iter().map(|column| column.heading.width()).max().unwrap_or(0);
        let cell = |(column, cell): (&Column, &String)| {
            let space = " ".repeat(widest - column.heading.width() + GAP);
            format!("{}{space}{cell}\n", column.heading)
        };
        let filled = |row: &Vec<String>| {
            self.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()).map(cell).collect::<String>()
        };
        self.rows.iter().map(filled).collect::<Vec<_>>().join("\n")
    }

    /// For Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        // A bar would end a cell.
        let mut table = self.laid_out(|cell| cell.replace('|', "\\|"));
        table.load_preset(ASCII_MARKDOWN);
        let mut lines: Vec<String> = table.lines().collect();
        if let Some(rule) = lines.get_mut(1) {
            let aligned =
                rule.trim_matches('|').split('|').zip(&self.columns).map(|(part, column)| match column.alignment {
                    CellAlignment::Right => part[1..].to_owned() + ":",
                    _ => part.to_owned(),
                });
            *rule = format!("|{}|", aligned.collect::<Vec<_>>().join("|"));
        }
        lines.join("\n") + "\n"
    }

    fn laid_out(&self, cell: impl Fn(&str) -> String) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        if self.has_headings() {
            table.set_header(self.columns.iter().map(|column| cell(&column.heading)));
        }
        table.add_rows(self.rows.iter().map(|row| row.iter().map(|text| cell(text))));
        for (made, column) in table.column_iter_mut().zip(&self.columns) {
            made.set_cell_alignment(column.alignment);
        }
        table
    }
}

#[cfg(test)]
mod tests;
