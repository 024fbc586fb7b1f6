//! What is written of figures: its structure, not its words.

use std::fs;
use std::path::PathBuf;

use plotters::style::RGBColor;

use crate::exhibit::{Chart, Column, Exhibit, Paper, Scale, Then};
use crate::findings;
use crate::findings::Findings;
use crate::machine::Machine;
use crate::options::{Options, Request, Size, parse};
use crate::plot;
use crate::plot::style::of;
use crate::report::{Part, Report};
use crate::results;
use crate::support::harness::Failure;
use crate::verdict::{Answer, Bound, Check, Claim, Whose, at};
use crate::words::tally;

fn exhibit(chart: Chart, columns: Vec<Column>) -> Exhibit {
    Exhibit {
        id: "made-up",
        title: "Figure 0: made up".into(),
        claim: "Nothing is true.",
        then: Then::Table(&["test", "ms"], &[&["0", "1,234"]]),
        here: "On paper.".into(),
        quantity: "time, ms",
        over: "threads",
        columns,
        chart,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "M:N is slower",
            ratio: "time of M:N by that of std",
            bound: Bound::AtLeast(1.0),
            checks: vec![Check::ours("M:N by std", at("mxn", 0), at("std", 0))],
        }],
    }
}

fn report(exhibit: Exhibit, findings: Findings) -> Report {
    let machine = Machine {
        processor: "abacus".into(),
        cpus: 2,
        kernel: "Linux 0.01".into(),
        libc: "none".into(),
        rustc: "rustc 1.88.0".into(),
        date: "1996-05-06 00:00 UTC".into(),
        load: "0.00".into(),
        runtimes: vec!["mxn".into()],
        rung: "switched".into(),
        ticks: None,
        command: "papers".into(),
    };
    let parts = vec![Part {
        paper: Paper::Cantrill,
        name: "made-up",
        exhibits: vec![exhibit],
        findings,
        seconds: 1.0,
        drawn: vec![true],
    }];
    Report {
        machine,
        parts,
        size: "full",
        minutes: 0.5,
        load_at_end: "0.10".into(),
        interrupted: None,
        complaints: Vec::new(),
        late: Vec::new(),
    }
}

pub(crate) fn three_by_two() -> Report {
    let found = findings(
        &[("mxn", true), ("onetoone", true), ("std", false)],
        &[
            &[&[1.0; 5], &[2.0; 5], &[3.0; 5]],
            &[&[10.0; 5], &[20.0; 5], &[1000.0, 2000.0, 3000.0, 4000.0, 5000.0]],
        ],
    );
    report(exhibit(Chart::Bars, Column::each(0, &[1, 2000])), found)
}

/// The lines that begin so.
fn lines<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(begin)).collect()
}

#[test]
fn a_report_has_all_its_parts() {
    let text = three_by_two().markdown();
    assert_eq!(lines(&text, "# ").len(), 1);
    assert_eq!(lines(&text, "## "), ["## How it was measured", "## All verdicts", "## P2 Barriers"]);
    // After those of the front page.
    assert_eq!(lines(&text, "### ")[5..], ["### Figure 0: made up"]);
    for part in ["**The claim.** Nothing is true.", "**Then:**", "**Here.** On paper. 5 rounds; time, ms:"] {
        assert_eq!(lines(&text, part).len(), 1, "{part}");
    }
    let verdict = "**The paper's conclusion no longer holds for Selvedge:** *M:N is slower*.";
    assert_eq!(lines(&text, verdict).len(), 1, "{text}");
    assert!(text.contains("![Figure 0: made up](made-up.svg)"));
    assert!(text.contains("| processor | abacus |") && text.contains("| command | `papers` |"));
    // The overview leads to the exhibit.
    assert!(text.contains("| [P2](#made-up) | M:N is slower | no longer holds | – |"), "{text}");
    assert!(text.contains("<a id=\"made-up\"></a>"));
    assert!(text.contains(
        "- Of the papers' 1 conclusions that were asked of Selvedge, 0 still hold here, 1 no longer hold, \
         and 0 "
    ));
    // No check has failed, and the run was not stopped.
    assert_eq!(lines(&text, "> "), [""; 0]);
}

#[test]
fn a_table_has_a_line_for_each_contender_or_column() {
    let text = three_by_two().markdown();
    for line in [
        "| | 1 | 2,000 |",
        "| **Selvedge M:N** | 1.00 (1.00–1.00) | 10.0 (10.0–10.0) |",
        "| std | 3.00 (3.00–3.00) | 3,000 (1,000–5,000) |",
    ] {
        assert_eq!(lines(&text, line).len(), 1, "{line} in {text}");
    }
    // More columns than contenders: the other way round.
    let found = findings(&[("mxn", true)], &[&[&[1.0]], &[&[2.0]]]);
    let text = report(exhibit(Chart::Bars, Column::each(0, &[7, 8])), found).markdown();
    assert!(
        text.contains("| threads | **Selvedge M:N** |\n|---:|---:|\n| 7 | 1.00 |\n| 8 | 2.00 |\n"),
        "{text}"
    );
    // Every line of a table has as many cells as its heading.
    let mut cells = None;
    for line in three_by_two().markdown().lines() {
        let here = line.starts_with('|').then(|| line.matches('|').count());
        if let (Some(before), Some(here)) = (cells, here) {
            assert_eq!(before, here, "{line}");
        }
        cells = here;
    }
}

#[test]
fn holes_are_not_shown_as_a_table() {
    let mut found = findings(
        &[("mxn", true), ("std", false), ("may", false)],
        &[&[&[1.0], &[], &[]], &[&[], &[2.0], &[]], &[&[], &[], &[3.0]]],
    );
    for (point, cells) in found.cells.iter_mut().enumerate() {
        cells.iter_mut().enumerate().for_each(|(contender, cell)| cell.asked = contender == point);
    }
    let text = report(exhibit(Chart::Bars, Column::each(0, &[1, 2, 3])), found).markdown();
    assert!(
        text.contains("| 1 | **Selvedge M:N** | 1.00 |\n| 2 | std | 2.00 |\n| 3 | may | 3.00 |\n"),
        "{text}"
    );
}

#[test]
fn a_failure_is_said_so_and_costs_nothing_else() {
    let mut report = three_by_two();
    report.parts[0].findings.cells[1][2].failure = Some(Failure::Late);
    let text = report.markdown();
    assert!(text.contains("std was given up at \"2,000\": it did not end in time"));
    assert_eq!(lines(&text, "| std | 3.00 (3.00–3.00) | not in time |").len(), 1, "{text}");
    assert_eq!(lines(&text, "| **Selvedge M:N** | 1.00 (1.00–1.00) | 10.0 (10.0–10.0) |").len(), 1);
    assert_eq!(report.status(), 0, "a peer may fail");
    report.late.push("made-up: mxn at 1 of 2 points".into());
    assert!(report.markdown().contains("> **Not in time:** made-up: mxn at 1 of 2 points."));
    assert_eq!(report.status(), 0, "slow is not wrong");
    report.complaints.push("made-up: mxn: signal 6".into());
    assert!(report.markdown().contains("> **A check failed:** made-up: mxn: signal 6"));
    assert_eq!(report.status(), 2);
}

#[test]
fn an_interrupted_report_says_so_and_what_was_not_reached() {
    let mut report = three_by_two();
    report.interrupted = Some((30, 300));
    report.parts[0].findings.cells[1][2].samples.truncate(2);
    let text = report.markdown();
    assert!(text.contains("> **This run was interrupted** after 30 of 300 samples."));
    assert!(text.contains("2 of 5 rounds are complete; time, ms:"), "{text}");
    assert_eq!(report.status(), 130);
    for cell in report.parts[0].findings.cells.iter_mut().flatten() {
        cell.samples.clear();
    }
    report.parts[0].drawn = vec![false];
    let text = report.markdown();
    assert!(text.contains("It was not reached.") && !text.contains("made-up.svg"));
    assert!(text.contains("| [P2](#made-up) | M:N is slower | cannot be told | – |"));
}

#[test]
fn results_hold_every_sample_and_every_verdict() {
    let value = results::json(&three_by_two());
    let part = &value["experiments"][0];
    assert_eq!(part["figures"].as_array().unwrap().len(), 6);
    assert_eq!(part["figures"][5]["samples"][4], 5000.0);
    assert_eq!(part["figures"][5]["ours"], false);
    assert_eq!(part["exhibits"][0]["verdicts"][0]["answer"], "does not hold");
    assert!(part["exhibits"][0]["verdicts"][0]["ratio"]["median"].is_number());
    assert_eq!(value["machine"]["processor"], "abacus");
    assert_eq!(value["interrupted"], false);
    let counted = &value["counts"][0];
    assert_eq!((&counted["whose"], &counted["asked"]), (&"paper".into(), &"Selvedge".into()));
    let numbers = ["all", "hold", "fail", "open"].map(|name| counted[name].as_u64().unwrap());
    assert_eq!(numbers, [1, 0, 1, 0]);
}

#[test]
fn ticks_are_nanoseconds_in_another_unit() {
    let found = findings(&[("mxn", true)], &[&[&[100.0]]]);
    assert_eq!(Column::of(0, "ns").figures(&found, "mxn"), [100.0]);
    let Some(column) = Column::in_ticks(0, "cycles") else { return };
    let per_nanosecond = column.figures(&found, "mxn")[0] / 100.0;
    // No counter of these processors is slower or faster.
    assert!((0.1..10.0).contains(&per_nanosecond), "{per_nanosecond}");
}

#[test]
fn two_spreads_are_not_called_a_ratio() {
    let mut report = three_by_two();
    report.parts[0].exhibits[0].claims[0].bound = Bound::Wider;
    let value = results::json(&report);
    let verdict = &value["experiments"][0]["exhibits"][0]["verdicts"][0];
    assert_eq!(verdict["spread"], 1.0);
    assert_eq!(verdict["control"], 1.0);
    assert!(verdict.get("ratio").is_none(), "{verdict}");
}

#[test]
fn every_kind_of_chart_is_drawn_with_its_colors_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let charts = [
        Chart::Bars,
        Chart::Lines { x: Scale::Log, y: Scale::Log },
        Chart::Lines { x: Scale::Linear, y: Scale::Linear },
        Chart::Rounds { of: "mxn", beside: "std" },
    ];
    for (number, chart) in charts.into_iter().enumerate() {
        let report = three_by_two();
        let file: PathBuf = folder.path().join(format!("{number}.svg"));
        let exhibit = exhibit(chart, Column::each(0, &[1, 2000]));
        assert!(plot::draw(&file, &exhibit, &report.parts[0].findings).unwrap());
        let svg = fs::read_to_string(&file).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{chart:?}");
        // Title, both axes with their units, the legend, and a tick for each column.
        for text in ["Figure 0: made up", "time, ms", "threads", "Selvedge M:N", "std", "2,000"] {
            assert!(svg.contains(text), "{chart:?} lacks {text:?}");
        }
        // Each contender in its own color, and no bar without its value.
        let drawn = ["mxn", "std"].map(|name| of(name).color);
        for RGBColor(red, green, blue) in drawn {
            assert!(svg.contains(&format!("#{red:02X}{green:02X}{blue:02X}")), "{chart:?}");
        }
        if chart == Chart::Bars {
            let texts: Vec<_> = svg.lines().map(str::trim).collect();
            for value in ["1.00", "10.0", "2.00", "20.0", "3.00", "3,000"] {
                assert!(texts.contains(&value), "{value} is not beside its bar");
            }
        }
    }
    let nothing = findings(&[("mxn", true)], &[&[&[]], &[&[]]]);
    let exhibit = exhibit(Chart::Bars, Column::each(0, &[1, 2]));
    assert!(!plot::draw(&folder.path().join("nothing.svg"), &exhibit, &nothing).unwrap());
}

#[test]
fn several_answers_are_counted() {
    use Answer::{Fails, Holds, Open};
    assert_eq!(tally(Whose::Paper, &[]), "–");
    assert_eq!(tally(Whose::Paper, &[Holds, Holds]), "still holds");
    assert_eq!(tally(Whose::Paper, &[Fails]), "no longer holds");
    assert_eq!(tally(Whose::Paper, &[Open, Fails, Open]), "1 no longer holds, 2 cannot be told");
    // An aim is not a conclusion, and a question neither.
    assert_eq!(tally(Whose::Ours, &[Fails]), "missed");
    assert_eq!(tally(Whose::Ours, &[Holds, Open]), "1 reached, 1 cannot be told");
    assert_eq!(tally(Whose::Question, &[Holds]), "yes");
}

#[test]
fn the_command_line_is_read() {
    let read = |line: &str| parse(line.split_whitespace(), "sample");
    let defaults =
        Options { size: Size::Full, only: vec![], out: "target/papers".into(), json: false, list: false };
    let options = |line| match read(line) {
        Ok(Request::Report(options)) => options,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(options(""), defaults);
    let all = Options {
        size: Size::Quick,
        only: ["P1", "p3", "crowd"].map(String::from).into(),
        out: "here".into(),
        json: true,
        list: true,
    };
    assert_eq!(options("--quick --only P1,p3 --only crowd --out here --json --list"), all);
    assert_eq!(options("--smoke").size, Size::Smoke);
    assert!(matches!(read("--help"), Ok(Request::Help)));
    assert!(matches!(read("--quick --sample 1 2 3"), Ok(Request::Sample(Size::Quick, _))));
    for both in ["--quick --smoke", "--smoke --quick"] {
        assert_eq!(read(both).unwrap_err().to_string(), "--quick and --smoke exclude each other");
    }
    for wrong in ["--only", "--out", "--fast", "more", "-q"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
