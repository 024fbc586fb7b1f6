//! How figures are written and drawn.

use plotters::style::RGBColor;

use crate::exhibit::Scale;
use crate::numbers::{grouped, ratio, short};
use crate::plot::axis::Axis;
use crate::plot::lines::dodges;
use crate::plot::style::{STYLES, label, of};

#[test]
fn three_digits_count() {
    let cases = [
        (0.0, "0"),
        (0.012_34, "0.0123"),
        (0.999_7, "1.00"),
        (4.555_1, "4.56"),
        (9.996, "10.0"),
        (99.96, "100"),
        (123.4, "123"),
        (12_345.0, "12,300"),
        (1_234_567.0, "1,230,000"),
        (f64::INFINITY, "∞"),
    ];
    for (value, text) in cases {
        assert_eq!(short(value), text);
    }
    for (value, text) in [(0.002_15, "1/465"), (0.05, "1/20"), (0.1, "0.100"), (51.0, "51.0"), (0.0, "0")] {
        assert_eq!(ratio(value), text);
    }
    assert_eq!(grouped(2_000_000.0), "2,000,000");
    assert_eq!(grouped(-1_000.0), "-1,000");
    assert_eq!(grouped(999.0), "999");
}

/// Returns how light the color looks, from 0 (black) to 100 (white): L* of CIELAB, which is what is left of
/// it in grey.
pub(crate) fn lightness(RGBColor(red, green, blue): RGBColor) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    let light = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    if light > 0.008_856 { 116.0 * light.cbrt() - 16.0 } else { 903.3 * light }
}

#[test]
fn in_one_figure_no_two_look_alike() {
    // The channels stand in for the libraries, never beside them.
    let libraries = &STYLES[..17];
    for (number, (a, _, first)) in libraries.iter().enumerate() {
        for (b, _, second) in &libraries[number + 1..] {
            let apart = lightness(first.color) - lightness(second.color);
            assert!(apart.abs() >= 1.5, "{a} and {b} are one in grey");
            assert_ne!((first.marker, first.dash), (second.marker, second.dash), "{a} and {b}");
        }
    }
    // Those that stand in most figures are further apart, and all are seen on white.
    let usual = ["mxn", "onetoone", "std", "parking_lot", "pthread", "may"];
    let mut light: Vec<_> = usual.iter().map(|name| lightness(of(name).color)).collect();
    light.push(lightness(of("tokio").color));
    assert!(light.is_sorted_by(|a, b| b - a >= 4.0), "{light:?}");
    assert!(STYLES.iter().all(|(.., style)| lightness(style.color) < 90.0));
    assert_eq!(label("onetoone"), "Selvedge 1:1");
    assert_eq!(label("no contender"), "no contender");
    assert_eq!(of("no contender"), STYLES[20].2);
}

#[test]
fn threads_at_the_same_place_are_told_apart() {
    let three: Vec<_> = dodges(3, 100).collect();
    assert_eq!(three, [-6, 0, 6]);
    assert_eq!(dodges(1, 100).collect::<Vec<_>>(), [0]);
    // Seven in 30 pixels: apart from each other, and from those of the next column.
    let many: Vec<_> = dodges(7, 30).collect();
    assert!(many.is_sorted_by(|a, b| b - a >= 3), "{many:?}");
    assert!(many[0] + 30 - many[6] >= 6, "{many:?}");
}

fn written(axis: &Axis) -> Vec<String> {
    axis.ticks().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn ticks_stand_at_round_numbers() {
    let linear = Axis::fitting(Scale::Linear, [3.0, 93.0].into_iter(), true, (0, 100));
    assert_eq!(written(&linear), ["0", "50", "100"]);
    let log = Axis::fitting(Scale::Log, [20.0, 30_000.0].into_iter(), true, (0, 100));
    assert_eq!(written(&log), ["100", "1,000", "10,000"]);
    let narrow = Axis::fitting(Scale::Log, [20.0, 70.0].into_iter(), true, (0, 100));
    assert_eq!(written(&narrow), ["20", "30", "50", "70"]);
}

#[test]
fn values_lie_between_the_ends() {
    let upwards = Axis::fitting(Scale::Log, [1.0, 100.0].into_iter(), true, (400, 40));
    assert!(upwards.place(1.0) < 400 && upwards.place(100.0) > 40);
    assert!(upwards.place(10.0) > upwards.place(20.0), "more is higher, and pixels count down");
    assert_eq!(upwards.place(0.0), 400);
    assert_eq!(upwards.place(1e9), 40);
    let nothing = Axis::fitting(Scale::Linear, std::iter::empty(), true, (0, 100));
    assert!(!nothing.ticks().is_empty());
    let all_zero = Axis::fitting(Scale::Linear, [0.0].into_iter(), true, (0, 100));
    assert_eq!(all_zero.place(0.0), 0);
}
