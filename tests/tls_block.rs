//! What the process does to all of its threads at once, while green threads stand on blocks of their own. It
//! changes users, and loads modules with thread-locals.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use selvedge::ThreadRegister;
use selvedge::{Mxn, Runtime, thread};
use watchdog::Watchdog;

/// Runs `scenario` on every rung that has blocks.
fn on_blocks(name: &str, scenario: impl Fn() + Sync) {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall] {
        let _watchdog = Watchdog::start(format!("{name} on {rung:?}"));
        match Mxn::builder().concurrency(2).migrate_always(true).thread_register(rung).build() {
            Ok(runtime) => runtime.run(&scenario),
            Err(why) => println!("skipped: {name} on {rung:?}: {why}"),
        }
    }
}

/// glibc signals every kernel thread and waits for each to answer; one that computes on a block must, too.
#[test]
fn a_change_of_user_reaches_busy_threads() {
    if cfg!(target_env = "musl") {
        println!("skipped: from a green thread, musl changes the user of one kernel thread");
        return;
    }
    on_blocks("a_change_of_user_reaches_busy_threads", || {
        let (stop, busy) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                busy.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let changer = scope.spawn(|| {
                while busy.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
                // SAFETY: takes nothing.
                let user = unsafe { libc::getuid() };
                for _ in 0..20 {
                    // SAFETY: the user that we are.
                    assert_eq!(unsafe { libc::setuid(user) }, 0);
                    thread::yield_now();
                }
            });
            let result = changer.join();
            stop.store(true, Ordering::Relaxed);
            result.unwrap();
        });
    });
}

/// How code finds thread-locals of a module that may come later.
#[derive(Clone, Copy, Debug)]
enum Dialect {
    /// It calls a function of the loader. Compilers for x86-64 write this by default.
    Traditional,
    /// It calls the function that the loader has put into a descriptor. Compilers for aarch64 write this by
    /// default.
    Descriptors,
}

impl Dialect {
    /// The option of the C compiler.
    fn option(self) -> Option<&'static str> {
        match self {
            Self::Traditional if cfg!(target_arch = "aarch64") => Some("-mtls-dialect=trad"),
            Self::Descriptors if cfg!(target_arch = "aarch64") => Some("-mtls-dialect=desc"),
            Self::Traditional if cfg!(target_arch = "x86_64") => Some("-mtls-dialect=gnu"),
            Self::Descriptors if cfg!(target_arch = "x86_64") => Some("-mtls-dialect=gnu2"),
            _ => None,
        }
    }
}

/// A module with a thread-local that starts at 40.
struct Module(extern "C" fn() -> i32);

impl Module {
    /// Compiles it and loads it for good; `None`, with words, where there is no C compiler. `dialect` is how
    /// the module finds its thread-locals, which take at least `size` bytes.
    fn load(model: &str, dialect: Dialect, size: usize) -> Option<Self> {
        let place = format!(r#"static __thread __attribute__((tls_model("{model}")))"#);
        let source = format!(
            "{place} int counter = 40; {place} char zeros[{size}];
             int bump(void) {{ return ++counter + zeros[{size} - 1]; }}"
        );
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("module.c"), folder.path().join("module.so"));
        std::fs::write(&from, source).unwrap();
        let own = if cfg!(target_env = "musl") { "musl-gcc" } else { "cc" };
        let compiler = std::env::var_os("CC").unwrap_or_else(|| own.into());
        let made = Command::new(compiler)
            .args(dialect.option())
            .args(["-shared", "-fPIC", "-o"])
            .args([&to, &from])
            .output();
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                println!("skipped: no C compiler to make a module with: {error}");
                return None;
            }
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let path = CString::new(to.to_str().unwrap()).unwrap();
        // SAFETY: a module of ours, without constructors.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() && cfg!(target_feature = "crt-static") {
            println!("skipped: a static program loads no modules");
            return None;
        }
        if handle.is_null() && cfg!(target_env = "musl") && model == "initial-exec" {
            println!("skipped: musl loads no module later that needs static thread-locals");
            return None;
        }
        assert!(!handle.is_null());
        // The module stays loaded without its file.
        drop(folder);
        // SAFETY: the module is loaded.
        let bump = unsafe { libc::dlsym(handle, c"bump".as_ptr()) };
        assert!(!bump.is_null());
        // SAFETY: its type in the source above.
        Some(Self(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> i32>(bump) }))
    }

    /// Uses it as a thread that has not before.
    fn is_fresh(&self) {
        for expected in 41..60 {
            assert_eq!((self.0)(), expected);
            thread::yield_now();
        }
    }
}

#[test]
fn a_plain_module_is_right_in_every_thread() {
    right_in_every_thread(Dialect::Traditional, 1);
}

/// Too large for what the loader keeps free in each block, where it puts what has descriptors.
#[test]
fn a_large_module_with_descriptors_is_right_in_every_thread() {
    right_in_every_thread(Dialect::Descriptors, 100_000);
}

/// In threads that lived before the module was loaded, and in those that came after.
fn right_in_every_thread(dialect: Dialect, size: usize) {
    on_blocks(&format!("{dialect:?}, {size} bytes"), || {
        let loaded = std::sync::OnceLock::new();
        let (loaded, waiting) = (&loaded, &AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    while loaded.get().is_none() {
                        thread::yield_now();
                    }
                    if let Some(Some(module)) = loaded.get() {
                        Module::is_fresh(module);
                    }
                });
            }
            while waiting.load(Ordering::Relaxed) < 8 {
                thread::yield_now();
            }
            loaded.set(Module::load("global-dynamic", dialect, size)).ok().unwrap();
        });
        thread::scope(|scope| {
            if let Some(Some(module)) = loaded.get() {
                for _ in 0..20 {
                    scope.spawn(|| Module::is_fresh(module));
                }
            }
        });
    });
}

/// Static thread-locals: right in every thread that starts after the module was loaded, on whatever stack.
#[test]
fn a_module_with_static_thread_locals_is_right_in_later_threads() {
    right_in_later_threads("initial-exec", Dialect::Traditional);
}

/// The loader makes them static if there is room. Threads that lived before are not promised those.
#[test]
fn a_module_with_descriptors_is_right_in_later_threads() {
    right_in_later_threads("global-dynamic", Dialect::Descriptors);
}

fn right_in_later_threads(model: &str, dialect: Dialect) {
    on_blocks(&format!("{model} in later threads"), || {
        // Stacks that have had a thread, and so a block without the module.
        thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(thread::yield_now))));
        let Some(module) = Module::load(model, dialect, 1) else { return };
        for _ in 0..5 {
            thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(|| module.is_fresh()))));
        }
    });
}
