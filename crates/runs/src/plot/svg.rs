//! Draws a chart.

use super::axis::Axis;
use super::chart::{Chart, Line};
use super::thin::thin;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
/// The frame of the lines.
const LEFT: f64 = 76.0;
const TOP: f64 = 48.0;
const BOTTOM_MARGIN: f64 = 60.0;
const RIGHT_MARGIN: f64 = 24.0;
/// The legend, to the right of the frame.
const LEGEND_ROW: f64 = 22.0;
const LEGEND_SAMPLE: f64 = 26.0;
/// An estimate: the font is the reader's.
const CHARACTER: f64 = 7.0;
/// Longer names are cut.
const LONGEST_NAME: usize = 32;
const LONGEST_LABEL: usize = 100;
/// A line of so few points shows them.
const MARKED_POINTS: usize = 24;

/// Colours that differ for all kinds of colour vision (Okabe and Ito, "Color Universal Design", 2008), without the
/// yellow, which is hard to see on white.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
/// Lines beyond the last colour start again, dashed.
const DASHES: [&str; 4] = ["", "7 4", "2 4", "9 4 2 4"];
/// Their counterparts on a dark page.
const DARK_COLOURS: [&str; 7] = ["#58a6e6", "#ff8c42", "#2ec4a0", "#e29dc4", "#f2b84b", "#9fdcff", "#f0f6fc"];
const INK: Ink = Ink { class: "ink", light: "#24292f", dark: "#e6edf3" };
const FAINT_INK: Ink = Ink { class: "faint", light: "#57606a", dark: "#9aa4af" };
const GRID: Ink = Ink { class: "grid", light: "#e4e7eb", dark: "#2d333b" };
const PAPER: Ink = Ink { class: "paper", light: "#ffffff", dark: "#0d1117" };
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";

/// A colour by the page: `light` stands in the elements, and the style sheet has `dark` for readers who prefer that.
#[derive(Clone, Copy)]
struct Ink {
    class: &'static str,
    light: &'static str,
    dark: &'static str,
}

/// The style sheet: nothing but the colours on a dark page.
fn style() -> String {
    let rule = |Ink { class, dark, .. }: Ink| format!(".{class}{{fill:{dark}}}.{class}-line{{stroke:{dark}}}");
    let inks: String = [INK, FAINT_INK, GRID, PAPER].map(rule).concat();
    let series = |(i, colour): (usize, &&str)| format!(".s{i}{{stroke:{colour}}}.s{i}-dot{{fill:{colour}}}");
    let series: String = DARK_COLOURS.iter().enumerate().map(series).collect();
    format!("<style>@media (prefers-color-scheme:dark){{{inks}{series}}}</style>")
}

/// Where things are.
struct Layout {
    right: f64,
    bottom: f64,
    height: f64,
}

/// The document. Without axes, there is nothing to show.
pub(super) fn draw(chart: &Chart, lines: &[Vec<Line>], axes: Option<&(Axis, Axis)>) -> String {
    let names = || chart.series.iter().map(|series| cut(&series.name, LONGEST_NAME));
    let longest = names().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let legend = if axes.is_none() || longest == 0.0 { 0.0 } else { LEGEND_SAMPLE + 24.0 + longest * CHARACTER };
    let rows = if legend > 0.0 { chart.series.len() as f64 } else { 0.0 };
    let height = HEIGHT.max(TOP + rows * LEGEND_ROW + BOTTOM_MARGIN);
    let layout = Layout { right: WIDTH - RIGHT_MARGIN - legend, bottom: height - BOTTOM_MARGIN, height };
    let mut svg = String::new();
    open(&mut svg, chart, &layout);
    match axes {
        Some((x, y)) => {
            draw_axes(&mut svg, &layout, x, y);
            for (i, lines) in lines.iter().enumerate() {
                draw_series(&mut svg, &layout, i, lines, x, y);
            }
        }
        None => {
            let (x, y) = ((LEFT + layout.right) / 2.0, (TOP + layout.bottom) / 2.0);
            text(&mut svg, x, y, 16.0, FAINT_INK, "text-anchor=\"middle\"", "no data");
        }
    }
    if legend > 0.0 {
        for (i, name) in names().enumerate() {
            draw_name(&mut svg, &layout, i, &name);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The background, the title and the axes' names.
fn open(svg: &mut String, chart: &Chart, layout: &Layout) {
    let Layout { right, bottom, height } = *layout;
    put(
        svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"{FONT}\">\n<title>{}</title>\n{}\n\
             <rect class=\"{}\" width=\"{WIDTH}\" height=\"{height}\" fill=\"{}\"/>\n",
            escape(&chart.title),
            style(),
            PAPER.class,
            PAPER.light
        ),
    );
    text(svg, LEFT, 28.0, 16.0, INK, "font-weight=\"600\"", &cut(&chart.title, LONGEST_LABEL));
    let (x, y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
    text(svg, x, bottom + 44.0, 13.0, FAINT_INK, "text-anchor=\"middle\"", &cut(&chart.x_label, LONGEST_LABEL));
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 20 {y})\"");
    text(svg, 20.0, y, 13.0, FAINT_INK, &turned, &cut(&chart.y_label, LONGEST_LABEL));
}

/// The grid, the labels and the frame's two lines.
fn draw_axes(svg: &mut String, layout: &Layout, x: &Axis, y: &Axis) {
    let Layout { right, bottom, .. } = *layout;
    let line = |svg: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, ink: Ink| {
        let Ink { class, light, .. } = ink;
        put(
            svg,
            format_args!("<path class=\"{class}-line\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{light}\"/>\n"),
        );
    };
    for tick in &y.ticks {
        let (_, at) = layout.place(0.0, y.position(tick.value));
        line(svg, LEFT, at, right, at, GRID);
        text(svg, LEFT - 8.0, at + 4.0, 12.0, FAINT_INK, "text-anchor=\"end\"", &tick.label);
    }
    for tick in &x.ticks {
        let (at, _) = layout.place(x.position(tick.value), 0.0);
        line(svg, at, TOP, at, bottom, GRID);
        text(svg, at, bottom + 20.0, 12.0, FAINT_INK, "text-anchor=\"middle\"", &tick.label);
    }
    line(svg, LEFT, TOP, LEFT, bottom, FAINT_INK);
    line(svg, LEFT, bottom, right, bottom, FAINT_INK);
}

/// A series: its lines, and its points if they are few or stand alone.
fn draw_series(svg: &mut String, layout: &Layout, i: usize, lines: &[Line], x: &Axis, y: &Axis) {
    let marked = lines.iter().map(Vec::len).sum::<usize>() <= MARKED_POINTS;
    let mut path = String::new();
    let mut dots = String::new();
    for line in lines {
        let places = line.iter().map(|point| layout.place(x.position(point.0), y.position(point.1))).collect();
        let places = thin(places);
        for (n, (x, y)) in places.iter().enumerate() {
            put(&mut path, format_args!("{}{x:.1} {y:.1}", if n == 0 { 'M' } else { 'L' }));
            if marked || places.len() == 1 {
                put(&mut dots, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"));
            }
        }
    }
    let n = i % COLOURS.len();
    put(svg, format_args!("<path class=\"line s{n}\" d=\"{path}\" {}/>\n", stroke(i)));
    if !dots.is_empty() {
        put(svg, format_args!("<g class=\"s{n}-dot\" fill=\"{}\">{dots}</g>\n", COLOURS[n]));
    }
}

/// A row of the legend.
fn draw_name(svg: &mut String, layout: &Layout, i: usize, name: &str) {
    let (x, y) = (layout.right + 18.0, TOP + 8.0 + i as f64 * LEGEND_ROW);
    let n = i % COLOURS.len();
    put(svg, format_args!("<path class=\"s{n}\" d=\"M{x:.1} {y:.1}h{LEGEND_SAMPLE}\" {}/>\n", stroke(i)));
    text(svg, x + LEGEND_SAMPLE + 8.0, y + 4.0, 13.0, INK, "", name);
}

fn stroke(i: usize) -> String {
    let colour = COLOURS[i % COLOURS.len()];
    let dash = match DASHES[i / COLOURS.len() % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{dash}")
}

impl Layout {
    /// The point in the picture for positions from 0 to 1.
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (LEFT + x * (self.right - LEFT), self.bottom - y * (self.bottom - TOP))
    }
}

fn text(svg: &mut String, x: f64, y: f64, size: f64, Ink { class, light, .. }: Ink, attributes: &str, content: &str) {
    let content = escape(content);
    put(
        svg,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{light}\" {attributes}>\
             {content}</text>\n"
        ),
    );
}

fn put(svg: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = svg.write_fmt(content);
}

fn cut(name: &str, longest: usize) -> String {
    if name.chars().count() <= longest {
        return name.into();
    }
    name.chars().take(longest - 1).chain(['…']).collect()
}

/// XML has no notation at all for most control characters.
fn escape(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for c in content.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
