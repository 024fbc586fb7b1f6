//! How numbers, times and states are written.

use std::time::Duration;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use selvedge::thread::WaitReason;
use selvedge::threadmon::ThreadView;
use selvedge::trace::{Level, State};

use crate::model::{Shares, clean};

/// Returns a time in at most six letters or so.
pub(crate) fn duration(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..1000 => format!("{us} us"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..100_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => format!("{} s", us / 1_000_000),
    }
}

/// Returns the same for a time that may be much less than a microsecond.
pub(crate) fn latency(time: Duration) -> String {
    match time.as_nanos() {
        ns @ 0..1_000 => format!("{ns} ns"),
        ns @ 1_000..10_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => duration(time),
    }
}

/// Returns a number in at most five letters or so.
pub(crate) fn rate(number: f64) -> String {
    match number {
        _ if number < 10_000.0 => format!("{number:.0}"),
        _ if number < 1e6 => format!("{:.0}k", number / 1e3),
        _ if number < 1e9 => format!("{:.1}M", number / 1e6),
        _ => format!("{number:.0e}"),
    }
}

pub(crate) fn percent(share: f64) -> String {
    // Of -0.0, which an empty sum is, it makes 0.0.
    format!("{:.0}%", share * 100.0 + 0.0)
}

/// Returns the text, or a line for what is not known.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Off => "off",
        Level::Times => "times",
        Level::Events => "events",
        _ => "?",
    }
}

/// Returns `true` if one thread at a time, or one kind of them, has what is waited for.
pub(crate) fn is_lock(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Mutex | WaitReason::RwLock)
}

/// Returns what a thread waits for: the kind, and the name or the address.
pub(crate) fn object(view: &ThreadView) -> String {
    view.reason.map(|why| wait(why, view.object.as_deref(), view.at)).unwrap_or_default()
}

/// Returns a wait in words: its kind, and the name or the address of its object.
pub(crate) fn wait(why: WaitReason, name: Option<&str>, at: Option<u64>) -> String {
    let kind = why.as_str();
    match (name.filter(|it| !it.is_empty()), at) {
        (Some(name), _) => format!("{kind} {}", clean(name)),
        (None, Some(at)) if !matches!(why, WaitReason::Park | WaitReason::Sleep | WaitReason::Join) => {
            format!("{kind} {at:#x}")
        }
        _ => kind.to_owned(),
    }
}

/// Returns the same, with the thread that has it.
pub(crate) fn waits_for(view: &ThreadView) -> String {
    let object = object(view);
    match &view.owner {
        Some((id, None)) if !object.is_empty() => format!("{object} < #{id}"),
        Some((_, Some(name))) if !object.is_empty() => format!("{object} < {}", clean(name)),
        _ => object,
    }
}

/// Returns the letter and the colour of a state.
pub(crate) fn look(state: State) -> (char, Color) {
    match state {
        State::Running => ('█', Color::Green),
        State::Dispatchable => ('▓', Color::LightYellow),
        State::Runnable => ('▒', Color::Yellow),
        State::Blocked => ('░', Color::Red),
        State::Sleeping => ('·', Color::Blue),
        State::InKernel => ('K', Color::Magenta),
        _ => ('?', Color::Reset),
    }
}

pub(crate) fn state_style(state: State) -> Style {
    Style::new().fg(look(state).1)
}

pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(crate) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the shares as a bar of this width.
pub(crate) fn bar(shares: Option<Shares>, width: usize) -> Line<'static> {
    let Some(shares) = shares else { return Line::from("-") };
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for (state, share) in State::ALL.into_iter().zip(shares) {
        sum += share;
        let until = (sum * width as f64).round().clamp(0.0, width as f64) as usize;
        if until > drawn {
            let (letter, color) = look(state);
            let text: String = std::iter::repeat_n(letter, until - drawn).collect();
            spans.push(Span::styled(text, Style::new().fg(color)));
            drawn = until;
        }
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_short() {
        for (ns, text) in [
            (999, "0 us"),
            (85_000, "85 us"),
            (1_500_000, "1.5 ms"),
            (412_900_000, "412 ms"),
            (3_210_000_000, "3.2 s"),
            (123_000_000_000, "123 s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(ns)), text);
        }
        let latencies = [7, 512, 1 << 10, 1 << 14].map(|ns| latency(Duration::from_nanos(ns)));
        assert_eq!(latencies, ["7 ns", "512 ns", "1.0 us", "16 us"]);
        let rates = [0.0, 9999.0, 12_345.0, 2_500_000.0].map(rate);
        assert_eq!(rates, ["0", "9999", "12k", "2.5M"]);
    }

    #[test]
    fn a_bar_has_a_letter_for_each_state() {
        assert_eq!(bar(Some([0.5, 0.0, 0.25, 0.25, 0.0, 0.0]), 8).to_string(), "████▒▒░░");
        assert_eq!(bar(Some([0.0, 0.0, 0.0, 0.0, 1.0, 0.0]), 3).to_string(), "···");
        assert_eq!(bar(None, 3).to_string(), "-");
        assert_eq!(bar(Some([0.5; 6]), 4).to_string().chars().count(), 4);
    }
}
