//! One thread: what it does, and what it did.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use selvedge::trace::State;

use crate::model::{Model, Moment, clean, index};
use crate::show::{bar, bold, dim, duration, look, or_dash, percent, rate, state_style, waits_for};

/// Returns what is known of the followed thread.
pub(crate) fn lines(model: &Model, width: usize) -> Vec<Line<'static>> {
    let Some(id) = model.followed else { return Vec::new() };
    let mut all = strip(model, width);
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
            "LWP {}  CPU {}  tid {}",
            or_dash(view.lwp.map(|it| it.to_string())),
            or_dash(view.cpu.map(|it| it.to_string())),
            or_dash(view.tid.map(|it| it.to_string())),
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

/// Returns the history: a letter for each refresh, of the state in which the thread spent the most of it.
fn strip(model: &Model, width: usize) -> Vec<Line<'static>> {
    let room = width.max(1);
    let from = model.history.len().saturating_sub(room);
    let spans = model.history.iter().skip(from).map(|moment| {
        let (letter, color) = look(most(moment));
        Span::styled(letter.to_string(), Style::new().fg(color))
    });
    vec![Line::styled("history, a letter for each refresh", dim()), Line::from(spans.collect::<Vec<_>>())]
}

fn most(moment: &Moment) -> State {
    let Some(shares) = moment.shares else { return moment.state };
    let most = State::ALL.into_iter().max_by(|&a, &b| shares[index(a)].total_cmp(&shares[index(b)]));
    most.unwrap_or(moment.state)
}
