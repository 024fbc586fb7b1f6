//! What is said of figures.

use crate::findings;
use crate::findings::Summary;
use crate::support::harness::Failure;
use crate::verdict::{
    Answer, Bound, Check, Claim, Pick, Whose, at, best, by, compare_spreads, decide, group,
};
use crate::words::sentence;

fn claim(bound: Bound, checks: Vec<Check>) -> Claim {
    Claim { whose: Whose::Paper, words: "one is slower", ratio: "one by two", bound, checks }
}

#[test]
fn a_summary_has_a_middle_and_two_ends() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[3.0]), Some(Summary { median: 3.0, least: 3.0, most: 3.0 }));
    assert_eq!(Summary::of(&[9.0, 1.0, 4.0]), Some(Summary { median: 4.0, least: 1.0, most: 9.0 }));
    assert_eq!(Summary::of(&[9.0, 1.0, 4.0, 2.0]), Some(Summary { median: 3.0, least: 1.0, most: 9.0 }));
}

#[test]
fn all_rounds_must_agree() {
    let least = Bound::AtLeast(2.0);
    let most = Bound::AtMost(2.0);
    let cases: [(&[f64], Answer, Answer); 9] = [
        // Too few to tell anything.
        (&[], Answer::Open, Answer::Open),
        (&[9.0, 9.0], Answer::Open, Answer::Open),
        // Three must keep a tenth away from the border...
        (&[2.3, 2.3, 2.3], Answer::Holds, Answer::Fails),
        (&[1.7, 1.7, 1.7], Answer::Fails, Answer::Holds),
        (&[2.1, 2.3, 2.3], Answer::Open, Answer::Open),
        (&[1.9, 1.7, 1.7], Answer::Open, Answer::Open),
        // ... five need not, but one that differs spoils it.
        (&[2.1; 5], Answer::Holds, Answer::Fails),
        (&[1.9; 5], Answer::Fails, Answer::Holds),
        (&[2.1, 2.1, 1.9, 2.1, 2.1], Answer::Open, Answer::Open),
    ];
    for (ratios, if_least, if_most) in cases {
        assert_eq!(decide(ratios, least), if_least, "{ratios:?}");
        assert_eq!(decide(ratios, most), if_most, "{ratios:?}");
    }
    // The border itself is allowed.
    assert_eq!(decide(&[2.0; 5], least), Answer::Holds);
    assert_eq!(decide(&[2.0; 5], most), Answer::Holds);
}

#[test]
fn the_same_is_neither_less_nor_more() {
    let same = Bound::Within(0.5, 2.0);
    let cases: [(&[f64], Answer); 9] = [
        (&[0.5, 1.0, 1.0, 1.0, 2.0], Answer::Holds),
        (&[0.4; 5], Answer::Fails),
        (&[2.1; 5], Answer::Fails),
        // One outside, or some on either side.
        (&[1.0, 1.0, 1.0, 1.0, 2.1], Answer::Open),
        (&[0.4, 0.4, 0.4, 2.1, 2.1], Answer::Open),
        // Three must keep a tenth away from either border.
        (&[0.56, 1.0, 1.8], Answer::Holds),
        (&[0.54, 1.0, 1.8], Answer::Open),
        (&[0.44; 3], Answer::Fails),
        (&[2.1; 3], Answer::Open),
    ];
    for (ratios, answer) in cases {
        assert_eq!(decide(ratios, same), answer, "{ratios:?}");
    }
    assert_eq!(decide(&[1.0; 3], Bound::Within(0.95, 1.05)), Answer::Open);
    assert_eq!(same.to_string(), "0.500 to 2.00");
}

#[test]
fn few_rounds_say_that_they_cannot_show_two_to_be_the_same() {
    let said = |bound, rounds: usize| {
        let ones = vec![1.0; rounds];
        let found = findings(&[("mxn", true), ("std", false)], &[&[&ones, &ones]]);
        sentence(&claim(bound, by([("mxn", "std")], 0, 0)), &found)
    };
    let warning = "That it holds could not be told by 3 rounds";
    assert!(said(Bound::Within(0.95, 1.05), 3).contains(warning));
    for (bound, rounds) in
        [(Bound::Within(0.95, 1.05), 5), (Bound::Within(0.5, 2.0), 3), (Bound::AtMost(1.0), 3)]
    {
        assert!(!said(bound, rounds).contains("could not be told by"), "{bound:?}, {rounds}");
    }
}

#[test]
fn pairs_are_named_after_their_contenders() {
    let pairs = [("mxn, 1 slot", "onetoone"), ("mxn", "mxn, 1 slot"), ("may, 1 worker", "std")];
    let checks = by(pairs, 2, 0);
    let said: Vec<_> = checks.iter().map(|check| (check.ours, check.who.as_str())).collect();
    assert_eq!(said, [(true, "M:N by 1:1"), (true, "M:N"), (false, "may by std")]);
    let Pick::Measured { contender, points } = &checks[0].to else { panic!("{:?}", checks[0].to) };
    assert_eq!((*contender, points.as_slice()), ("onetoone", &[0][..]));
}

#[test]
fn many_times_next_to_nothing_is_not_enough() {
    let exceeds = Bound::Exceeds { times: 2.0, by: 5.0 };
    let answer = |of: f64, to: f64| {
        let found = findings(&[("mxn", true), ("std", false)], &[&[&[of; 5], &[to; 5]]]);
        let claim = claim(exceeds, vec![Check::ours("gap", at("mxn", 0), at("std", 0))]);
        claim.judge(&found)[0].answer
    };
    assert_eq!(answer(29.0, 8.0), Answer::Holds);
    assert_eq!(answer(3.0, 0.1), Answer::Fails, "thirty times, but by three only");
    assert_eq!(answer(0.3, 0.0), Answer::Fails);
    assert_eq!(answer(0.0, 0.0), Answer::Fails);
    assert_eq!(answer(29.0, 20.0), Answer::Fails, "by nine, but not twice as much");
    assert_eq!(answer(29.0, 0.0), Answer::Holds);
    assert_eq!(exceeds.to_string(), "at least 2.00, and at least 5.00 more");
}

#[test]
fn figures_are_divided_round_by_round() {
    // A machine that is three times slower in one round slows both down; the ratio does not see it.
    let found = findings(&[("mxn", true), ("std", false)], &[&[&[2.0, 6.0, 2.0], &[1.0, 3.0, 1.0]]]);
    let claim = claim(
        Bound::AtLeast(1.5),
        vec![Check::ours("one", at("mxn", 0), at("std", 0)), Check::other("two", at("std", 0), at("mxn", 0))],
    );
    let verdicts = claim.judge(&found);
    assert_eq!(verdicts[0].answer, Answer::Holds);
    assert_eq!(verdicts[0].seen, Some(Summary { median: 2.0, least: 2.0, most: 2.0 }));
    assert_eq!(verdicts[1].answer, Answer::Fails);
}

#[test]
fn of_several_points_the_least_counts_in_each_round() {
    let found = findings(&[("mxn", true)], &[&[&[5.0, 1.0]], &[&[3.0, 2.0]], &[&[0.0, 0.0]]]);
    assert_eq!(found.figures("mxn", &[0, 1]), [3.0, 1.0]);
    let claim = claim(Bound::AtLeast(1.0), vec![Check::ours("", best("mxn", 0..2), Pick::Given(3.0))]);
    assert_eq!(claim.judge(&found)[0].seen, Some(Summary { median: 2.0 / 3.0, least: 1.0 / 3.0, most: 1.0 }));
}

#[test]
fn a_contender_that_failed_or_was_not_asked_has_no_figures() {
    let mut found = findings(&[("mxn", true), ("may", false)], &[&[&[1.0; 3], &[1.0]]]);
    found.cells[0][1].failure = Some(Failure::Late);
    assert_eq!(found.figures("may", &[0]), [0.0; 0]);
    assert_eq!(found.figures("no contender", &[0]), [0.0; 0]);
    assert_eq!(found.failures_of_ours(), [""; 0]);
    assert_eq!(found.complete_rounds(), 3);
    found.cells[0][0].failure = Some(Failure::Wrong("signal 6".into()));
    assert_eq!(found.failures_of_ours(), ["mxn: signal 6"]);
    let claim = claim(Bound::AtMost(1.0), vec![Check::other("may", at("may", 0), at("mxn", 0))]);
    let said = sentence(&claim, &found);
    assert!(said.contains("may has no figures"), "{said}");
    assert!(
        said.starts_with(
            "**This run cannot tell whether the paper's conclusion still holds for the others:**"
        )
    );
}

#[test]
fn late_here_and_there_is_no_failure_but_late_everywhere_is() {
    let mut found =
        findings(&[("mxn", true), ("std", false)], &[&[&[1.0; 3], &[1.0; 3]], &[&[1.0], &[1.0; 3]]]);
    found.cells[1][0].failure = Some(Failure::Late);
    assert_eq!(found.failures_of_ours(), [""; 0]);
    assert_eq!(found.late_ones_of_ours(), ["mxn at 1 of 2 points"]);
    // Not a single sample at the one point that it was asked for.
    found.cells[0][0].asked = false;
    found.cells[1][0].samples.clear();
    assert_eq!(found.failures_of_ours(), ["mxn: no sample ended in time"]);
    assert_eq!(found.late_ones_of_ours(), [""; 0]);
    // Peers may do as they like.
    found.cells[1][0].failure = None;
    found.cells[0][1].failure = Some(Failure::Late);
    assert_eq!((found.failures_of_ours().len(), found.late_ones_of_ours().len()), (0, 0));
}

#[test]
fn nothing_by_nothing_is_the_same() {
    let found = findings(&[("mxn", true), ("std", false)], &[&[&[0.0; 5], &[0.0, 0.0, 0.0, 0.0, 2.0]]]);
    let claim = claim(Bound::AtMost(1.0), vec![Check::ours("gap", at("mxn", 0), at("std", 0))]);
    let seen = claim.judge(&found)[0].seen.unwrap();
    assert_eq!((seen.least, seen.most), (0.0, 1.0));
}

#[test]
fn spreads_need_a_steady_control() {
    let steady = [100.0, 101.0, 102.0, 103.0];
    let wild = [100.0, 180.0, 120.0, 150.0];
    assert_eq!(compare_spreads(&wild, &steady).0, Answer::Holds);
    assert_eq!(compare_spreads(&steady, &steady).0, Answer::Fails);
    // The machine may have done it.
    assert_eq!(compare_spreads(&wild, &wild).0, Answer::Open);
    assert_eq!(compare_spreads(&[100.0, 900.0, 100.0, 100.0], &wild).0, Answer::Open);
    assert_eq!(compare_spreads(&wild[..3], &steady[..3]).0, Answer::Open);
    assert_eq!(compare_spreads(&[], &steady), (Answer::Open, None));
}

#[test]
fn a_sentence_says_which_contender_and_by_how_much() {
    let found = findings(
        &[("mxn", true), ("may", false), ("std", false)],
        &[&[&[10.0; 5], &[30.0; 5], &[20.0, 20.0, 20.0, 20.0, 25.0]]],
    );
    let claim = claim(
        Bound::AtLeast(1.0),
        vec![
            Check::ours("M:N by std", at("mxn", 0), at("std", 0)),
            Check::other("may by std", at("may", 0), at("std", 0)),
            Check::other("std by may", at("std", 0), at("may", 0)),
        ],
    );
    assert_eq!(
        sentence(&claim, &found),
        "**The paper's conclusion no longer holds for Selvedge:** *one is slower*. The measure is one by \
         two: at least 1.00. M:N by std has 0.500 (0.400 to 0.500). **The others: it depends.** may by std \
         has 1.50 (1.20 to 1.50): still holds; std by may has 0.667 (0.667 to 0.833): no longer holds."
    );
    assert_eq!(group([Answer::Holds, Answer::Holds]), Some(Answer::Holds));
    assert_eq!(group([Answer::Holds, Answer::Open]), None);
    assert_eq!(group([]), None);
}
