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
mod tests {
    use super::*;

    fn chart(points: &[&[(f64, f64)]], log_y: bool) -> Chart {
        let series = points.iter().enumerate();
        let series = series.map(|(i, points)| Series { name: format!("head {i}"), points: points.to_vec() }).collect();
        let labels = ("Loss".to_string(), "step".to_string(), "nats".to_string());
        Chart { title: labels.0, x_label: labels.1, y_label: labels.2, series, log_y }
    }

    #[test]
    fn every_series_has_a_line_and_a_name() {
        let svg = chart(&[&[(0.0, 2.0), (10.0, 1.0)], &[(0.0, 4.0), (10.0, 3.0)]], false).to_svg();
        assert_eq!(svg.matches("class=\"line\"").count(), 2);
        for text in ["head 0", "head 1", "Loss", "step", "nats"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_leaves_a_gap() {
        let gap = chart(&[&[(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 3.0), (4.0, f64::INFINITY)]], false);
        assert_eq!(gap.lines(&gap.series[0].points), [vec![(0.0, 1.0), (1.0, 2.0)], vec![(3.0, 3.0)]]);
        let svg = gap.to_svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let log = chart(&[&[(0.0, 0.0), (1.0, -2.0), (2.0, 3.0)]], true);
        assert_eq!(log.lines(&log.series[0].points), [vec![(2.0, 3.0)]]);
    }

    #[test]
    fn a_chart_without_points_says_so() {
        let none: [&[&[(f64, f64)]]; 3] = [&[], &[&[]], &[&[(f64::NAN, 1.0), (1.0, f64::NEG_INFINITY)]]];
        for points in none {
            for log_y in [false, true] {
                assert!(chart(points, log_y).to_svg().contains(">no data</text>"));
            }
        }
        assert!(!chart(&[&[], &[(1.0, 1.0)]], false).to_svg().contains("no data"));
    }

    #[test]
    fn extreme_numbers_are_drawn_inside_the_frame() {
        let ends = [-f64::MAX, -9e149, -1.0, 0.0, 1e-300, 2e-150, 1.0, 1.0 + f64::EPSILON, 9e149, f64::MAX];
        for (i, &a) in ends.iter().enumerate() {
            for &b in &ends[i..] {
                for log_y in [false, true] {
                    let svg = chart(&[&[(a, a), (b, b)]], log_y).to_svg();
                    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{a} {b}: {svg}");
                    for part in svg.split("cx=\"").skip(1) {
                        let x: f64 = part.split('"').next().unwrap().parse().unwrap();
                        assert!((0.0..=860.0).contains(&x), "{a} {b} {x}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_cannot_break_the_document() {
        let mut chart = chart(&[&[(0.0, 1.0)]], false);
        chart.title = "<script>\"&\u{0}\u{1b}'</script>".into();
        let svg = chart.to_svg();
        assert!(!svg.contains("<script") && !svg.contains('\u{0}') && !svg.contains('\u{1b}'), "{svg}");
    }

    #[test]
    fn the_file_is_the_document() {
        let dir = tempfile::tempdir().unwrap();
        let chart = chart(&[&[(0.0, 1.0)]], false);
        chart.write(&dir.path().join("a.svg")).unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("a.svg")).unwrap(), chart.to_svg());
        assert!(chart.write(&dir.path().join("none/a.svg")).unwrap_err().to_string().contains("a.svg"));
    }
}
