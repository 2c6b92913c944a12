//! Line charts as SVG.
//!
//! Written by hand: the library `plotters`, as of 0.3, draws at whole pixels, puts its legend over the lines and labels
//! little more than the powers of ten of a logarithmic axis.

mod axis;
mod chart;
mod svg;
mod thin;

pub use chart::{Chart, Series};

use crate::{RunError, atomic};
use axis::Axis;
use chart::Line;
use std::path::Path;

impl Chart {
    /// The chart as an SVG document. The same chart gives the same bytes.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let lines: Vec<Vec<Line>> = self.series.iter().map(|series| self.lines(&series.points)).collect();
        let points = || lines.iter().flatten().flatten();
        let axes = if points().next().is_none() {
            None
        } else {
            let x = Axis::linear(points().map(|point| point.0), axis::Padding::Tight);
            let ys = points().map(|point| point.1);
            Some((x, if self.log_y { Axis::logarithmic(ys) } else { Axis::linear(ys, axis::Padding::Wide) }))
        };
        svg::draw(self, &lines, axes.as_ref())
    }

    /// Writes the chart to a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        atomic::write(path, |file| file.write_all(self.to_svg().as_bytes())).map_err(RunError::io(path))
    }
}

#[cfg(test)]
mod tests;
