//! Other processes, and the file that they share with this one.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, fs, ptr, thread as kernel};

use super::Common;

const ROLE: &str = "SELVEDGE_TEST_ROLE";
const FILE: &str = "SELVEDGE_TEST_FILE";

pub(crate) struct Mapping {
    common: *mut Common,
    file: PathBuf,
}

impl Mapping {
    /// A new file, zeroed.
    pub(crate) fn new(name: &str) -> Self {
        // The file is kept, because other processes open it by name. Dropping the mapping removes it.
        let (_, file) = tempfile::Builder::new()
            .prefix(name)
            .tempfile()
            .and_then(|file| file.keep().map_err(|kept| kept.error))
            .expect("a file");
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&file)
            .expect("a file");
        made.set_len(size_of::<Common>() as u64).expect("room for it");
        Self::map(&made, file)
    }

    fn map(open: &File, file: PathBuf) -> Self {
        // SAFETY: a new mapping of our own.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Common>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                open.as_raw_fd(),
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        Self { common: memory.cast(), file }
    }

    pub(crate) fn common(&self) -> &'static Common {
        // SAFETY: zeroed or in use, large enough, and mapped until the process ends.
        unsafe { &*self.common }
    }

    /// In another process: the role, and the parent's file.
    pub(crate) fn of_parent() -> Option<(String, Self)> {
        let role = env::var(ROLE).ok()?;
        let file = PathBuf::from(env::var_os(FILE).expect("a file"));
        let open = OpenOptions::new().read(true).write(true).open(&file).expect("the parent's file");
        Some((role, Self::map(&open, file)))
    }

    /// Another process, which plays `role`.
    pub(crate) fn play(&self, role: &str) -> Actor {
        let mut command = Command::new(env::current_exe().expect("the test program"));
        command.args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(FILE, &self.file);
        Actor(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("a child"))
    }

    /// Waits until so many have said that they are ready. `last` is the last of them.
    pub(crate) fn wait_ready(&self, count: u32, last: &mut Actor) {
        while self.common().ready.load(SeqCst) < count {
            assert_eq!(last.0.try_wait().expect("a child"), None, "it ends before it is ready");
            kernel::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A child's is the parent's.
        if env::var_os(ROLE).is_none() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// Another process. Killed when dropped.
pub(crate) struct Actor(Child);

impl Actor {
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("a child to kill");
    }

    pub(crate) fn wait(&mut self) -> bool {
        self.0.wait().expect("a child to wait for").success()
    }

    /// Waits until all its threads sleep in the kernel.
    pub(crate) fn until_asleep(&self) {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.0.id()));
        let all_sleep = || fs::read_dir(&tasks).expect("it runs").flatten().all(|task| sleeps(&task.path()));
        while !all_sleep() {
            kernel::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns `true` if a kernel thread sleeps, or has ended.
fn sleeps(task: &Path) -> bool {
    !fs::read_to_string(task.join("stat")).is_ok_and(|stat| !stat.contains(") S "))
}

/// A kernel thread of this process, which others are to see asleep.
pub(crate) struct Seen(Arc<OnceLock<PathBuf>>);

/// Returns what does the same as `act`, and what sees the kernel thread that does so.
pub(crate) fn seen<T>(act: impl FnOnce() -> T) -> (impl FnOnce() -> T, Seen) {
    let task = Arc::new(OnceLock::new());
    let seen = Seen(Arc::clone(&task));
    let acts = move || {
        let own = fs::read_link("/proc/thread-self").expect("a Linux kernel");
        task.set(Path::new("/proc").join(own)).expect("it is done once");
        act()
    };
    (acts, seen)
}

impl Seen {
    /// Waits until it sleeps in the kernel.
    pub(crate) fn until_asleep(&self) {
        while !self.0.get().is_some_and(|task| sleeps(task)) {
            kernel::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
