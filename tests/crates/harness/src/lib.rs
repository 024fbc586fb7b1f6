//! Runs a scenario on each rung that switches the thread register, with every switch a migration, and on
//! the 1:1 runtime. The crew and the watchdog are those of the crate's own thread-local tests.

// Shared with `tests/tls.rs`, where they are modules of the test itself: hence `pub(crate)` there, and
// wrappers here.
#[path = "../../../tls/crew.rs"]
mod crew_of_tests;
#[path = "../../../support/watchdog.rs"]
mod watchdog;

use selvedge::ThreadRegister;
use selvedge::{Mxn, OneToOne, Runtime};

/// How often a thread usually hops.
pub const HOPS: usize = crew_of_tests::HOPS;

/// One thread of a crew.
pub struct Member<'a>(&'a crew_of_tests::Member);

impl Member<'_> {
    /// 0 up to the size of the crew.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Gives up the LWP, and counts whether another one came back with us.
    pub fn hop(&self) {
        self.0.hop();
    }

    /// Runs something that may switch, and counts whether it migrated.
    pub fn across<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.across(f)
    }
}

/// Runs `body` on `size` threads at once, on the caller's runtime, and waits for all. Gives the number of
/// migrations.
pub fn crew(size: usize, body: impl Fn(&Member<'_>) + Send + Sync + 'static) -> usize {
    crew_of_tests::crew(size, move |member| body(&Member(member)))
}

/// Runs `scenario` on `mxn` with the given rung; it must have migrated.
pub fn on_mxn(rung: ThreadRegister, name: &str, scenario: fn() -> usize) {
    let _watchdog = watchdog::Watchdog::start(format!("{name} on {rung:?}"));
    // SAFETY: no preconditions.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    if rung == ThreadRegister::Switched && cfg!(target_arch = "x86_64") && hwcap2 & 2 == 0 {
        println!("skipped: {name} on {rung:?}: the processor or the kernel has no FSGSBASE");
        return;
    }
    let runtime = Mxn::builder().concurrency(4).thread_register(rung).migrate_always(true).build();
    let runtime = runtime.expect("the runtime starts");
    // On a busy machine, one LWP may have had the CPU all the time.
    let migrated = (0..50).any(|_| runtime.run(scenario) > 0);
    assert!(migrated, "no thread ever changed its LWP");
}

/// Runs `scenario` on the 1:1 runtime.
pub fn on_onetoone(name: &str, scenario: fn() -> usize) {
    let _watchdog = watchdog::Watchdog::start(format!("{name} on the 1:1 runtime"));
    assert_eq!(
        OneToOne::new().expect("the runtime starts").run(scenario),
        0,
        "a kernel thread is its own LWP"
    );
}

/// Makes three tests of each `fn() -> usize`.
#[macro_export]
macro_rules! on_every_runtime {
    ($($scenario:ident),* $(,)?) => {
        mod switched {
            $(#[test]
            fn $scenario() {
                $crate::on_mxn(selvedge::ThreadRegister::Switched, stringify!($scenario), super::$scenario);
            })*
        }
        mod syscall {
            $(#[test]
            fn $scenario() {
                $crate::on_mxn(selvedge::ThreadRegister::Syscall, stringify!($scenario), super::$scenario);
            })*
        }
        mod onetoone {
            $(#[test]
            fn $scenario() {
                $crate::on_onetoone(stringify!($scenario), super::$scenario);
            })*
        }
    };
}
