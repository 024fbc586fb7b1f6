//! The page for people, and the report as one HTML file.

use std::fs;

use crate::exhibit::{Chart, Column, Exhibit, Then};
use crate::findings;
use crate::front::{self, HEADLINES, Headline, Source};
use crate::html;
use crate::plot::ratios;
use crate::report::{Part, Report};
use crate::reports;
use crate::verdict::{Bound, Check, Claim, Whose, at};

/// What the headline names, with M:N so many times as slow as 1:1, and may ten times.
fn part(headline: &Headline, times: f64) -> Part {
    let found = findings(
        &[("mxn", true), ("onetoone", true), ("may", false)],
        &[&[&[times; 5], &[1.0; 5], &[10.0; 5]]],
    );
    let exhibit = Exhibit {
        id: headline.exhibit,
        title: format!("Shown for {}", headline.paper.tag()),
        claim: "It is so.",
        then: Then::Words("It was so."),
        here: "On paper.".into(),
        quantity: "time, ms",
        over: "",
        columns: vec![Column::of(0, "one")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: headline.claim,
            ratio: "time of M:N by that of 1:1",
            bound: Bound::AtLeast(2.0),
            checks: vec![
                Check::ours("M:N by 1:1", at("mxn", 0), at("onetoone", 0)),
                Check::other("may by 1:1", at("may", 0), at("onetoone", 0)),
            ],
        }],
    };
    Part {
        paper: headline.paper,
        name: "made-up",
        exhibits: vec![exhibit],
        findings: found,
        seconds: 1.0,
        drawn: vec![true],
    }
}

fn all_five(times: f64) -> Report {
    let parts = HEADLINES.iter().map(|headline| part(headline, times)).collect();
    Report { parts, ..reports::three_by_two() }
}

/// The front page alone.
fn front_page(report: &Report) -> String {
    let text = report.markdown();
    text[..text.find("\n## ").expect("the details come after it")].to_owned()
}

#[test]
fn the_first_page_has_each_paper_with_its_source_one_sentence_and_one_picture() {
    let page = front_page(&all_five(0.25));
    for headline in &HEADLINES {
        let paper = headline.paper;
        assert!(page.contains(&format!("### {}\n\n{}.\n\n", paper.title(), paper.source())), "{page}");
        assert!(page.contains(&format!("]({}.svg)", headline.picture())), "{page}");
        let said = format!("**The paper's conclusion no longer holds:** {}; ", headline.found);
        assert!(page.contains(&said) && page.contains("0.250 times as long"), "{said} in {page}");
        assert!(paper.source().chars().filter(char::is_ascii_digit).count() >= 4, "a year of {paper:?}");
    }
    assert_eq!(page.matches("![").count(), 5);
    assert!(page.len() < 4_500, "a page, not a chapter: {}", page.len());
}

#[test]
fn the_first_page_says_what_the_verdict_says() {
    assert!(front_page(&all_five(51.0)).contains("**The paper's conclusion still holds:** four games"));
    let mut report = all_five(51.0);
    let cannot = "**This run cannot tell whether the paper's conclusion still holds:** four games";
    report.parts[0].findings.cells[0][0].samples = vec![51.0, 0.1, 51.0, 51.0, 51.0];
    assert!(front_page(&report).contains(cannot));
    // Without figures of ours there is neither a number nor a bar.
    report.parts[0].findings.cells[0][0].samples.clear();
    let page = front_page(&report);
    assert!(page.contains(cannot) && page.contains("this run has no figures of Selvedge for it"), "{page}");
    // What was not measured is named, and has no picture.
    report.parts.remove(1);
    let page = front_page(&report);
    assert!(page.contains("It was not measured in this run.") && !page.contains("front-p2.svg"), "{page}");
    assert_eq!(page.matches("![").count(), 4);
}

#[test]
fn a_picture_shows_the_paper_selvedge_and_the_others_with_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = front::pictures(&all_five(0.25).parts);
    assert_eq!(pictures.len(), 5);
    for (picture, headline) in pictures.iter().zip(&HEADLINES) {
        let file = folder.path().join(format!("{}.svg", picture.name));
        ratios::draw(&file, picture).unwrap();
        let svg = fs::read_to_string(&file).unwrap();
        let texts: Vec<_> = svg.lines().map(str::trim).collect();
        for (name, ratio) in headline.then {
            let value = ratio.map_or("in the shaded part, by its words".to_owned(), crate::numbers::short);
            assert!(texts.contains(name) && texts.contains(&value.as_str()), "{name}, {value} in {svg}");
        }
        for text in ["Selvedge, M:N by 1:1", "0.250", "may by 1:1", "10.0", headline.title] {
            assert!(texts.contains(&text), "{text} in {svg}");
        }
        assert!(!svg.contains("pattern"), "hatching");
    }
    let light =
        [Source::Selvedge, Source::Paper, Source::Other].map(ratios::color).map(crate::figures::lightness);
    assert!(light.is_sorted_by(|a, b| b - a >= 15.0), "{light:?}");
}

#[test]
fn the_html_page_needs_no_other_file() {
    let report = all_five(0.25);
    let folder = tempfile::tempdir().unwrap();
    for picture in front::pictures(&report.parts) {
        ratios::draw(&folder.path().join(format!("{}.svg", picture.name)), &picture).unwrap();
    }
    for part in &report.parts {
        let file = folder.path().join(format!("{}.svg", part.exhibits[0].id));
        assert!(crate::plot::draw(&file, &part.exhibits[0], &part.findings).unwrap());
    }
    let markdown = report.markdown();
    let page = html::page(&markdown, |name| fs::read_to_string(folder.path().join(name)).ok());
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    // Nothing is fetched: no address, no file, no script. What is left are jumps within the page.
    for outside in ["http:", "https:", "src=", "<img", "<link", "<script", "<iframe", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for (at, _) in page.match_indices("href=") {
        assert!(page[at..].starts_with("href=\"#"), "{}", &page[at..at + 40]);
    }
    assert_eq!(page.matches("<svg").count(), markdown.matches("![").count());
    assert_eq!(page.matches("<svg").count(), 10);
    for headline in &HEADLINES {
        assert!(page.contains(&format!("<h3>{}</h3>", headline.paper.title())));
        assert!(page.contains(&format!("id=\"picture-{}\"", headline.picture())));
        assert!(page.contains(&format!("href=\"#{}\"", headline.exhibit)));
        assert!(page.contains(&format!("id=\"{}\"", headline.exhibit)));
    }
    assert!(page.contains("<table>") && page.contains("<td>abacus</td>"));
}

#[test]
fn a_missing_picture_is_said_so_and_text_stays_text() {
    let page = html::page("# A < B\n\n![the *one*](none.svg)\n", |_| None);
    assert!(page.contains("<title>A &lt; B</title>"), "{page}");
    assert!(page.contains("(There is no picture none.svg.)") && !page.contains("<img"), "{page}");
    let page = html::page("![a \"b\" `c`](one.svg)\n", |name| Some(format!("<?xml?>\n<svg>{name}</svg>\n")));
    assert!(page.contains("aria-label=\"a &quot;b&quot; c\"><svg>one.svg</svg></span>"), "{page}");
}
