//! Threads that a drawing has no lines for, in groups: how many of each group are in each state.
//!
//! **Problem.** A viewer hangs with very many lines, and a program may have a million threads.
//!
//! **Solution.** The threads whose names differ only in their last number are a group, as `worker-*`. Threads
//! without a name are a group with the others of the thread that started them. If there are too many groups,
//! the smallest ones are one.

use std::collections::HashMap;

use super::drawing::{Chart, Heading, count};
use super::event::EventKind;
use super::recording::Recording;
use super::timeline::{State, ThreadLine};
use crate::thread::id::ThreadId;

/// The most groups.
const MOST_GROUPS: usize = 100;

/// Returns how many of these threads are in each state, by groups.
pub(super) fn of(recording: &Recording, threads: &[&ThreadLine]) -> Vec<Chart> {
    if threads.is_empty() {
        return Vec::new();
    }
    let makers = makers(recording);
    let mut by_name: HashMap<String, Vec<&ThreadLine>> = HashMap::new();
    for &line in threads {
        by_name.entry(group(recording, &makers, line.id)).or_default().push(line);
    }
    let mut groups: Vec<_> = by_name.into_iter().collect();
    groups.sort_by(|(one, these), (other, those)| those.len().cmp(&these.len()).then_with(|| one.cmp(other)));
    if groups.len() > MOST_GROUPS {
        let others = groups.split_off(MOST_GROUPS - 1);
        let name = format!("{} other names", others.len());
        groups.push((name, others.into_iter().flat_map(|(_, threads)| threads).collect()));
    }
    groups.into_iter().map(|(name, threads)| chart(&name, &threads)).collect()
}

/// Returns the threads that started others.
fn makers(recording: &Recording) -> HashMap<ThreadId, ThreadId> {
    let spawns = recording.events().iter().filter_map(|event| match (event.kind, event.thread) {
        (EventKind::Spawn { by: Some(by), .. }, Some(thread)) => Some((thread, by)),
        _ => None,
    });
    spawns.collect()
}

/// Returns the name of the group of a thread.
fn group(recording: &Recording, makers: &HashMap<ThreadId, ThreadId>, thread: ThreadId) -> String {
    if let Some(name) = recording.name(thread) {
        return without_number(name);
    }
    let Some(&maker) = makers.get(&thread) else { return "without a name".into() };
    match recording.name(maker) {
        Some(name) => format!("without a name, started by {}", without_number(name)),
        None => format!("without a name, started by thread {}", maker.as_u64()),
    }
}

/// Returns a name with `*` in the place of its last number.
fn without_number(name: &str) -> String {
    let Some(last) = name.rfind(|it: char| it.is_ascii_digit()) else { return name.to_owned() };
    let before = name[..last].trim_end_matches(|it: char| it.is_ascii_digit());
    format!("{before}*{}", &name[last + 1..])
}

fn chart(name: &str, threads: &[&ThreadLine]) -> Chart {
    let curves = State::ALL.iter().filter_map(|&state| {
        let spans = threads.iter().flat_map(|line| line.spans.iter().filter(move |it| it.state == state));
        let curve = count(spans);
        (!curve.is_empty()).then(|| (state.name(), curve))
    });
    let name = format!("{name} ({})", threads.len());
    Chart { name, heading: Heading::Groups, curves: curves.collect() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::drawing::MOST_THREADS;
    use super::super::event::{Event, Track};
    use super::*;
    use crate::park::priority::Priority;

    #[test]
    fn names_that_differ_in_their_number_are_one() {
        let cases = [
            ("worker-12", "worker-*"),
            ("7", "*"),
            ("pool-3-thread-12", "pool-3-thread-*"),
            ("12 of é, 3 (new)", "12 of é, * (new)"),
            ("é4", "é*"),
            ("main", "main"),
            ("", ""),
        ];
        for (name, group) in cases {
            assert_eq!(without_number(name), group);
        }
    }

    fn id(number: u64) -> ThreadId {
        ThreadId::from_number(number.try_into().unwrap())
    }

    /// Returns a recording in which threads, with their makers, are dispatched once after another.
    fn recording(threads: impl IntoIterator<Item = (u64, Option<u64>)>) -> Recording {
        let track = Track::Lwp { runtime: 1, lwp: 0 };
        let mut events = Vec::new();
        for (nth, (thread, by)) in (0..).zip(threads) {
            let kinds = [
                EventKind::Spawn { by: by.map(id), priority: Priority::Normal },
                EventKind::Dispatch { cpu: None },
                EventKind::Exit,
            ];
            events.extend((3 * nth..).zip(kinds).map(|(at, kind)| Event {
                at: Duration::from_nanos(at),
                track,
                thread: Some(id(thread)),
                kind,
            }));
        }
        Recording::from_events(events)
    }

    fn charts(recording: &Recording) -> Vec<Chart> {
        let timeline = super::super::timeline::Timeline::of(recording);
        of(recording, &timeline.threads().iter().collect::<Vec<_>>())
    }

    #[test]
    fn threads_are_in_the_groups_of_their_names_or_makers() {
        let threads = [(1, None), (2, None), (3, Some(1)), (4, Some(9)), (5, Some(1)), (6, None)];
        let names = [(1, "worker-1"), (2, "worker-20"), (6, "main")].map(|(id, name)| (id, name.into()));
        let charts = charts(&recording(threads).with_names(names));
        let names: Vec<_> = charts.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "without a name, started by worker-* (2)",
                "worker-* (2)",
                "main (1)",
                "without a name, started by thread 9 (1)"
            ]
        );
        assert!(charts.iter().all(|it| it.heading == Heading::Groups));
        let curves: Vec<_> = charts[1].curves.iter().map(|(name, curve)| (*name, curve.clone())).collect();
        let at = |curve: &[(u64, u64)]| {
            curve.iter().map(|&(at, value)| (Duration::from_nanos(at), value)).collect::<Vec<_>>()
        };
        let running = at(&[(1, 1), (2, 0), (4, 1), (5, 0)]);
        assert_eq!(curves, [("on LWP", running), ("run queue", at(&[(0, 1), (1, 0), (3, 1), (4, 0)]))]);
    }

    /// Each thread is in a line or in a group.
    #[test]
    fn no_thread_is_lost() {
        let threads = MOST_THREADS as u64 + 500;
        let names = (1..=threads).map(|it| (it, format!("{} is {}", "x".repeat(it as usize % 250), it)));
        let recording = recording((1..=threads).map(|it| (it, None))).with_names(names);
        let drawing = super::super::drawing::Drawing::of(&recording);
        let lines = drawing.lines.iter().filter(|line| line.heading == Heading::Threads).count();
        let groups: Vec<_> = drawing.charts.iter().filter(|it| it.heading == Heading::Groups).collect();
        assert_eq!((lines, groups.len()), (MOST_THREADS, MOST_GROUPS));
        let number = |name: &str| name.rsplit_once('(').unwrap().1.trim_end_matches(')').parse::<usize>();
        assert_eq!(groups.iter().map(|it| number(&it.name).unwrap()).sum::<usize>(), 500);
        assert!(groups[MOST_GROUPS - 1].name.starts_with("151 other names ("), "{}", groups[99].name);
        let heading = drawing.headings.iter().find(|(heading, _)| *heading == Heading::Groups);
        assert_eq!(heading.unwrap().1, "500 more threads, by name");
    }
}
