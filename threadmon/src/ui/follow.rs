//! One thread: what it does, and what it did.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use selvedge::thread::ThreadId;
use selvedge::trace::{self, EventKind, Level, State, Track};

use crate::model::{Model, Moment, clean, index};
use crate::show::{bar, bold, dim, duration, look, or_dash, percent, rate, state_style, wait, waits_for};

/// The time that the strip shows, as a power of two of milliseconds: at first, and at most.
pub(crate) const USUAL: u32 = 10;
pub(crate) const WIDEST: u32 = 16;

/// How many changes are listed.
const LISTED: usize = 8;

/// Returns what is known of the followed thread.
pub(crate) fn lines(model: &Model, zoom: u32, width: usize) -> Vec<Line<'static>> {
    let Some(id) = model.followed else { return Vec::new() };
    let mut all = strip(model, zoom, width);
    let Some(row) = model.threads.get(&id) else {
        all.insert(0, Line::styled(format!("thread {id} has ended"), bold()));
        return all;
    };
    let view = &row.view;
    let name = view.name.as_deref().map(clean).unwrap_or_default();
    let kind = if view.bound { ", bound" } else { "" };
    let mut head = vec![
        Line::styled(format!("thread {id} {name} (priority {}{kind})", view.priority), bold()),
        Line::from(vec![
            Span::styled(view.state.to_string(), state_style(view.state)),
            Span::raw(format!(" {}", waits_for(view))),
        ]),
        Line::from(format!(
            "LWP {}  CPU {}  tid {}  stack {}  started by {}",
            or_dash(view.lwp.map(|it| it.to_string())),
            or_dash(row.cpu().map(|it| it.to_string())),
            or_dash(view.tid.map(|it| it.to_string())),
            or_dash(view.stack.map(|(used, size)| format!(
                "{} of {} KiB",
                used.div_ceil(1 << 10),
                size >> 10
            ))),
            or_dash(view.maker.map(|id| model.name(id))),
        )),
    ];
    head.append(&mut all);
    if let Some(times) = &view.times {
        head.push(Line::from(format!(
            "in this state for {}; dispatched {} times ({}/s), preempted {}, migrated {}",
            duration(times.since),
            times.dispatches,
            or_dash(row.dispatches.map(rate)),
            times.preempted,
            times.migrations
        )));
        let life = times.life.max(Duration::from_nanos(1)).as_secs_f64();
        for state in State::ALL {
            let spent = times.states[index(state)];
            let share = spent.as_secs_f64() / life;
            let now = row.shares.map(|it| it[index(state)]);
            head.push(Line::from(vec![
                Span::styled(format!("{} {state:<12} ", look(state).0), state_style(state)),
                Span::raw(format!(
                    "{:>8} {:>4} of its life, {:>4} now",
                    duration(spent),
                    percent(share),
                    or_dash(now.map(percent))
                )),
            ]));
        }
        let mut now = vec![Span::raw("now ")];
        now.extend(bar(row.shares, width.saturating_sub(4).min(60)).spans);
        head.push(Line::from(now));
    } else {
        head.push(Line::styled("its times are not counted: press l", dim()));
    }
    head
}

/// Returns the history: all changes if events are recorded, otherwise what each refresh has seen.
fn strip(model: &Model, zoom: u32, width: usize) -> Vec<Line<'static>> {
    let how = match model.level() {
        Level::Events if model.history.at.is_some() => return exact(model, zoom, width),
        Level::Events => "",
        Level::Times => "; l records all changes",
        _ => "; l, twice, records all changes",
    };
    let from = model.refreshes.len().saturating_sub(width.max(1));
    let spans = model.refreshes.iter().skip(from).map(|moment| letter(most(moment)));
    vec![
        Line::styled(format!("history, a letter for each refresh{how}"), dim()),
        Line::from(spans.collect::<Vec<_>>()),
    ]
}

fn letter(state: State) -> Span<'static> {
    let (letter, color) = look(state);
    Span::styled(letter.to_string(), Style::new().fg(color))
}

/// Returns the history to scale, and the last changes in words.
fn exact(model: &Model, zoom: u32, width: usize) -> Vec<Line<'static>> {
    let count = width.clamp(1, 200);
    let window = Duration::from_millis(1) * (1 << zoom);
    let length = window / count as u32;
    let row = model.followed.and_then(|id| model.threads.get(&id));
    let since = row.and_then(|row| Some((row.view.state, row.view.times.as_ref()?.since)));
    let cells = model.history.cells(count, length, since);
    let letters = cells.iter().map(|cell| cell.state.map_or(Span::raw(" "), letter));
    let marks: String = cells.iter().map(|cell| if cell.restless { '^' } else { ' ' }).collect();
    let title = format!(
        "the last {}, {} a letter; ^ several changes; + - less, more",
        duration(window),
        duration(length)
    );
    let mut all = vec![
        Line::styled(title, dim()),
        Line::from(letters.collect::<Vec<_>>()),
        Line::styled(marks.trim_end().to_owned(), dim()),
    ];
    all.extend(changes(model));
    all
}

/// Returns the last changes, the latest first: how long ago, which state, for how long, where and why.
fn changes(model: &Model) -> Vec<Line<'static>> {
    let (spans, at) = (model.history.spans(), model.history.at.unwrap_or_default());
    let mut all = Vec::new();
    for number in (spans.len().saturating_sub(LISTED)..spans.len()).rev() {
        let span = &spans[number];
        let before = number.checked_sub(1).map_or(Duration::ZERO, |it| spans[it].from);
        let lwp = match span.track {
            Some(Track::Lwp { lwp, .. }) => lwp.to_string(),
            _ => "-".into(),
        };
        all.push(Line::from(vec![
            Span::raw(format!("{:>8} ago  ", duration(at.saturating_sub(span.from)))),
            Span::styled(format!("{:<12} ", span.state), state_style(span.state)),
            Span::raw(format!("{:>8}  LWP {lwp:<3} {}", duration(span.length()), why(model, before, span))),
        ]));
    }
    all
}

/// Returns why a thread is in a state: what it waits for, or what made it runnable.
fn why(model: &Model, before: Duration, span: &trace::Span) -> String {
    if let Some((reason, at)) = span.wait {
        let name = at.and_then(|at| model.history.object(at));
        return wait(reason, name.as_deref(), at.map(|at| at as u64));
    }
    let by = |by: Option<ThreadId>| {
        by.map_or_else(|| "a timer or from outside".into(), |id| model.name(id.as_u64().get()))
    };
    match span.state {
        State::Dispatchable | State::Runnable => match model.history.cause(before, span) {
            Some(EventKind::Ready { by: waker, .. }) => format!("woken by {}", by(waker)),
            Some(EventKind::Spawn { by: starter, .. }) => format!("started by {}", by(starter)),
            Some(EventKind::Preempt) => "its time slice was over".into(),
            Some(EventKind::Yield) => "it yielded".into(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

fn most(moment: &Moment) -> State {
    let Some(shares) = moment.shares else { return moment.state };
    let most = State::ALL.into_iter().max_by(|&a, &b| shares[index(a)].total_cmp(&shares[index(b)]));
    most.unwrap_or(moment.state)
}
