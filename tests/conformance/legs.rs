//! The legs: each a runtime with settings that make it take other paths; and the macro that runs scenarios on them.

use selvedge::{OneToOne, Runtime};

use crate::watchdog::Watchdog;

/// One way to run a scenario.
pub(crate) trait Leg {
    type Rt: Runtime + 'static;

    /// A fresh runtime.
    fn new() -> Self::Rt;

    /// What this machine lacks for it.
    fn missing() -> Option<String> {
        None
    }
}

/// Kernel threads.
pub(crate) struct Kernel;

impl Leg for Kernel {
    type Rt = OneToOne;

    fn new() -> OneToOne {
        OneToOne::new().expect("a 1:1 runtime")
    }
}

/// Runs one scenario on one leg.
pub(crate) fn run<L: Leg>(what: &str, scenario: fn()) {
    if let Some(why) = L::missing() {
        println!("skipped: {what}: {why}");
        return;
    }
    let _watchdog = Watchdog::start(what);
    scenario();
}

/// Makes a test of each scenario for each leg.
macro_rules! both {
    ($($scenario:ident),* $(,)?) => {
        both! { @leg onetoone, Kernel, $($scenario),* }
    };
    (@leg $name:ident, $leg:ident, $($scenario:ident),*) => {
        mod $name {
            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    crate::legs::run::<crate::legs::$leg>(what, super::$scenario::<crate::legs::$leg>);
                }
            )*
        }
    };
}
