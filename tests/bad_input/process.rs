//! Unusual processes: without free mappings, with all future memory locked, run with another user's rights,
//! or forked while a runtime starts.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use selvedge::thread::{self, Builder};
use selvedge::{Mxn, Runtime};

use super::forked::panics_end_the_process;
use super::limits::{number_in, use_up_mappings};
use super::watchdog::Watchdog;
use super::{child, mxn, onetoone};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("refused_again", refused_again),
    ("locked", locked),
    ("little_locked", little_locked),
    ("forked_amid_a_start", forked_amid_a_start),
    ("another_users", || {
        // SAFETY: takes a number.
        if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
            return println!("skipped: the file system has no set-user-id programs");
        }
        let rt = Mxn::new().expect("the variable is ignored");
        println!("{} threads", rt.run(|| 1));
    }),
];

/// The id of a user that does not exist.
const STRANGER: u32 = 1 << 30;

fn refused_again() {
    panics_end_the_process();
    let Some(limit) = number_in("/proc/sys/vm/max_map_count").filter(|&limit| limit < 200_000) else {
        return println!("skipped: so many mappings are allowed that memory runs out first");
    };
    use_up_mappings(limit.saturating_sub(1_000));
    let rt = onetoone();
    let mut threads = Vec::new();
    while let Ok(thread) = rt.spawn_with(Builder::new(), thread::park) {
        threads.push(thread);
    }
    let list = std::fs::read("/proc/self/maps").expect("proc").len();
    let before = bytes_read();
    const TIMES: usize = 40;
    for _ in 0..TIMES {
        assert!(rt.spawn_with(Builder::new(), thread::park).is_err());
    }
    let read = bytes_read() - before;
    for thread in threads {
        thread.thread().unpark();
        thread.join().expect("it only parks");
    }
    // The list is read once a second; the machine may be busy.
    assert!(read < TIMES / 2 * list, "{read} bytes read, and the list has {list}");
    assert_eq!(rt.spawn(|| 7).join().expect("there is room again"), 7);
}

/// Returns the number of bytes that this process has read, from all files.
fn bytes_read() -> usize {
    let figures = std::fs::read_to_string("/proc/self/io").expect("proc");
    let line = figures.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("bytes read");
    line.trim().parse().expect("a number")
}

/// Returns the process's resident memory, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("proc");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

/// Locks all future memory. If that is not allowed, prints why and returns `false`.
fn lock_the_future() -> bool {
    // SAFETY: no preconditions.
    let failed = unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0;
    if failed {
        println!("skipped: mlockall: {}", std::io::Error::last_os_error());
    }
    !failed
}

const THREADS: usize = 200;

fn start_many(rt: &Mxn) {
    let threads: Vec<_> = (0..THREADS).map(|n| rt.spawn(move || n)).collect();
    assert_eq!(threads.into_iter().map(|thread| thread.join().expect("its number")).sum::<usize>(), 19_900);
}

/// Only touched pages take memory, even if the kernel would fill every new mapping at once.
fn locked() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root may lock as much as it likes");
    }
    if !lock_the_future() {
        return;
    }
    let rt = mxn();
    let before = resident();
    start_many(&rt);
    let grown = resident().saturating_sub(before);
    // The stacks have more than 50 MiB.
    assert!(grown < 24 << 20, "{grown} bytes more");
}

/// If little memory may be locked, the runtime uses smaller slabs.
fn little_locked() {
    let limit = libc::rlimit { rlim_cur: 16 << 20, rlim_max: 16 << 20 };
    // SAFETY: a limit to read.
    if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } != 0 {
        return println!("skipped: a lower limit of locked memory: {}", std::io::Error::last_os_error());
    }
    // The kernel does not limit root.
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: no preconditions.
        assert_eq!(unsafe { libc::setresuid(STRANGER, STRANGER, STRANGER) }, 0);
    }
    if !lock_the_future() {
        return;
    }
    start_many(&mxn());
}

/// In the child there is no thread to finish a start that a thread of the parent had begun.
fn forked_amid_a_start() {
    panics_end_the_process();
    const TRIALS: u32 = 60;
    for trial in 0..TRIALS {
        // Each trial runs in a process that has not started anything.
        let first = fork(|| {
            std::thread::spawn(|| selvedge::try_run(|| ()).expect("it starts"));
            let until = Instant::now() + Duration::from_micros(u64::from(trial) * 50);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            let second = fork(|| {
                // SAFETY: no preconditions. Ends a child that hangs.
                unsafe { libc::alarm(20) };
                // The default may be the parent's if its start was complete. Then the error says so.
                match selvedge::try_run(|| 7) {
                    Ok(seven) => assert_eq!(seven, 7),
                    Err(error) => assert!(error.to_string().contains("fork"), "{error}"),
                }
                let own = Mxn::builder().concurrency(1).build().expect("a runtime of its own");
                assert_eq!(own.run(|| 8), 8);
            });
            ends_well(second);
        });
        ends_well(first);
    }
}

/// Runs `f` in a child, which exits without unwinding.
fn fork(f: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child has one thread, which ends in here.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        f();
        // SAFETY: no preconditions.
        unsafe { libc::_exit(0) };
    }
    pid
}

fn ends_well(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of this process and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child has said why, or was ended by signal {}", libc::WTERMSIG(status));
}

#[test]
fn threads_that_are_refused_do_not_read_the_list_of_mappings_each_time() {
    let _watchdog = Watchdog::start("threads_that_are_refused_do_not_read_the_list_of_mappings_each_time");
    child::run("refused_again", &[]).expect_success();
}

#[test]
fn stacks_are_not_filled_where_all_future_memory_is_locked() {
    let _watchdog = Watchdog::start("stacks_are_not_filled_where_all_future_memory_is_locked");
    child::run("locked", &[]).expect_success();
    child::run("little_locked", &[]).expect_success();
}

#[test]
fn a_child_that_was_forked_while_a_runtime_started_starts_its_own() {
    let _watchdog = Watchdog::start("a_child_that_was_forked_while_a_runtime_started_starts_its_own");
    child::run("forked_amid_a_start", &[]).expect_success();
}

#[test]
fn a_set_user_id_program_ignores_the_environment() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can make a program of root's that others run");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a folder or file of ours");
    };
    open(folder.path(), 0o755);
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().expect("the test program"), &program).expect("a copy");
    open(&program, 0o4755);
    let like =
        child::command("another_users", &[("SELVEDGE_CONCURRENCY", "nonsense"), ("SELVEDGE_CPU", "0")]);
    let mut command = std::process::Command::new(&program);
    command.args(like.get_args()).current_dir("/").uid(STRANGER).gid(STRANGER).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.output().expect("the copy runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}\n{said}\n{complaint}", ended.status);
    assert!(!complaint.contains("SELVEDGE_CPU"), "{complaint}");
    assert!(said.contains("1 threads") || said.contains("skipped:"), "{said}");
    said.lines().filter(|line| line.contains("skipped:")).for_each(|line| println!("{line}"));
}
