//! Ping-Pong's ten tests, small, on every runtime and every rung of the thread register's ladder; and its
//! command line.
//!
//! If the locks of a game did not exclude, it would end with the right counts all the same. So the games here
//! are played with a referee: each mutex also says whether it is held, and two holders are a failure.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::concurrency::Concurrency;
use support::crew::Sampler;
use support::library::{Attributes, Guard, Library, Lock, Std};
use support::pingpong::game::{Rest, Tournament, play};
use support::pingpong::options::{Model, Options, Refusal, parse};
use support::pingpong::program;
use support::selvedge::{Private, Shared};
use watchdog::Watchdog;

/// One of the paper's tests, with its own number of games and moves.
#[derive(Clone, Copy)]
struct Trial {
    games: u32,
    target: u32,
    concurrency: usize,
    attributes: Attributes,
    shared: bool,
    one_cpu: bool,
}

const UNBOUND: Attributes = Attributes { stack_size: None, bound: false };
const BOUND: Attributes = Attributes { stack_size: None, bound: true };
const SMALL: Attributes = Attributes { stack_size: Some(32 << 10), bound: false };
const ONE_GAME: Trial =
    Trial { games: 1, target: 2_000, concurrency: 1, attributes: UNBOUND, shared: false, one_cpu: false };
const FOUR_GAMES: Trial = Trial { games: 4, target: 1_000, concurrency: 8, ..ONE_GAME };
const CROWD: Trial = Trial { games: 100, target: 20, attributes: SMALL, ..ONE_GAME };

impl Trial {
    fn tournament(self) -> Tournament {
        Tournament { games: self.games, target: self.target, rest: Rest::None, attributes: self.attributes }
    }

    /// Plays it on every runtime.
    fn everywhere(self) {
        let _watchdog = Watchdog::start("a trial");
        // On a thread of its own, for affinity is inherited and stays.
        let trial = std::thread::spawn(move || {
            if self.one_cpu {
                stay_on_one_cpu();
            }
            self.on(&OneToOne::new().unwrap());
            on_rungs(&Mxn::builder().concurrency(self.concurrency), |rt| self.on(rt));
            if self.shared {
                // A shared lock blocks the LWP. On `Pinned` the owner may be a thread that can run nowhere
                // else. And std has no shared locks.
                println!("skipped: shared mutexes on pinned threads, and on std");
                return;
            }
            // SAFETY: the players keep no thread-local across a wait.
            let pinned = unsafe { Mxn::builder().concurrency(self.concurrency).pinned() };
            self.on(&pinned.build().unwrap());
            referee::<Std>(self.tournament());
        });
        trial.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn on(self, rt: &impl Runtime) {
        rt.run(|| match self.shared {
            false => referee::<Private>(self.tournament()),
            true => referee::<Shared>(self.tournament()),
        });
    }
}

/// Plays with a referee. That each player made the right number of moves, `all` sees to.
fn referee<L: Library>(tournament: Tournament) {
    let mut readies = 0;
    let mut moves: Option<Sampler> = None;
    let ready = |_, sampler| {
        readies += 1;
        moves = Some(sampler);
    };
    let elapsed = play::<Refereed<L>, _>(tournament, ready).unwrap().all(tournament.games);
    assert_eq!(readies, 1);
    let all_moves = 2 * u64::from(tournament.games) * u64::from(tournament.target);
    assert_eq!(moves.unwrap()(), all_moves);
    assert!(elapsed > Duration::ZERO);
}

#[test]
fn paper_test_1_one_game_on_one_lwp() {
    ONE_GAME.everywhere();
}

#[test]
fn paper_test_2_one_game_with_concurrency_2() {
    Trial { concurrency: 2, ..ONE_GAME }.everywhere();
}

#[test]
fn paper_test_3_one_game_on_one_cpu() {
    Trial { one_cpu: true, ..ONE_GAME }.everywhere();
}

#[test]
fn paper_test_4_one_game_of_bound_threads_on_one_cpu() {
    Trial { one_cpu: true, attributes: BOUND, ..ONE_GAME }.everywhere();
}

#[test]
fn paper_test_5_four_games() {
    Trial { concurrency: 1, ..FOUR_GAMES }.everywhere();
}

#[test]
fn paper_test_6_four_games_with_concurrency_8() {
    FOUR_GAMES.everywhere();
}

#[test]
fn paper_test_7_four_games_with_shared_mutexes() {
    Trial { shared: true, ..FOUR_GAMES }.everywhere();
}

#[test]
fn paper_test_8_many_games_on_small_stacks() {
    Trial { concurrency: 2, ..CROWD }.everywhere();
}

#[test]
fn paper_test_9_many_games_on_one_lwp() {
    CROWD.everywhere();
}

#[test]
fn paper_test_10_many_games_with_concurrency_8_and_shared_mutexes() {
    Trial { concurrency: 8, shared: true, ..CROWD }.everywhere();
}

#[test]
fn players_may_sleep_or_meet_at_a_bottleneck() {
    let _watchdog = Watchdog::start("players that rest");
    for rest in [Rest::Sleep(Duration::from_millis(1)), Rest::Bottleneck] {
        let tournament = Tournament { rest, target: 20, ..FOUR_GAMES.tournament() };
        Mxn::new().unwrap().run(|| referee::<Private>(tournament));
        OneToOne::new().unwrap().run(|| referee::<Private>(tournament));
    }
}

#[test]
fn a_sleeping_game_takes_as_long_as_its_sleeps() {
    let _watchdog = Watchdog::start("a sleeping game");
    let rest = Rest::Sleep(Duration::from_millis(5));
    let tournament = Tournament { rest, target: 10, ..ONE_GAME.tournament() };
    let elapsed = Mxn::new().unwrap().run(|| play::<Private, _>(tournament, |_, _| ())).unwrap().all(1);
    assert!(elapsed >= Duration::from_millis(50), "{elapsed:?}");
}

/// `L`, with mutexes that notice a second holder.
enum Refereed<L> {
    #[expect(dead_code, reason = "a library has no values")]
    Never(L),
}

struct RefereedMutex<M> {
    inner: M,
    held: AtomicBool,
}

struct RefereedGuard<'a, G> {
    /// Taken only to wait.
    inner: Option<G>,
    held: &'a AtomicBool,
}

impl<'a, G> RefereedGuard<'a, G> {
    fn new(inner: G, held: &'a AtomicBool) -> Self {
        // Relaxed: the lock orders it; if it does not, that is what the assertion is for.
        assert!(!held.swap(true, Ordering::Relaxed), "two holders of one mutex");
        Self { inner: Some(inner), held }
    }

    fn leave(&mut self) -> Option<G> {
        let inner = self.inner.take();
        if inner.is_some() {
            assert!(self.held.swap(false, Ordering::Relaxed), "a mutex released that is free");
        }
        inner
    }
}

impl<G> Drop for RefereedGuard<'_, G> {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl<G: Deref> Deref for RefereedGuard<'_, G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        self.inner.as_ref().unwrap()
    }
}

impl<G: DerefMut> DerefMut for RefereedGuard<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.inner.as_mut().unwrap()
    }
}

impl<T: Send + 'static, M: Lock<T>> Lock<T> for RefereedMutex<M> {
    type Guard<'a> = RefereedGuard<'a, M::Guard<'a>>;

    fn new(value: T) -> Self {
        Self { inner: M::new(value), held: AtomicBool::new(false) }
    }

    fn lock(&self) -> Self::Guard<'_> {
        RefereedGuard::new(self.inner.lock(), &self.held)
    }
}

impl<L: Library> Library for Refereed<L> {
    type Mutex<T: Send + 'static> = RefereedMutex<L::Mutex<T>>;
    type Condvar = L::Condvar;
    type Thread = L::Thread;

    fn wait<'a, T: Send + 'static>(
        condvar: &Self::Condvar,
        mut guard: Guard<'a, Self, T>,
    ) -> Guard<'a, Self, T> {
        let held = guard.held;
        let inner = guard.leave().unwrap();
        RefereedGuard::new(L::wait(condvar, inner), held)
    }

    fn notify_one(condvar: &Self::Condvar) {
        L::notify_one(condvar);
    }

    fn notify_all(condvar: &Self::Condvar) {
        L::notify_all(condvar);
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        L::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        L::join(thread);
    }

    fn sleep(time: Duration) {
        L::sleep(time);
    }
}

fn options(line: &str) -> Result<Options, Refusal> {
    parse(line.split_whitespace(), None)
}

#[test]
fn options_default_to_the_papers() {
    let defaults = options("").unwrap();
    let Options { verbose, target, games, sleep_ms, shared, bound, concurrency, stack_size, model, json } =
        defaults;
    assert_eq!((verbose, target, games, sleep_ms), (false, 1_000_000, 1, 0));
    assert_eq!((shared, bound, concurrency, stack_size), (false, false, Concurrency::of(0), 0));
    assert_eq!((model, json), (Model::Mxn, false));
}

#[test]
fn options_are_read_as_getopt_reads_them() {
    let read =
        options("-v -i 100 -n5000 -z -1 -p shared -s system -c 8 -S 32768 -r onetoone --json").unwrap();
    assert_eq!((read.verbose, read.target, read.games, read.sleep_ms), (true, 100, 5000, -1));
    assert_eq!(
        (read.shared, read.bound, read.concurrency, read.stack_size),
        (true, true, Concurrency::of(8), 32768)
    );
    assert_eq!((read.model, read.json), (Model::OneToOne, true));
    let Tournament { games, target, rest, attributes } = read.tournament();
    assert_eq!((games, target, rest), (5000, 100, Rest::Bottleneck));
    assert_eq!(attributes, Attributes { stack_size: Some(32768), bound: true });
    assert_eq!(options("-vn4").unwrap(), Options { verbose: true, games: 4, ..options("").unwrap() });
    assert_eq!(options("-z 7").unwrap().tournament().rest, Rest::Sleep(Duration::from_millis(7)));
    assert_eq!(options("-S 0").unwrap().tournament().attributes.stack_size, None);
}

#[test]
fn wrong_options_are_named() {
    let wrong = [
        ("-n 0", "-n 0"),
        ("-n -3", "-n -3"),
        ("-n 4x", "-n 4x"),
        ("-i 0", "-i 0"),
        ("-i 5000000000", "-i 5000000000"),
        ("-z -2", "-z -2"),
        ("-p public", "-p public"),
        ("-s user", "-s user"),
        ("-c -1", "-c -1"),
        ("-S -1", "-S -1"),
        ("-S 99999999999999999999", "-S 99999999999999999999"),
        ("-r solaris", "-r solaris"),
        ("-r std -p shared", "-p shared"),
        ("-q", "-q"),
        ("-n", "-n"),
        ("--games 4", "--games"),
        ("table", "table"),
    ];
    for (line, named) in wrong {
        match options(line) {
            Err(Refusal::Wrong(what)) => assert!(what.contains(named), "{line}: {what}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    assert_eq!(options("-?"), Err(Refusal::Help));
}

#[test]
fn the_environment_chooses_the_runtime_unless_an_option_does() {
    let read = |line: &str, value: &str| parse(line.split_whitespace(), Some(value.into()));
    assert_eq!(read("", "onetoone").unwrap().model, Model::OneToOne);
    assert_eq!(read("-r mxn", "onetoone").unwrap().model, Model::Mxn);
    let Err(Refusal::Wrong(what)) = read("", "both") else { panic!("accepted") };
    assert!(what.contains("SELVEDGE_RUNTIME both") && what.contains("mxn, onetoone"), "{what}");
}

/// The command line for [`the_program_itself`].
const ARGUMENTS: &str = "PINGPONG_TEST_ARGUMENTS";

/// Not a test unless [`pingpong`] runs it, in a process of its own: the program, with its exit status.
#[test]
fn the_program_itself() {
    if let Ok(line) = std::env::var(ARGUMENTS) {
        let status = program::run(line.split_whitespace(), std::env::var_os("SELVEDGE_RUNTIME"));
        std::process::exit(status.into());
    }
}

/// Runs the program with a limit on its address space, and a shell's alarm clock.
fn pingpong(arguments: &str, kilobytes: Option<u64>) -> Output {
    let limit = kilobytes.map_or("unlimited".to_owned(), |number| number.to_string());
    let script =
        format!("ulimit -v {limit}; exec timeout -s KILL 120 \"$0\" --exact the_program_itself --nocapture");
    Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(ARGUMENTS, arguments)
        .env_remove("SELVEDGE_RUNTIME")
        .output()
        .unwrap()
}

#[test]
fn the_program_prints_the_papers_form() {
    for model in ["mxn", "onetoone", "std"] {
        let output = pingpong(&format!("-v -n 4 -i 100 -r {model}"), None);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{model}: {}: {text}", output.status);
        let configuration = format!(
            "\nPING-PONG CONFIGURATION:\n\n\
             target          (-i) = 100\n\
             ntables         (-n) = 4\n\
             sleepms         (-z) = 0\n\
             pthread_scope   (-s) = process\n\
             pthread_process (-p) = private\n\
             concurrency     (-c) = 0\n\
             stacksize       (-S) = 0\n\
             runtime         (-r) = {model}\n\n\
             8 threads initialised in "
        );
        assert!(text.contains(&configuration), "{text}");
        let times: Vec<_> = text.lines().filter(|line| line.ends_with(" ms")).collect();
        let [initialised, completed] = times[..] else { panic!("{text}") };
        assert!(initialised.starts_with("8 threads initialised in "), "{initialised}");
        assert!(completed.starts_with("4 games completed in "), "{completed}");
    }
}

#[test]
fn the_program_refuses_a_bad_command_line_with_its_usage() {
    // A request for the usage is not bad input.
    for (line, named, status) in [
        ("-?", "usage: pingpong", 0),
        ("--help", "usage: pingpong", 0),
        ("-n 0", "-n 0", 1),
        ("-x", "-x", 1),
        ("-r vax", "-r vax", 1),
    ] {
        let output = pingpong(line, None);
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_eq!(output.status.code(), Some(status), "{line}: {text}");
        assert!(
            text.contains(named) && text.contains("usage: pingpong [-v] [-i <target>]"),
            "{line}: {text}"
        );
    }
}

#[test]
fn too_many_threads_are_an_error_and_no_hang() {
    // Large stacks for kernel threads: where the space ends within kilobytes of a stack, std aborts in
    // the new thread.
    for (model, stack_size) in [("mxn", 0), ("onetoone", 256 << 20)] {
        let line = format!("-v -n 1000000 -i 1 -r {model} -S {stack_size}");
        let output = pingpong(&line, Some(4 << 20));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{model}: {}: {text}", output.status);
        assert!(text.contains("pingpong: cannot start thread "), "{model}: {text}");
    }
}

#[test]
fn an_absurd_stack_is_an_error() {
    for model in ["mxn", "onetoone"] {
        let output = pingpong(&format!("-S 4611686018427387904 -i 1 -r {model}"), None);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{model}: {}: {text}", output.status);
        assert!(text.contains("pingpong: cannot start thread 1 of 2: "), "{model}: {text}");
    }
}

/// Keeps the calling thread, and what it starts, on one CPU.
fn stay_on_one_cpu() {
    // SAFETY: all zeroes is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; `set` is as large as is said.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) }, 0);
    // SAFETY: no CPU of the range lies outside of the set.
    let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).unwrap();
    // SAFETY: all zeroes is a valid, empty set.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `first` lies within the set.
    unsafe { libc::CPU_SET(first, &mut one) };
    // SAFETY: 0 is the calling thread; `one` is as large as is said.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) }, 0);
}
