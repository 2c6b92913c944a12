//! A chart and its lines.

/// A line chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The quantity on the horizontal axis, with its unit.
    pub x_label: String,
    /// The quantity on the vertical axis, with its unit.
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
    /// The points that can be drawn, split where others lie between them.
    pub(super) fn lines(&self, points: &[(f64, f64)]) -> Vec<Line> {
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
pub(super) type Line = Vec<(f64, f64)>;
