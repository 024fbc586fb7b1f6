//! Axes: where a value lies, and where ticks stand.

use crate::exhibit::Scale;
use crate::numbers::short;

/// A range of values on a range of pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// The pixels of `low` and `high`.
    ends: (i32, i32),
}

impl Axis {
    /// Fits all these values, with a little room. A linear axis begins at zero if `from_zero`.
    pub(crate) fn fitting(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        ends: (i32, i32),
    ) -> Self {
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(fits) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            Scale::Log => (low, high) = (low / 1.3, high * 1.3),
            Scale::Linear if from_zero => (low, high) = (0.0, if high > 0.0 { high * 1.08 } else { 1.0 }),
            Scale::Linear => {
                let room = if high > low { (high - low) * 0.05 } else { 1.0 };
                (low, high) = (low - room, high + room);
            }
        }
        Self { scale, low, high, ends }
    }

    /// Where the value lies; beyond the ends, at the end.
    pub(crate) fn place(&self, value: f64) -> i32 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= 0.0 => 0.0,
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        let (from, to) = self.ends;
        from + (part.clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    /// Where ticks stand, with what is written there.
    pub(crate) fn ticks(&self) -> Vec<(i32, String)> {
        let values = match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Log => self.log_ticks(),
        };
        values.into_iter().map(|value| (self.place(value), tidy(value))).collect()
    }

    /// Some five, at round numbers.
    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * decade).into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }

    /// At decades; where there are few, between them too.
    fn log_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |value: &f64| *value >= self.low && *value <= self.high;
        let at = |times: &'static [f64]| {
            let decades = (first..=last).map(|power| 10_f64.powi(power));
            decades.flat_map(|decade| times.iter().map(move |by| by * decade)).filter(within).collect()
        };
        let decades: Vec<f64> = at(&[1.0]);
        match decades.len() {
            0 | 1 => at(&[1.0, 2.0, 3.0, 5.0, 7.0]),
            2 => at(&[1.0, 2.0, 5.0]),
            _ => decades,
        }
    }
}

/// A tick's number without digits that say nothing.
fn tidy(value: f64) -> String {
    let text = short(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
