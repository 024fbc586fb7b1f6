//! Unmodified thread-locals, of Rust and of C, in threads that are moved to another LWP at every switch.
//!
//! Each scenario runs on both rungs that switch the thread register, and on the 1:1 runtime. A scenario
//! gives the number of migrations that it saw; on `mxn` there must be some, or nothing was shown.

#[path = "tls/c_library.rs"]
mod c_library;
#[path = "tls/crew.rs"]
mod crew;
#[path = "tls/process.rs"]
mod process;
#[path = "tls/rust.rs"]
mod rust;
#[path = "support/watchdog.rs"]
mod watchdog;

use selvedge::ThreadRegister;
use selvedge::{Mxn, OneToOne, Runtime};
use watchdog::Watchdog;

/// How often a scenario is played until it has seen a migration.
const TIMES: usize = 50;

/// Why this machine has no instructions that write the thread register, if it has none.
fn no_user_writes() -> Option<&'static str> {
    // SAFETY: no preconditions.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    let missing = cfg!(target_arch = "x86_64") && hwcap2 & 2 == 0;
    missing.then_some("the processor or the kernel has no FSGSBASE")
}

fn on_mxn(rung: ThreadRegister, name: &str, scenario: fn() -> usize) {
    let _watchdog = Watchdog::start(format!("{name} on {rung:?}"));
    if let (ThreadRegister::Switched, Some(why)) = (rung, no_user_writes()) {
        println!("skipped: {name} on {rung:?}: {why}");
        return;
    }
    let runtime = Mxn::builder().concurrency(4).thread_register(rung).migrate_always(true).build();
    let runtime = runtime.expect("the runtime starts");
    // On a busy machine, one LWP may have had the CPU all the time.
    let migrated = (0..TIMES).any(|_| runtime.run(scenario) > 0);
    assert!(migrated, "no thread ever changed its LWP");
}

fn on_onetoone(name: &str, scenario: fn() -> usize) {
    let _watchdog = Watchdog::start(format!("{name} on the 1:1 runtime"));
    let migrations = OneToOne::new().expect("the runtime starts").run(scenario);
    assert_eq!(migrations, 0, "a kernel thread is its own LWP");
}

macro_rules! on_every_runtime {
    ($($module:ident::$scenario:ident,)*) => {
        mod switched {
            $(#[test]
            fn $scenario() {
                super::on_mxn(super::ThreadRegister::Switched, stringify!($scenario), super::$module::$scenario);
            })*
        }
        mod syscall {
            $(#[test]
            fn $scenario() {
                super::on_mxn(super::ThreadRegister::Syscall, stringify!($scenario), super::$module::$scenario);
            })*
        }
        mod onetoone {
            $(#[test]
            fn $scenario() {
                super::on_onetoone(stringify!($scenario), super::$module::$scenario);
            })*
        }
    };
}

on_every_runtime! {
    rust::destructors_run_once_at_home_before_join,
    rust::values_and_addresses_stay_with_their_thread,
    rust::a_borrow_survives_every_kind_of_blocking,
    rust::std_knows_the_thread,
    rust::a_stdout_lock_survives_a_park,
    rust::panics_stay_with_their_thread,
    rust::recycled_threads_start_fresh,
    rust::kernel_threads_can_be_started_and_joined,
    rust::channels_of_std_keep_their_thread_local_context,
    c_library::errno_is_kept,
    c_library::characters_tokens_and_numbers,
    c_library::static_buffers_are_per_thread,
    c_library::names_are_resolved,
    c_library::memory_is_freed_by_others,
    c_library::pthread_keys_and_their_destructors,
    c_library::locales_are_per_thread,
    c_library::owners_of_pthread_mutexes_are_threads,
    process::commands_with_pre_exec,
    process::forked_children_work,
}
