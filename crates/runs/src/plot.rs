//! Line charts as SVG.
//!
//! Written by hand: the library `plotters`, as of 0.3, draws at whole pixels, puts its legend over the lines and labels
//! little more than the powers of ten of a logarithmic axis.

mod axis;
mod svg;
mod thin;

use crate::{RunError, atomic};
use axis::Axis;
use std::path::Path;

/// A line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x_label: String,
    /// What the vertical axis shows, with its unit.
    pub y_label: String,
    /// The lines, in the order of the legend.
    pub series: Vec<Series>,
    /// Whether the vertical axis is logarithmic. Values that are not positive are left out then.
    pub log_y: bool,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points `(x, y)`, in the order in which they are joined. The line has a gap where one is not finite.
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart as an SVG document. The same chart gives the same bytes.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let lines: Vec<Vec<Line>> = self.series.iter().map(|series| self.lines(&series.points)).collect();
        let points = || lines.iter().flatten().flatten();
        let axes = if points().next().is_none() {
            None
        } else {
            let x = Axis::linear(points().map(|point| point.0), axis::Room::Tight);
            let ys = points().map(|point| point.1);
            Some((x, if self.log_y { Axis::logarithmic(ys) } else { Axis::linear(ys, axis::Room::Wide) }))
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

    /// The points that can be drawn, split where others lie between them.
    fn lines(&self, points: &[(f64, f64)]) -> Vec<Line> {
        // Numbers near the limits of the format are left out too: so no difference or power of them overflows.
        const LIMIT: f64 = 1e150;
        let finite = |value: f64| value.abs() < LIMIT;
        let drawable = |&(x, y): &(f64, f64)| finite(x) && finite(y) && (!self.log_y || y > 1.0 / LIMIT);
        points
            .chunk_by(|a, b| drawable(a) && drawable(b))
            .filter(|line| drawable(&line[0]))
            .map(<[_]>::to_vec)
            .collect()
    }
}

/// Points that are joined.
type Line = Vec<(f64, f64)>;

#[cfg(test)]
mod tests;
