//! Does what a paper concluded still hold? Answered by ratios of figures that were taken in the same round.
//!
//! A claim is that one figure is at least, or at most, so many times another, or about as much. Both are
//! of the same round; at the same point they are even taken a moment apart. What slows the machine down
//! for so long slows down both, so their ratio is better known than either. The answer looks at the ratio of
//! each round, not at a mean. It is *holds* if all lie on the claim's side, and *does not hold* if all lie on
//! the other. Otherwise it is *cannot be told*. The borders are ours: no paper says how much is several
//! times, or hardly more. If the truth lay on the border, five rounds would agree by chance in one case of
//! sixteen. Fewer than five must also keep a tenth away from the border, so they cannot say that two figures
//! are the same. Fewer than three tell nothing.

use std::fmt;

use crate::findings::{Findings, Summary};
use crate::numbers::short;

/// From this many rounds on they need no distance from the border.
const MANY: usize = 5;
/// Fewer rounds tell nothing.
const FEW: usize = 3;
/// The distance that few rounds must keep, as a factor.
const MARGIN: f64 = 1.1;
/// Figures that lie within this factor are the same.
const SAME: f64 = 1.1;
/// By this factor one must be more spread than its control.
const SPREAD: f64 = 1.2;
/// A control that is more spread than this says that the machine is not steady.
const UNSTEADY: f64 = 1.3;

/// What is claimed.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) whose: Whose,
    /// In words, as half a sentence.
    pub(crate) words: &'static str,
    /// What is divided by what.
    pub(crate) ratio: &'static str,
    pub(crate) bound: Bound,
    /// The contenders of which it is asked.
    pub(crate) checks: Vec<Check>,
}

/// The source of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The paper.
    Paper,
    /// Selvedge: what it sets out to do.
    Ours,
    /// None: what we ask besides.
    Question,
}

/// What the ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Neither less than the first nor more than the second.
    Within(f64, f64),
    /// At least so many times as much, and by so much more. For figures that can be next to nothing,
    /// with a ratio that says little.
    Exceeds {
        times: f64,
        by: f64,
    },
    /// The spread of the one's figures, most by least, must exceed that of the other, its control.
    Wider,
}

/// Two figures to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// `true` if it is about Selvedge.
    pub(crate) ours: bool,
    /// For people.
    pub(crate) who: String,
    pub(crate) of: Pick,
    pub(crate) to: Pick,
}

/// A figure.
#[derive(Clone, Debug)]
pub(crate) enum Pick {
    /// A contender's, at some points; of several the least.
    Measured { contender: &'static str, points: Vec<usize> },
    /// One that a paper gives.
    Given(f64),
}

impl Pick {
    fn of(&self, findings: &Findings) -> Vec<f64> {
        match self {
            Self::Measured { contender, points } => findings.figures(contender, points),
            Self::Given(figure) => vec![*figure; findings.rounds],
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Holds,
    Fails,
    Open,
}

/// A check with its answer.
#[derive(Clone, Debug)]
pub(crate) struct Verdict<'a> {
    pub(crate) check: &'a Check,
    pub(crate) answer: Answer,
    /// The ratios of all rounds; for [`Bound::Wider`], the two spreads. None: there is nothing to go by.
    pub(crate) seen: Option<Summary>,
}

impl Check {
    /// About Selvedge.
    pub(crate) fn ours(who: &str, of: Pick, to: Pick) -> Self {
        Self { ours: true, who: who.to_owned(), of, to }
    }

    /// About another contender.
    pub(crate) fn other(who: &str, of: Pick, to: Pick) -> Self {
        Self { ours: false, who: who.to_owned(), of, to }
    }

    fn judge(&self, bound: Bound, findings: &Findings) -> Verdict<'_> {
        let (of, to) = (self.of.of(findings), self.to.of(findings));
        let (answer, seen) = match bound {
            Bound::Wider => compare_spreads(&of, &to),
            bound => {
                let pairs = || of.iter().zip(&to);
                let ratios: Vec<f64> = pairs().map(|(&of, &to)| divide(of, to)).collect();
                let answer = match bound {
                    Bound::Exceeds { times, by } => {
                        // How much of what is demanded there is, by the demand that is met worse.
                        let met = pairs().map(|(&of, &to)| (divide(of, to) / times).min((of - to) / by));
                        decide(&met.collect::<Vec<_>>(), Bound::AtLeast(1.0))
                    }
                    bound => decide(&ratios, bound),
                };
                (answer, Summary::of(&ratios))
            }
        };
        Verdict { check: self, answer, seen }
    }
}

/// The figure of a contender at a point.
pub(crate) fn at(contender: &'static str, point: usize) -> Pick {
    Pick::Measured { contender, points: vec![point] }
}

/// Contenders at one point by others (or themselves) at another, a check for each pair.
pub(crate) fn by<const N: usize>(
    pairs: [(&'static str, &'static str); N],
    of: usize,
    to: usize,
) -> Vec<Check> {
    let check = |(one, other)| {
        let ((ours, first), (_, second)) = (known_as(one), known_as(other));
        let who = if first == second { first.to_owned() } else { format!("{first} by {second}") };
        Check { ours, who, of: at(one, of), to: at(other, to) }
    };
    pairs.map(check).into()
}

/// Returns `true` if the contender is ours, and its name beside others, which leaves out how it is set up.
fn known_as(contender: &str) -> (bool, &str) {
    match contender.split_once(',').map_or(contender, |(name, _)| name) {
        "mxn" => (true, "M:N"),
        "onetoone" => (true, "1:1"),
        name => (false, name),
    }
}

/// The least of a contender's figures at some points.
pub(crate) fn best(contender: &'static str, points: impl IntoIterator<Item = usize>) -> Pick {
    Pick::Measured { contender, points: points.into_iter().collect() }
}

impl Claim {
    /// Answers it for each contender of which it is asked.
    pub(crate) fn judge(&self, findings: &Findings) -> Vec<Verdict<'_>> {
        self.checks.iter().map(|check| check.judge(self.bound, findings)).collect()
    }
}

/// Where nothing is divided by nothing, the two are the same.
fn divide(of: f64, to: f64) -> f64 {
    if of == to { 1.0 } else { of / to }
}

impl Bound {
    /// Returns `true` if there are ratios by which it would hold. Few rounds must keep away from both borders
    /// of a narrow one.
    pub(crate) fn can_hold(self, rounds: usize) -> bool {
        match self {
            Self::Within(low, high) => low * margin(rounds) <= high / margin(rounds),
            _ => true,
        }
    }
}

/// How far so many rounds must keep away from a border, as a factor.
fn margin(rounds: usize) -> f64 {
    if rounds < MANY { MARGIN } else { 1.0 }
}

/// What the ratios of all rounds say of the bound.
pub(crate) fn decide(ratios: &[f64], bound: Bound) -> Answer {
    if ratios.len() < FEW {
        return Answer::Open;
    }
    let margin = margin(ratios.len());
    let all = |keeps: &dyn Fn(f64) -> bool| ratios.iter().all(|&ratio| keeps(ratio));
    let (holds, fails) = match bound {
        Bound::AtLeast(border) => {
            (all(&|ratio| ratio >= border * margin), all(&|ratio| ratio < border / margin))
        }
        Bound::AtMost(border) => {
            (all(&|ratio| ratio <= border / margin), all(&|ratio| ratio > border * margin))
        }
        Bound::Within(low, high) => {
            let holds = all(&|ratio| ratio >= low * margin && ratio <= high / margin);
            (holds, all(&|ratio| ratio < low / margin) || all(&|ratio| ratio > high * margin))
        }
        Bound::Exceeds { .. } | Bound::Wider => unreachable!("not by the ratio alone"),
    };
    match (holds, fails) {
        (true, _) => Answer::Holds,
        (_, true) => Answer::Fails,
        _ => Answer::Open,
    }
}

/// Returns `true` if the figures of one are more spread than those of its control. A steady one's are
/// not; where the control is spread too, it may be the machine.
pub(crate) fn compare_spreads(of: &[f64], control: &[f64]) -> (Answer, Option<Summary>) {
    let spread = |figures: &[f64]| Summary::of(figures).map(|all| divide(all.most, all.least));
    let (Some(seen), Some(control)) = (spread(of), spread(control)) else { return (Answer::Open, None) };
    let answer = if of.len() <= FEW {
        Answer::Open
    } else if seen <= SAME {
        Answer::Fails
    } else if control <= UNSTEADY && seen >= control * SPREAD {
        Answer::Holds
    } else {
        Answer::Open
    };
    (answer, Some(Summary { median: seen, least: control, most: seen }))
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Open => "cannot be told",
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(border) => write!(f, "at least {}", short(*border)),
            Self::AtMost(border) => write!(f, "at most {}", short(*border)),
            Self::Within(low, high) => write!(f, "{} to {}", short(*low), short(*high)),
            Self::Exceeds { times, by } => {
                write!(f, "at least {}, and at least {} more", short(*times), short(*by))
            }
            Self::Wider => f.write_str("more than for its control"),
        }
    }
}

/// What all have in common, if they do.
pub(crate) fn group(answers: impl IntoIterator<Item = Answer>) -> Option<Answer> {
    let mut answers = answers.into_iter();
    let first = answers.next()?;
    answers.all(|answer| answer == first).then_some(first)
}
