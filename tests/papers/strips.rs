//! What a recorded run's figures and strip say.

use std::time::Duration;

use crate::exhibit::{Chart, Column};
use crate::lives::{Figure, Lives, Piece};
use crate::strip::{Doing, MOMENTS, Strip};
use crate::support::harness::Failure;

fn piece(from: u64, to: u64, doing: Doing) -> Piece {
    Piece { from: Duration::from_micros(from), to: Duration::from_micros(to), doing }
}

/// Three threads on two LWPs, without slices: the paper's figures 5 and 6.
fn three_on_two() -> Lives {
    let threads = vec![
        vec![piece(0, 10, Doing::OnLwp(7)), piece(10, 20, Doing::Blocked)],
        vec![piece(0, 10, Doing::OnLwp(3)), piece(10, 20, Doing::Blocked)],
        vec![piece(0, 10, Doing::RunQueue), piece(10, 20, Doing::OnLwp(3)), piece(20, 30, Doing::Blocked)],
    ];
    Lives::between(Duration::ZERO, Duration::from_micros(20), threads)
}

#[test]
fn half_of_the_time_one_waits_and_half_of_it_the_last_is_alone() {
    let figures = three_on_two().figures(1);
    let expected = [50.0, 0.0, 100.0 / 6.0, 100.0 / 3.0, 50.0, 50.0, 2.0, 1.0];
    assert_eq!(figures.len(), Figure::FURTHER);
    for (figure, expected) in figures.iter().zip(expected) {
        assert!((figure - expected).abs() < 1e-9, "{figures:?}");
    }
}

#[test]
fn a_strip_shows_states_and_lwps() {
    let strip = three_on_two().strip(Duration::from_micros(20));
    let half = MOMENTS as usize / 2;
    assert_eq!(strip.threads[2], "q".repeat(half) + &strip.threads[1][..1].repeat(half));
    assert!(strip.threads[0].ends_with(&".".repeat(half)), "{strip}");
    assert_eq!(Strip::parse(&strip.to_string()), Some(strip));
}

#[test]
fn a_thread_that_never_ran_is_left_out_and_lwps_are_numbered_by_use() {
    let threads = vec![
        vec![piece(0, 100, Doing::Blocked)],
        vec![piece(0, 100, Doing::OnLwp(9))],
        vec![piece(0, 50, Doing::Dispatchable), piece(50, 100, Doing::OnLwp(4))],
    ];
    let lives = Lives::between(Duration::from_micros(40), Duration::from_micros(90), threads);
    assert_eq!(lives.length(), Duration::from_micros(50));
    let strip = lives.strip(lives.length());
    assert_eq!(strip.threads.len(), 2);
    assert!(strip.threads[0].chars().all(|mark| mark == '1'), "{strip}");
    assert!(strip.threads[1].starts_with('d') && strip.threads[1].ends_with('2'), "{strip}");
}

#[test]
fn marks_are_read_as_they_are_written() {
    for doing in [Doing::OnLwp(0), Doing::OnLwp(8), Doing::Dispatchable, Doing::RunQueue, Doing::Blocked] {
        assert_eq!(Doing::of_mark(doing.mark()), Some(doing));
    }
    assert_eq!((Doing::OnLwp(40).mark(), Doing::of_mark(' '), Doing::of_mark('0')), ('+', None, None));
    assert_eq!(Strip::parse("no strip\n..."), None);
}

#[test]
fn a_report_shows_strips_as_text_and_as_a_figure() {
    let mut report = crate::reports::three_by_two();
    let part = &mut report.parts[0];
    part.exhibits[0].chart = Chart::Strips { first: 0, last: 0 };
    let text = "strip 96000\n1111\nqq..\n";
    part.findings.add(0, "mxn", [Some(1.0)].into_iter(), text);
    // The first round's counts.
    part.findings.add(0, "mxn", [Some(2.0)].into_iter(), "strip 1\ndddd\n");
    assert_eq!(part.findings.seen_at(0, 0).len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("strips.svg");
    assert!(crate::plot::draw(&file, &part.exhibits[0], &part.findings).unwrap());
    let svg = std::fs::read_to_string(file).unwrap();
    for said in ["thread 2", "run queue", "Selvedge M:N, 1.00 µs a cell"] {
        assert!(svg.contains(said), "{said} in {svg}");
    }
    let markdown = report.markdown();
    assert!(markdown.contains("Selvedge M:N, 1.00 µs a mark:\n\n```text\n1111\nqq..\n```\n"), "{markdown}");
}

#[test]
fn a_report_says_what_a_contender_said_first() {
    let mut report = crate::reports::three_by_two();
    let part = &mut report.parts[0];
    part.findings.add(0, "mxn", [Some(1.0)].into_iter(), "17 threads: there were enough\n");
    part.findings.add(0, "mxn", [Some(2.0)].into_iter(), "18 threads: there were enough\n");
    let markdown = report.markdown();
    assert!(markdown.contains("- Selvedge M:N: 17 threads: there were enough\n\n"), "{markdown}");
    assert!(!markdown.contains("18 threads"), "{markdown}");
    let json = crate::results::json(&report);
    assert_eq!(json["experiments"][0]["figures"][0]["said"], "17 threads: there were enough");
    assert_eq!(json["experiments"][0]["figures"][1]["said"], serde_json::Value::Null);
}

#[test]
fn a_column_of_percentages_shows_one_contender_by_another() {
    let found = crate::findings(
        &[("mxn", true), ("mxn, bound", true), ("std", false)],
        &[&[&[1.0, 3.0], &[2.0, 2.0], &[1.0, 1.0]]],
    );
    let column = Column::of(0, "one").percent(&[("mxn", "mxn, bound")]);
    assert_eq!(column.figures(&found, "mxn"), [50.0, 150.0]);
    let shown = |who| (column.shows(&found, who), column.figures(&found, who).len());
    assert_eq!((shown("mxn"), shown("mxn, bound"), shown("std")), ((true, 2), (false, 0), (false, 0)));
}

#[test]
fn further_figures_come_from_the_same_sample() {
    let mut found = crate::findings(&[("mxn", true)], &[&[&[]], &[&[]], &[&[]]]);
    found.cells[1][0].further = true;
    found.cells[2][0].further = true;
    found.add(0, "mxn", [Some(5.0), Some(50.0), None].into_iter(), "");
    assert_eq!((found.taken(), found.figures("mxn", &[1])), (1, vec![50.0]));
    assert!(!found.asked("mxn", &[2]), "it has no such figure");
    found.fail(0, 3, "mxn", Failure::Late);
    assert!(found.has_failed(0, "mxn") && found.figures("mxn", &[1]).is_empty());
    assert_eq!(found.failures_of_ours(), ["mxn: no sample ended in time"; 0]);
    assert_eq!(found.late_ones_of_ours(), ["mxn at 1 of 1 points"]);
}
