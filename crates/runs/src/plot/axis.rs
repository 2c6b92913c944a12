//! Which range an axis has, and which values it labels.

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The labelled values, in order.
    pub(super) ticks: Vec<Tick>,
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// The value.
    pub(super) value: f64,
    /// How it is written.
    pub(super) label: String,
}

/// Space around the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// None.
    Tight,
    /// A little; and 0 is on the axis if the values are not far from it.
    Wide,
}

/// At most about this many values are labelled.
const TICKS: f64 = 8.0;

impl Axis {
    /// A linear axis for finite values.
    pub(super) fn linear(values: impl Iterator<Item = f64> + Clone, padding: Padding) -> Self {
        let whole = values.clone().all(|value| value.fract() == 0.0);
        let (mut low, mut high) = range(values);
        // A single value gets some room on both sides, and so do values that the format hardly tells apart.
        let least = low.abs().max(high.abs()) * 1e-9;
        if high - low <= least {
            let half = if low == 0.0 || (whole && low.abs() < 10.0) { 1.0 } else { low.abs() * 0.05 };
            (low, high) = (low - half, high + half);
        }
        if padding == Padding::Wide {
            let gap = (high - low) * 0.05;
            let positive = low >= 0.0;
            low = if positive && low < 0.4 * high { 0.0 } else { low - gap };
            high += gap;
        }
        let mut step = nice_step((high - low) / TICKS);
        if whole {
            step = step.max(1.0);
        }
        Self { low, high, logarithmic: false, ticks: multiples(low, high, step) }
    }

    /// A logarithmic axis for finite values above 0.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = range(values);
        let room = ((high.log10() - low.log10()) * 0.05).max(0.02);
        let (low, high) = (10f64.powf(low.log10() - room), 10f64.powf(high.log10() + room));
        let decades = high.log10() - low.log10();
        let mantissas: &[u32] = if decades > 3.0 { &[1] } else { &[1, 2, 5] };
        let every = (decades / TICKS).ceil().max(1.0) as i32;
        let mut ticks = vec![];
        for exponent in low.log10().floor() as i32..=high.log10().ceil() as i32 {
            if decades > 3.0 && exponent.rem_euclid(every) != 0 {
                continue;
            }
            for mantissa in mantissas {
                // Through text: 10^k as a product of factors would not be the nearest number.
                let value = format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN);
                if (low..=high).contains(&value) {
                    ticks.push(Tick { value, label: power_label(value, *mantissa, exponent) });
                }
            }
        }
        if ticks.len() < 3 {
            ticks = multiples(low, high, nice_step((high - low) / TICKS));
        }
        Self { low, high, logarithmic: true, ticks }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.logarithmic { value.log10() } else { value };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// 1, 2 or 5 times a power of ten, and at least `step`.
fn nice_step(step: f64) -> f64 {
    let exponent = step.log10().floor() as i32;
    let candidates = [1, 2, 5, 10].map(|mantissa| format!("{mantissa}e{exponent}").parse().unwrap_or(step));
    candidates.into_iter().find(|candidate| *candidate >= step * (1.0 - 1e-9)).unwrap_or(step)
}

/// The multiples of `step` from `low` to `high`.
fn multiples(low: f64, high: f64, step: f64) -> Vec<Tick> {
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    let numbers = (0..100).map(|i| first + f64::from(i)).take_while(|n| *n <= last);
    let largest = low.abs().max(high.abs());
    numbers.map(|n| Tick { value: n * step, label: label(n * step, step, largest) }).collect()
}

/// Writes a multiple of `step` on an axis that reaches to `largest`: with as many digits as its neighbours need.
fn label(value: f64, step: f64, largest: f64) -> String {
    let (unit, suffix) = match largest {
        _ if value.abs() < step / 2.0 => return "0".into(),
        1e-3..1e4 => (1.0, ""),
        1e4..1e7 => (1e3, "k"),
        1e7..1e10 => (1e6, "M"),
        _ => {
            let digits = (value.abs().log10().floor() - step.log10().floor()).clamp(0.0, 15.0) as usize;
            return format!("{value:.digits$e}").replace('-', "−");
        }
    };
    let digits = (-((step / unit).log10() + 1e-9).floor()).clamp(0.0, 15.0) as usize;
    format!("{:.digits$}{suffix}", value / unit).replace('-', "−")
}

/// Writes `mantissa` times ten to the `exponent`.
fn power_label(value: f64, mantissa: u32, exponent: i32) -> String {
    match exponent {
        -3..=3 => format!("{value}"),
        _ => format!("{mantissa}e{exponent}").replace('-', "−"),
    }
}

#[cfg(test)]
mod tests;
