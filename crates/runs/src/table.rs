//! Tables for people, on a terminal and in Markdown: cells are made harmless here, and comfy-table lays them out.

use crate::visible;
use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{CellAlignment, ContentArrangement, TableComponent};

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    heading: String,
    alignment: CellAlignment,
}

impl Column {
    /// A column of words, aligned to the left.
    #[must_use]
    pub fn text(heading: &str) -> Self {
        Self { heading: visible::line(heading), alignment: CellAlignment::Left }
    }

    /// A column of numbers, aligned to the right.
    #[must_use]
    pub fn number(heading: &str) -> Self {
        Self { heading: visible::line(heading), alignment: CellAlignment::Right }
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

    /// For a terminal: columns two spaces apart, a rule under the headings. Cells are wrapped where the table would be
    /// wider than `width` columns of the terminal.
    #[must_use]
    pub fn to_text(&self, width: Option<u16>) -> String {
        let mut table = self.laid_out(str::to_owned);
        table.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─');
        let columns = self.columns.len();
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if i + 1 == columns { 0 } else { 2 }));
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.trim_fmt() + "\n"
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
        if self.columns.iter().any(|column| !column.heading.is_empty()) {
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
