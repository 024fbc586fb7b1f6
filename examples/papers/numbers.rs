//! How numbers are written for people.

/// Three digits that count, in groups: `0.0123`, `4.56`, `12,300`.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "∞".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    // Rounding may give a digit more: 9.996 is 10.0.
    let unit = 10_f64.powi(magnitude - 2);
    let rounded = (value / unit).round() * unit;
    if rounded.abs() >= 100.0 {
        return grouped(rounded);
    }
    let decimals = (2 - rounded.abs().log10().floor() as i32).max(0) as usize;
    format!("{rounded:.decimals$}")
}

/// A ratio: as a fraction if it is small, since few readers know at once how much 0.00215 is.
pub(crate) fn ratio(value: f64) -> String {
    match value > 0.0 && value < 0.1 {
        true => format!("1/{}", grouped(1.0 / value)),
        false => short(value),
    }
}

/// A whole number with its thousands apart.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (number, digit) in digits.chars().enumerate() {
        if number > 0 && (digits.len() - number) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}
