//! The page for people: each paper with what it found, whether that still holds here, and one picture.
//!
//! Each paper has one conclusion that stands for it. What the page says is computed from the verdict on that
//! claim, so the page cannot say anything else than the details below it.

use std::fmt::Write as _;

use crate::exhibit::Paper;
use crate::numbers::ratio;
use crate::overview;
use crate::report::{Part, Report};
use crate::verdict::{Answer, Bound, Claim, Verdict, group};
use crate::words::on_the_paper;

/// The conclusion that stands for a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headline {
    pub(crate) paper: Paper,
    /// The exhibit that it stands in, and the claim by its words.
    pub(crate) exhibit: &'static str,
    pub(crate) claim: &'static str,
    /// What the paper found, as half a sentence.
    pub(crate) found: &'static str,
    /// What was found here, as the other half; `{}` is "so many times", or a fraction.
    pub(crate) here: &'static str,
    /// What the picture shows.
    pub(crate) title: &'static str,
    /// What a ratio below one says, and one above it.
    pub(crate) sides: [&'static str; 2],
    /// The paper's own ratios. `None`: it says only in words on which side it lies.
    pub(crate) then: &'static [(&'static str, Option<f64>)],
}

/// One for each paper, in their order.
pub(crate) const HEADLINES: [Headline; 5] = [
    Headline {
        paper: Paper::Harman,
        exhibit: "p1-four-games",
        claim: "with several games, M:N on all CPUs is far slower than 1:1",
        found: "four games between M:N threads took 51 times as long as between 1:1 threads",
        here: "with Selvedge they take {} as long",
        title: "Four games of Ping-Pong: time of M:N threads by that of 1:1 threads",
        sides: ["M:N faster", "1:1 faster"],
        then: &[("the paper, eight CPUs", Some(350_930.0 / 6_901.0))],
    },
    Headline {
        paper: Paper::Cantrill,
        exhibit: "p2-figure-4",
        claim: "the curve of M:N threads has steps",
        found: "one thread more than CPUs doubled the time of M:N threads at a barrier",
        here: "with Selvedge it makes the time {} as long",
        title: "Barriers: time of one M:N thread more than CPUs by that of as many as CPUs",
        sides: ["", "longer with one thread more"],
        then: &[("the paper, four CPUs", Some(2.0))],
    },
    Headline {
        paper: Paper::Nptl,
        exhibit: "p3-figure-1",
        claim: "a 1:1 library makes threads faster than an M:N one",
        found: "a 1:1 library made threads two or four times as fast as an M:N one (its text can be read \
                both ways)",
        here: "with Selvedge a 1:1 thread takes {} as long to make as an M:N thread",
        title: "Creation of a thread: time of a 1:1 thread by that of an M:N thread",
        sides: ["1:1 faster", "M:N faster"],
        then: &[
            ("the paper, if 4 x LinuxThreads", Some(1.0 / 2.0)),
            ("the paper, if 4 x NGPT", Some(1.0 / 4.0)),
        ],
    },
    Headline {
        paper: Paper::Nt,
        exhibit: "p4-tables-5-6",
        claim: "one LWP for each CPU beats a kernel thread for each thread",
        found: "M:N threads with an LWP for each CPU beat bound threads at a contended lock",
        here: "with Selvedge they take {} as long",
        title: "A contended lock: time of M:N threads by that of kernel threads",
        sides: ["M:N faster", "1:1 faster"],
        then: &[("the paper, four CPUs", None)],
    },
    Headline {
        paper: Paper::Java,
        exhibit: "p5-throughput",
        claim: "with the most threads, 1:1 has more throughput than M:N",
        found: "2,000 M:N threads that compute took up to ten times as long as 1:1 threads",
        here: "with Selvedge they take {} as long",
        title: "2,000 threads that compute: time of M:N threads by that of 1:1 threads",
        sides: ["M:N faster", "1:1 faster"],
        then: &[
            ("the paper, 30 CPUs", Some(10.0)),
            ("the paper, two Intel CPUs", Some(1.35)),
            ("the paper, two SPARC CPUs", Some(1.0)),
        ],
    },
];

impl Headline {
    /// The name of its picture, without its ending.
    pub(crate) fn picture(&self) -> String {
        format!("front-{}", self.paper.tag().to_lowercase())
    }

    /// Finds the claim among what was measured.
    pub(crate) fn find<'a>(&self, parts: &'a [Part]) -> Option<(&'a Part, &'a Claim)> {
        parts.iter().find_map(|part| {
            let exhibit = part.exhibits.iter().find(|exhibit| exhibit.id == self.exhibit)?;
            Some((part, exhibit.claims.iter().find(|claim| claim.words == self.claim)?))
        })
    }

    /// Says in one sentence what the paper found, and whether it still holds.
    fn sentence(&self, verdicts: &[Verdict<'_>]) -> String {
        let ours: Vec<_> = verdicts.iter().filter(|verdict| verdict.check.ours).collect();
        let answer = group(ours.iter().map(|verdict| verdict.answer)).unwrap_or(Answer::Open);
        let here = match ours.first().and_then(|verdict| verdict.seen) {
            Some(seen) => {
                let times = ratio(seen.median);
                let times = if times.contains('/') { times } else { times + " times" };
                self.here.replace("{}", &times)
            }
            None => "this run has no figures of Selvedge for it".to_owned(),
        };
        format!("**{}:** {}; {here}.", on_the_paper(answer), self.found)
    }
}

/// A bar of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// The ratio with the least and the most; of the paper's own there is one only, or none.
    pub(crate) ratio: Option<[f64; 3]>,
}

/// Where a bar's ratio comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Paper,
    Selvedge,
    Other,
}

/// A picture of the front page.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) sides: [&'static str; 2],
    pub(crate) bars: Vec<Bar>,
    pub(crate) bound: Bound,
}

/// The pictures of the papers that were measured.
pub(crate) fn pictures(parts: &[Part]) -> Vec<Picture> {
    let picture = |headline: &Headline| {
        let (part, claim) = headline.find(parts)?;
        let then = headline.then.iter().map(|&(name, given)| Bar {
            name: name.to_owned(),
            source: Source::Paper,
            ratio: given.map(|given| [given; 3]),
        });
        let verdicts = claim.judge(&part.findings).into_iter();
        let here = verdicts.filter_map(|verdict| {
            let seen = verdict.seen?;
            let (name, source) = match verdict.check.ours {
                true => (format!("Selvedge, {}", verdict.check.who), Source::Selvedge),
                false => (verdict.check.who.clone(), Source::Other),
            };
            Some(Bar { name, source, ratio: Some([seen.median, seen.least, seen.most]) })
        });
        let bars: Vec<_> = then.chain(here).collect();
        let measured = bars.iter().any(|bar| bar.source != Source::Paper);
        measured.then(|| Picture {
            name: headline.picture(),
            title: headline.title,
            sides: headline.sides,
            bars,
            bound: claim.bound,
        })
    };
    HEADLINES.iter().filter_map(picture).collect()
}

/// Writes the page.
pub(crate) fn write(text: &mut String, report: &Report) {
    let _ = write!(
        text,
        "Five papers measured how threads should be mapped to kernel threads: many to a few (M:N), or each \
         to its own (1:1). Here their measurements are repeated on {} CPUs, on {}.",
        report.machine.cpus, report.machine.date
    );
    if let Some(count) = overview::counts(report).iter().find(|count| count.all > 0) {
        let _ = write!(text, " {count}");
    }
    text.push_str(
        " In the pictures, a bar in the shaded part agrees with the paper. Grey is the paper, dark blue \
         Selvedge, orange other libraries; 1 says that both take the same time.\n\n",
    );
    let pictures = pictures(&report.parts);
    for headline in &HEADLINES {
        let paper = headline.paper;
        let _ = write!(text, "### {}\n\n{}.\n\n", paper.title(), paper.source());
        let Some((part, claim)) = headline.find(&report.parts) else {
            text.push_str("It was not measured in this run.\n\n");
            continue;
        };
        let _ = write!(text, "{}\n\n", headline.sentence(&claim.judge(&part.findings)));
        if pictures.iter().any(|picture| picture.name == headline.picture()) {
            let _ = write!(text, "![{}]({}.svg)\n\n", headline.title, headline.picture());
        }
    }
}
