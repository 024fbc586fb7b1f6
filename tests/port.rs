//! A port from std is a change of `use`: programs for std run with and without that change.
//!
//! `port/programs` has programs for std. Each is compiled twice: as it stands, and with the paths of
//! [`ported`], which the README names. Each runs in processes of its own: with std, and with Selvedge on
//! either runtime. On Selvedge it runs from a foreign thread (`main` as it is) and from a thread of the
//! runtime (`selvedge::run(main)`). All must print the same.
//!
//! Together the programs use every stable item of `std::{thread, sync, sync::mpsc}`. `port/std-items.txt`
//! lists these items, and a test compares the list with the documentation of the toolchain. A table in the
//! crate's documentation lists what cannot be ported.

#[path = "port/coverage.rs"]
mod coverage;
#[path = "port/items.rs"]
mod items;
#[path = "support/rustdoc.rs"]
mod rustdoc;
#[allow(dead_code, reason = "shared")]
#[path = "support/child.rs"]
mod subprocess;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::BTreeSet;
use std::io::ErrorKind;

use selvedge::Mxn;
use watchdog::Watchdog;

/// `std` as a ported program sees it.
#[allow(unused_imports, reason = "a program uses what it needs")]
mod ported {
    pub(crate) use ::std::*;
    pub(crate) use selvedge::sync::poison as sync;
    pub(crate) use selvedge::thread;
}

/// The locks without poison have std's names, too. Of `std::sync`, only the errors are missing.
#[allow(unused_imports, reason = "that they can be imported is the test")]
mod without_poison {
    use selvedge::sync::{
        Arc, Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, OnceState,
        RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, Weak, atomic, mpsc,
    };
}

/// Marks around the output of a program, because the test harness prints, too.
const BEGIN: &str = "<<< begin of the program\n";
const END: &str = ">>> end of the program\n";

/// Makes two modules of each file of `port/programs`, and the roles of a child.
macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        #[allow(
            dead_code,
            deprecated,
            missing_debug_implementations,
            unused,
            clippy::all,
            reason = "ordinary programs, which must not be changed"
        )]
        mod with_std {
            $(pub(crate) mod $name {
                include!(concat!("port/programs/", stringify!($name), ".rs"));

                pub(crate) fn run() {
                    crate::between_marks(main);
                }
            })*
        }

        #[allow(
            dead_code,
            deprecated,
            missing_debug_implementations,
            unused,
            clippy::all,
            reason = "ordinary programs, which must not be changed"
        )]
        mod with_selvedge {
            $(pub(crate) mod $name {
                use crate::ported as std;
                include!(concat!("port/programs/", stringify!($name), ".rs"));

                pub(crate) fn run() {
                    crate::between_marks(main);
                }

                pub(crate) fn run_inside() {
                    crate::between_marks(|| selvedge::run(main));
                }
            })*
        }

        /// The roles of a child.
        const ROLES: &[(&str, fn())] = &[$(
            (concat!(stringify!($name), " std"), with_std::$name::run),
            (concat!(stringify!($name), " foreign"), with_selvedge::$name::run),
            (concat!(stringify!($name), " inside"), with_selvedge::$name::run_inside),
        )*];

        /// The names and texts of the programs.
        const PROGRAMS: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("port/programs/", stringify!($name), ".rs")))),*];
    };
}

fn between_marks(main: impl FnOnce()) {
    print!("{BEGIN}");
    main();
    print!("{END}");
}

programs! {
    channels, conditions, locals, locks, mpsc_names, once, own, parking, pool, spawning, sync_names, thread_names, traits,
}

/// Runs a program in a child, and returns its output.
fn printed(role: &str, runtime: Option<&'static str>) -> String {
    let variables: Vec<_> = runtime.map(|runtime| ("SELVEDGE_RUNTIME", runtime)).into_iter().collect();
    let ended = subprocess::run(role, &variables);
    ended.expect_success();
    let (_, said) = ended.said.split_once(BEGIN).expect("the program began");
    said.split_once(END).expect("the program ended").0.to_owned()
}

/// Returns the output of a program with std, and for each way to run it with Selvedge.
fn both(name: &str) -> (String, Vec<(String, String)>) {
    let mut ported = Vec::new();
    for runtime in ["mxn", "onetoone"] {
        if let (Some(error), "mxn") = (Mxn::new().err(), runtime)
            && error.kind() == ErrorKind::Unsupported
        {
            println!("skipped: {name} on mxn: {error}");
            continue;
        }
        for (way, place) in [("foreign", "from a foreign thread"), ("inside", "inside")] {
            let text = printed(&format!("{name} {way}"), Some(runtime));
            ported.push((format!("{name} on {runtime}, {place}"), text));
        }
    }
    (printed(&format!("{name} std"), None), ported)
}

/// Runs the program in all ways, and compares the outputs line by line.
fn prints_the_same(name: &str) {
    let _watchdog = Watchdog::start(name);
    let (theirs, ported) = both(name);
    assert!(!theirs.is_empty() || name.ends_with("_names"), "{name} prints nothing");
    for (what, ours) in ported {
        for (line, (theirs, ours)) in theirs.lines().zip(ours.lines()).enumerate() {
            assert_eq!(ours, theirs, "{what}, line {}", line + 1);
        }
        assert_eq!(ours, theirs, "{what}");
    }
}

macro_rules! tests {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            prints_the_same($name);
        })*

        const TESTED: &[&str] = &[$($name),*];
    };
}

tests! {
    channels_have_stds_order_bounds_ends_and_texts: "channels",
    conditions_and_barriers_are_stds: "conditions",
    thread_locals_are_stds: "locals",
    locks_and_their_poison_are_stds: "locks",
    names_of_mpsc_have_stds_signatures: "mpsc_names",
    what_is_done_once_is_stds: "once",
    errors_and_counted_references_are_stds_own: "own",
    permits_and_sleeps_are_stds: "parking",
    a_pool_of_workers_runs: "pool",
    threads_and_scopes_are_stds: "spawning",
    names_of_sync_have_stds_signatures: "sync_names",
    names_of_thread_have_stds_signatures: "thread_names",
}

#[test]
fn every_program_is_run() {
    for (name, _) in PROGRAMS.iter().filter(|(name, _)| *name != "traits") {
        assert!(TESTED.contains(name), "{name} is not run");
    }
}

/// A port changes only `use` lines: the rest of a program does not name what moves. (`own` compares with
/// `::std`, which is std in both.)
#[test]
fn programs_name_what_moves_in_use_lines_alone() {
    for (name, text) in PROGRAMS {
        let mut in_use = false;
        for (number, line) in text.lines().enumerate() {
            in_use |= line.trim_start().starts_with("use ");
            let moved = line.replace("::std::", "");
            let names = ["std::thread", "std::sync"].iter().any(|path| moved.contains(path));
            assert!(in_use || !names || line.starts_with("//"), "{name}.rs:{}: {line}", number + 1);
            in_use &= !line.trim_end().ends_with(';');
        }
    }
}

/// Our types have the traits of std's types. The list names the traits that only ours have.
#[test]
fn types_have_the_traits_of_stds() {
    const MORE: &[&str] = &[
        "Builder: Default",
        "JoinHandle: RefUnwindSafe",
        "JoinHandle: UnwindSafe",
        "Once: Default",
        "ScopedJoinHandle: RefUnwindSafe",
        // No scope makes a handle for a result that is not `Send`.
        "ScopedJoinHandle: Send",
        "ScopedJoinHandle: Sync",
        "ScopedJoinHandle: UnwindSafe",
        "Thread: Eq",
        "Thread: PartialEq",
        "ThreadId: Ord",
        "ThreadId: PartialOrd",
    ];
    let _watchdog = Watchdog::start("traits");
    let (theirs, ported) = both("traits");
    let (mut less, mut more) = (BTreeSet::new(), BTreeSet::new());
    for (what, ours) in ported {
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
        for (theirs, ours) in theirs.lines().zip(ours.lines()) {
            if theirs != ours {
                match theirs.strip_suffix(" no") {
                    Some(fact) => more.insert(without_generics(fact)),
                    None => less.insert(theirs.to_owned()),
                };
            }
        }
    }
    let named: BTreeSet<_> = MORE.iter().map(|fact| (*fact).to_owned()).collect();
    assert!(less.is_empty() && more == named, "std's types have {less:#?}, and have not {more:#?}");
}

/// Returns `Mutex: Send` for `Mutex<[u8]>: Send`.
fn without_generics(fact: &str) -> String {
    let (type_name, of) = fact.split_once(": ").expect("a type and a trait");
    format!("{}: {of}", type_name.split('<').next().unwrap_or_default().trim())
}

/// The kept list of std's items is that of the toolchain.
#[test]
fn the_list_of_stds_items_is_complete() {
    let (minor, items) = match items::of_toolchain() {
        Ok(found) => found,
        Err(why) => return println!("skipped: the list of std's items: {why}"),
    };
    let kept = items::kept();
    let new: Vec<_> = items.difference(&kept).collect();
    assert!(new.is_empty(), "add to tests/port/std-items.txt, and to a program or the table: {new:#?}");
    let gone: Vec<_> = kept.difference(&items).collect();
    assert!(gone.is_empty() || minor < items::kept_of(), "not in std: {gone:#?}");
}

/// Each item is in a program, or in the table of what cannot be ported.
#[test]
fn every_stable_item_of_std_is_in_a_program_or_in_the_table() {
    let _watchdog = Watchdog::start("coverage");
    let texts: Vec<_> = PROGRAMS.iter().map(|(_, text)| *text).collect();
    let traits = printed("traits std", None);
    let own = printed("own std", None);
    let covered = coverage::Covered::new(&texts, &traits, &own);
    let missing: Vec<_> = items::kept().into_iter().filter(|item| !covered.has(item)).collect();
    assert!(missing.is_empty(), "in no program, and not in the table of src/lib.rs: {missing:#?}");
    for wrong in [
        "thread fn no_such",
        "thread Builder::no_such",
        "sync impl NoSuch for Mutex",
        "sync impl !Send for Mutex",
    ] {
        assert!(!covered.has(wrong), "{wrong} cannot be covered");
    }
}

#[test]
#[ignore = "what a child process of another test does"]
fn child() {
    subprocess::play(ROLES);
}
