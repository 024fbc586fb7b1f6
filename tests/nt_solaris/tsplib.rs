//! What is read of TSPLIB's format, and what is refused with which words.

use crate::support::nt_solaris::workers::tsplib::{Flaw, Instance, parse, read};

/// A file of three cities.
fn file(order: &str, distances: &str) -> String {
    format!(
        "NAME: three\nTYPE: TSP\nCOMMENT: (made up)\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\n\
         EDGE_WEIGHT_FORMAT: {order}\nEDGE_WEIGHT_SECTION\n{distances}\nEOF\n"
    )
}

#[test]
fn every_order_of_distances_is_the_same_instance() {
    let three = Instance::new("three", 3, &[0, 1, 2, 1, 0, 3, 2, 3, 0]);
    for (order, distances) in [
        ("FULL_MATRIX", "0 1 2\n1 0 3\n2 3 0"),
        ("LOWER_ROW", "1\n2 3"),
        ("LOWER_DIAG_ROW", "0 1 0\n2 3\n0"),
        ("UPPER_ROW", "1 2 3"),
        ("UPPER_DIAG_ROW", "0 1 2 0 3 0"),
    ] {
        assert_eq!(parse(&file(order, distances)), Ok(three.clone()), "{order}");
    }
    assert_eq!((three.distance(1, 2), three.length(&[0, 2, 1])), (3, 6));
}

#[test]
fn what_the_format_allows_is_passed_over() {
    let plain = file("LOWER_ROW", "1 2 3");
    let spaced = plain.replace(": ", " :   ").replace('\n', "  \r\n\r\n");
    let shown = plain.replace("EOF", "DISPLAY_DATA_SECTION\n1 0.5 -3.1\n2 1 1\n3 2 2\nEOF\nwhatever");
    let more = plain.replace("DIMENSION", "DISPLAY_DATA_TYPE: TWOD_DISPLAY\nDIMENSION");
    let endless = plain.replace("EOF", "");
    for text in [spaced, shown, more, endless] {
        assert_eq!(parse(&text), parse(&plain), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let good = file("LOWER_ROW", "1 2 3");
    let cases = [
        ("TYPE: TSP", "TYPE: ATSP", Some(2), "ATSP"),
        ("DIMENSION: 3", "DIMENSION: 2", Some(4), "from 3 to 64"),
        ("DIMENSION: 3", "DIMENSION: 65", Some(4), "from 3 to 64"),
        ("DIMENSION: 3", "DIMENSION: three", Some(4), "three"),
        ("DIMENSION: 3\n", "", Some(6), "before DIMENSION"),
        ("EXPLICIT", "EUC_2D", Some(5), "EUC_2D"),
        ("EDGE_WEIGHT_TYPE: EXPLICIT\n", "", None, "EDGE_WEIGHT_TYPE"),
        ("LOWER_ROW", "UPPER_COL", Some(6), "UPPER_COL"),
        ("EDGE_WEIGHT_FORMAT: LOWER_ROW\n", "", Some(6), "before EDGE_WEIGHT_FORMAT"),
        ("1 2 3", "1 2", None, "2 distances; 3 cities have 3"),
        ("1 2 3", "1 2 3 4", None, "4 distances"),
        ("1 2 3", "1 2\n3.5", Some(9), "3.5"),
        ("1 2 3", "1 -2 3", Some(8), "-2"),
        ("1 2 3", "1 2 10000001", Some(8), "10000001"),
        ("EDGE_WEIGHT_SECTION\n", "", Some(7), "neither a keyword nor in a section"),
    ];
    for (from, to, line, word) in cases {
        let Flaw { line: found, what } = parse(&good.replacen(from, to, 1)).expect_err(to);
        assert_eq!(found, line, "{from:?} -> {to:?}: {what}");
        assert!(what.contains(word), "{from:?} -> {to:?}: {what}");
    }
    let flaw = parse(&file("FULL_MATRIX", "0 1 2 1 0 3 2 4 0")).expect_err("not symmetric");
    assert!(flaw.what.contains("from 2 to 1 it is 4, back 3"), "{flaw}");
    assert_eq!(parse("").expect_err("nothing").to_string(), "at the end: no DIMENSION");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    for (path, word) in [("/nowhere/gr17.tsp", "No such file"), (file!(), "line 1: ")] {
        let error = read(path.as_ref()).expect_err(path).to_string();
        assert!(error.contains(path) && error.contains(word), "{error}");
    }
}
