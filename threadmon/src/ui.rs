//! The screen: a pure function of the model and of what the keys have chosen.

pub(crate) mod cpus;
pub(crate) mod follow;
mod keys;
pub(crate) mod locks;
pub(crate) mod lwps;
pub(crate) mod mapping;
#[cfg(test)]
mod tests;
pub(crate) mod threads;

pub(crate) use self::keys::Request;

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use selvedge::threadmon::RuntimeView;
use selvedge::trace::State;

use crate::model::Model;
use crate::show::{bold, dim, latency as time, level, look, percent, rate, state_style};
use crate::table::{Key, Kind, Sort};
use crate::warnings::warnings;

/// The views, by the keys that choose them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Threads,
    Lwps,
    Cpus,
    Mapping,
    Locks,
}

impl View {
    pub(crate) const ALL: [Self; 5] = [Self::Threads, Self::Lwps, Self::Cpus, Self::Mapping, Self::Locks];

    fn title(self) -> &'static str {
        ["threads", "LWPs", "CPUs", "mapping", "locks"][self as usize]
    }

    /// Returns what the view shows, if that is a table.
    fn kind(self) -> Option<&'static Kind> {
        match self {
            Self::Threads => Some(&threads::KIND),
            Self::Lwps => Some(&lwps::KIND),
            Self::Cpus => Some(&cpus::KIND),
            Self::Locks => Some(&locks::KIND),
            Self::Mapping => None,
        }
    }
}

/// A thread was seen long ago if it was so long ago.
const OLD: Duration = Duration::from_secs(1);

const KEYS: &str = "\
1-5, Tab    threads, LWPs, CPUs, mapping, locks
j k, arrows select, or scroll; g G: the first, the last
Enter, f    follow the selected thread; again: back
+ -         show less or more of its history
s r         sort by the next column; reverse
/           show only names, ids and states with this text
            (Enter ends the text, Esc takes it away)
p           pause
l           count nothing, times, or times and events
q           quit";

/// All that the screen depends on.
pub(crate) struct App {
    pub(crate) model: Model,
    pub(crate) view: View,
    sorts: [Sort; 5],
    selected: [Option<Key>; 5],
    /// The first line that is shown, where lines are shown.
    scroll: usize,
    /// How much of its history the view of one thread shows, as a power of two.
    zoom: u32,
    filter: String,
    editing: bool,
    pub(crate) paused: bool,
    help: bool,
    /// The rows of the view, in order.
    rows: Vec<Key>,
}

impl App {
    pub(crate) fn new() -> Self {
        Self {
            model: Model::default(),
            view: View::Threads,
            sorts: Default::default(),
            selected: Default::default(),
            scroll: 0,
            zoom: follow::USUAL,
            filter: String::new(),
            editing: false,
            paused: false,
            help: false,
            rows: Vec::new(),
        }
    }

    /// Finds the rows again, after the model or what is chosen has changed.
    pub(crate) fn refresh(&mut self) {
        let sort = self.sorts[self.view as usize];
        self.rows = self.view.kind().map_or(Vec::new(), |kind| kind.rows(&self.model, sort, &self.filter));
        let selected = &mut self.selected[self.view as usize];
        if selected.is_none_or(|it| !self.rows.contains(&it)) {
            *selected = self.rows.first().copied();
        }
    }

    fn position(&self) -> usize {
        let selected = self.selected[self.view as usize];
        self.rows.iter().position(|&it| Some(it) == selected).unwrap_or(0)
    }

    /// Draws everything.
    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        if area.width < 20 || area.height < 5 {
            draw_lines(vec![Line::from("too small:"), Line::from("20x5 needed")], 0, area, buffer);
            return;
        }
        let head = self.head(area);
        let foot = u16::from(area.height >= 8);
        let room = area.height - head.len() as u16 - foot;
        let body = Rect::new(area.x, area.y + head.len() as u16, area.width, room);
        draw_lines(head, 0, area, buffer);
        if self.help {
            draw_lines(help(), self.scroll, body, buffer);
        } else if self.model.followed.is_some() {
            let lines = follow::lines(&self.model, self.zoom, usize::from(body.width));
            draw_lines(lines, self.scroll, body, buffer);
        } else if let Some(kind) = self.view.kind() {
            let sort = self.sorts[self.view as usize];
            kind.draw(&self.model, &self.rows, self.position(), sort, body, buffer);
            if self.rows.is_empty() && body.height > 1 {
                let line = Rect::new(body.x, body.y + 1, body.width, 1);
                draw_lines(vec![Line::styled(self.nothing(), dim())], 0, line, buffer);
            }
        } else {
            draw_lines(mapping::lines(&self.model, usize::from(body.width)), self.scroll, body, buffer);
        }
        if foot == 1 {
            let line = Rect::new(area.x, area.bottom() - 1, area.width, 1);
            draw_lines(vec![self.foot()], 0, line, buffer);
        }
    }

    /// Returns why there are no rows.
    fn nothing(&self) -> &'static str {
        match self.view {
            _ if !self.filter.is_empty() => "nothing fits the filter",
            View::Locks => "no thread has found a lock taken since this is counted",
            _ => "nothing yet",
        }
    }

    /// Returns the lines above the view: as many as there is room for.
    fn head(&self, area: Rect) -> Vec<Line<'static>> {
        let mut all = vec![program(&self.model)];
        if area.height >= 10 {
            all.push(states(&self.model));
        }
        all.extend(queues(&self.model).into_iter().take(usize::from(area.height / 12).min(4)));
        let room = usize::from((area.height / 8).clamp(1, 4));
        let found = warnings(&self.model);
        let style = Style::new().fg(Color::LightRed).add_modifier(Modifier::BOLD);
        all.extend(found.iter().take(room).map(|it| Line::styled(format!("! {it}"), style)));
        if found.is_empty() && area.height >= 16 {
            all.push(Line::styled("no warnings", dim()));
        }
        if area.height >= 6 {
            all.push(self.tabs());
        }
        all
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (number, view) in View::ALL.into_iter().enumerate() {
            let chosen = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
            let style = if view == self.view { chosen } else { Style::new() };
            let title = if view == self.view { format!("[{}]", view.title()) } else { view.title().into() };
            spans.push(Span::styled(format!("{} {title}", number + 1), style));
            spans.push(Span::raw("  "));
        }
        if self.editing {
            spans.push(Span::styled(format!("/{}_", self.filter), bold()));
        } else if !self.filter.is_empty() {
            spans.push(Span::styled(format!("filter: {} ({})", self.filter, self.rows.len()), bold()));
        }
        if self.paused {
            spans.push(Span::styled("  PAUSED", bold().fg(Color::Yellow)));
        }
        Line::from(spans)
    }

    fn foot(&self) -> Line<'static> {
        if self.editing {
            return Line::styled(
                "type a part of a name, an id or a state; Enter: done; Esc: all again",
                dim(),
            );
        }
        let sort = self.sorts[self.view as usize];
        let by = self.view.kind().map(|it| it.columns[sort.column].title).filter(|it| !it.is_empty());
        let by = by.map(|it| format!("s sort ({it})  r reverse  ")).unwrap_or_default();
        Line::styled(format!("q quit  ? help  Tab view  {by}/ filter  f follow  p pause  l level"), dim())
    }
}

/// Returns what the program is.
pub(crate) fn program(model: &Model) -> Line<'static> {
    let Some(overview) = &model.overview else {
        return Line::styled(model.trouble.clone().unwrap_or_else(|| "asks the program ...".into()), bold());
    };
    let mut text = String::new();
    for runtime in &overview.runtimes {
        let most = runtime.max_lwps.map(|max| format!("/{max}")).unwrap_or_default();
        let (at_once, lwps) = (runtime.concurrency, runtime.lwps.len());
        text += &match runtime.model.as_str() {
            "mxn" => format!(" mxn: {at_once} at once, {lwps}{most} LWPs;"),
            model => format!(" {model}: {at_once} at once, a kernel thread each;"),
        };
    }
    let (user, system) = model.used;
    Line::from(vec![
        Span::styled(format!("{} {}", crate::model::clean(&overview.program), overview.pid), bold()),
        Span::raw(text),
        Span::raw(format!(" user {} sys {};", percent(user), percent(system))),
        Span::styled(format!(" level {}, cost {}", level(overview.level), percent(model.monitor)), dim()),
    ])
}

/// Returns how many threads are in each state.
pub(crate) fn states(model: &Model) -> Line<'static> {
    let (counts, total) = (model.counts(), model.total());
    let known: usize = counts.iter().sum();
    let noun = if total == 1 { "thread" } else { "threads" };
    let mut spans = vec![Span::styled(format!("{total} {noun}:"), bold())];
    for (state, count) in State::ALL.into_iter().zip(counts).filter(|&(_, count)| count > 0) {
        let comma = if spans.len() > 1 { ", " } else { " " };
        spans.push(Span::raw(comma));
        spans.push(Span::styled(format!("{count} {state}"), state_style(state)));
    }
    let notes = [(known < total).then(|| format!("{known} seen so far")), old_rows(model)];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    if !notes.is_empty() {
        spans.push(Span::styled(format!(" ({})", notes.join(", ")), dim()));
    }
    Line::from(spans)
}

/// Returns how many threads were seen long ago, and when the first of them was; `None` if none was.
fn old_rows(model: &Model) -> Option<String> {
    let now = model.overview.as_ref()?.at;
    let ages = model.threads.values().map(|row| now.saturating_sub(row.seen));
    let (old, oldest) = ages.filter(|&age| age > OLD).fold((0, OLD), |(n, most), age| (n + 1, most.max(age)));
    (old > 0).then(|| format!("{old} over 1 s ago, up to {}", time(oldest)))
}

/// Returns a line for each runtime. It has how many threads wait in run queues, how long threads waited
/// there, and how often slots moved and slices ended. It fits into 100 columns.
pub(crate) fn queues(model: &Model) -> Vec<Line<'static>> {
    let line = |runtime: &RuntimeView| {
        let latency = model.latency(runtime.number);
        if runtime.run_queue.is_none() && latency.is_none() {
            return None;
        }
        let many = |number: u64| rate(number as f64);
        let waits = latency.map_or("waits are not counted".into(), |it| {
            match (it.quantile(0.5), it.quantile(0.99)) {
                (Some(half), Some(most)) => format!("waits: 50% <= {}, 99% <= {}", time(half), time(most)),
                _ => "no waits".into(),
            }
        });
        let moved = many(runtime.compensated.saturating_add(runtime.handed_off));
        let text = match runtime.run_queue {
            Some(length) => format!(
                "{} in run queues; {waits}; {moved} slots moved, {} preemptions",
                many(length.total() as u64),
                many(runtime.preempted)
            ),
            None => format!("{waits} for a CPU"),
        };
        Some(Line::from(vec![
            Span::styled(format!("{} {}: ", runtime.model, runtime.number), bold()),
            Span::raw(text),
        ]))
    };
    model.runtimes().iter().filter_map(line).collect()
}

fn help() -> Vec<Line<'static>> {
    let mut all: Vec<Line<'static>> = KEYS.lines().map(Line::from).collect();
    all.push(Line::default());
    for state in State::ALL {
        let meaning = match state {
            State::Running => "on an LWP, which is on a CPU or waits for one",
            State::Dispatchable => "could run, and an LWP was chosen for it",
            State::Runnable => "could run, and no LWP was chosen",
            State::Blocked => "waits for what another thread does",
            State::Sleeping => "waits for a time to pass",
            _ => "on an LWP, and has announced that it may block in the kernel",
        };
        let name = format!("{} {state:<12} ", look(state).0);
        all.push(Line::from(vec![Span::styled(name, state_style(state)), Span::raw(meaning)]));
    }
    all.push(Line::default());
    for line in [
        "a refresh lists up to 4096 threads that have changed, and as few as take the program 8% of a CPU;",
        "if more have changed, their rows are old: the line with the states says how many are over 1 s",
    ] {
        all.push(Line::from(line));
    }
    all.push(Line::from(
        "own instead of an LWP's number: a kernel thread of one thread's own (1:1, or bound)",
    ));
    all.push(Line::from(
        "stopped, a state of Cantrill's monitor, is missing: no thread can stop another here",
    ));
    all
}

/// Draws lines from the one at `first` on, cut at the edges.
fn draw_lines(lines: Vec<Line<'static>>, first: usize, area: Rect, buffer: &mut Buffer) {
    let first = first.min(lines.len().saturating_sub(usize::from(area.height).max(1)));
    for (y, line) in (area.top()..area.bottom()).zip(&lines[first.min(lines.len())..]) {
        buffer.set_line(area.x, y, line, area.width);
    }
}
