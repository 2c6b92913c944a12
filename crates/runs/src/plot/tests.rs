//! Tests of `plot`.

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
    assert_eq!(svg.matches("class=\"line ").count(), 2);
    for text in ["head 0", "head 1", "Loss", "step", "nats"] {
        assert!(svg.contains(&format!(">{text}</text>")), "{text}");
    }
}

/// Every colour has another one for a dark page, and the light ones stay for viewers without style sheets.
#[test]
fn a_dark_page_has_its_own_colours() {
    let svg = chart(&[&[(0.0, 2.0), (10.0, 1.0)]], false).to_svg();
    assert_eq!(svg.matches("prefers-color-scheme:dark").count(), 1, "{svg}");
    let classes: std::collections::BTreeSet<&str> =
        svg.split("class=\"").skip(1).flat_map(|rest| rest.split('"').next().unwrap().split(' ')).collect();
    for class in classes.into_iter().filter(|class| *class != "line") {
        assert!(svg.contains(&format!(".{class}{{")), "{class} has no dark colour");
    }
    assert!(svg.contains("fill=\"#ffffff\"") && svg.contains("stroke=\"#0072b2\""), "{svg}");
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
