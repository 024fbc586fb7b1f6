//! Calls that block in the kernel, of every kind that a program may make, and the calls that end them.
//!
//! Most are made by number (`libc::syscall`), so that they block also in builds in which functions of the C
//! library are answered for green threads (feature `interpose`). Those of std are answered there.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

use tempfile::TempDir;

/// A pipe, read and written a byte at a time by the system calls themselves.
pub(crate) struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

/// The number of a successful call.
#[track_caller]
pub(crate) fn check(result: impl TryInto<i64>) -> i64 {
    let number = result.try_into().unwrap_or(-1);
    assert!(number >= 0, "{}", io::Error::last_os_error());
    number
}

impl Pipe {
    pub(crate) fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: room for two numbers.
        check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) });
        // SAFETY: new, and ours alone.
        let [from, to] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Self { from, to }
    }

    pub(crate) fn reader(&self) -> c_int {
        self.from.as_raw_fd()
    }

    pub(crate) fn read(&self) {
        let mut byte = 0_u8;
        // SAFETY: room for one byte.
        let read = unsafe { libc::syscall(libc::SYS_read, self.from.as_raw_fd(), &raw mut byte, 1_usize) };
        assert_eq!(check(read), 1);
    }

    /// Returns `true` if the kernel finds memory at `address` that the process may read.
    pub(crate) fn can_read(&self, address: usize) -> bool {
        // SAFETY: the kernel looks before it reads.
        let sent = unsafe { libc::syscall(libc::SYS_write, self.to.as_raw_fd(), address, 1_usize) };
        if sent == 1 {
            self.read();
        }
        sent == 1
    }

    pub(crate) fn write(&self) {
        // SAFETY: one byte to read.
        let written =
            unsafe { libc::syscall(libc::SYS_write, self.to.as_raw_fd(), [1_u8].as_ptr(), 1_usize) };
        assert_eq!(check(written), 1);
    }
}

/// Sleeps by the system call, which says when a signal has cut it short.
pub(crate) fn nanosleep(time: Duration) {
    let mut left = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: both are alive, and the kernel reads the first before it writes the second.
    while unsafe { libc::syscall(libc::SYS_nanosleep, &raw const left, &raw mut left) } != 0 {
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
    }
}

/// Lets one thread block, and another end that. Called by a green thread. Runs its first argument in a green
/// thread until that is blocked, and then its second.
pub(crate) type Meet<'a> = &'a dyn Fn(&(dyn Fn() + Sync), &mut dyn FnMut());

/// One kind of call: makes what it needs, and lets the two meet.
pub(crate) type Kind = (&'static str, fn(Meet<'_>));

/// Returns `true` if a kind waits as a green thread where functions of the C library are answered.
pub(crate) fn is_stds(name: &str) -> bool {
    name.starts_with("std ")
}

/// Calls that wait for what another thread does.
pub(crate) const KINDS: &[Kind] = &[
    ("read", |meet| {
        let pipe = Pipe::new();
        meet(&|| pipe.read(), &mut || pipe.write());
    }),
    ("write to a full pipe", |meet| {
        let pipe = Pipe::new();
        let full = vec![0; 4096];
        // SAFETY: sets a flag of our own descriptor.
        check(unsafe { libc::fcntl(pipe.to.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) });
        // SAFETY: a page to read.
        while unsafe { libc::write(pipe.to.as_raw_fd(), full.as_ptr().cast(), full.len()) } > 0 {}
        // SAFETY: clears the flag of our own descriptor.
        check(unsafe { libc::fcntl(pipe.to.as_raw_fd(), libc::F_SETFL, 0) });
        meet(&|| pipe.write(), &mut || {
            let mut page = [0_u8; 4096];
            // SAFETY: room for a page.
            check(unsafe { libc::read(pipe.reader(), page.as_mut_ptr().cast(), page.len()) });
        });
    }),
    ("nanosleep", |meet| {
        let over = AtomicBool::new(false);
        let sleep = || {
            while !over.load(Ordering::Relaxed) {
                nanosleep(Duration::from_micros(500));
            }
        };
        meet(&sleep, &mut || over.store(true, Ordering::Relaxed));
    }),
    ("futex", |meet| {
        let word = AtomicU32::new(0);
        let wait = || {
            while word.load(Ordering::Acquire) == 0 {
                // SAFETY: the word is alive, and there is no deadline.
                unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        word.as_ptr(),
                        libc::FUTEX_WAIT,
                        0,
                        std::ptr::null::<libc::timespec>(),
                    )
                };
            }
        };
        meet(&wait, &mut || {
            word.store(1, Ordering::Release);
            // SAFETY: wakes the waiters on the word, and does not look at it.
            check(unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) });
        });
    }),
    ("std Mutex", |meet| {
        let mutex = Mutex::new(0);
        let mut held = Some(mutex.lock().unwrap());
        meet(&|| *mutex.lock().unwrap() += 1, &mut || {
            let mut guard = held.take().expect("released once");
            assert_eq!(*guard, 0, "a locked mutex let a thread in");
            *guard = 1;
        });
        assert_eq!(*mutex.lock().unwrap(), 2);
    }),
    ("std RwLock", |meet| {
        let lock = RwLock::new(0);
        let mut held = Some(lock.read().unwrap());
        meet(&|| *lock.write().unwrap() += 1, &mut || assert_eq!(*held.take().expect("released once"), 0));
        assert_eq!(*lock.read().unwrap(), 1);
    }),
    ("std Condvar", |meet| {
        let (open, changed) = (Mutex::new(false), Condvar::new());
        meet(&|| drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap()), &mut || {
            *open.lock().unwrap() = true;
            changed.notify_one();
        });
    }),
    ("std mpsc", |meet| {
        let (send, receive) = mpsc::channel();
        let receive = Mutex::new(receive);
        meet(&|| assert_eq!(receive.lock().unwrap().recv(), Ok(7)), &mut || send.send(7).unwrap());
    }),
    ("std Barrier", |meet| {
        let barrier = Barrier::new(2);
        meet(
            &|| {
                barrier.wait();
            },
            &mut || {
                barrier.wait();
            },
        );
    }),
    ("std park", |meet| {
        let parked: Mutex<Option<std::thread::Thread>> = Mutex::new(None);
        let open = AtomicBool::new(false);
        let park = || {
            *parked.lock().unwrap() = Some(std::thread::current());
            while !open.load(Ordering::Acquire) {
                std::thread::park();
            }
        };
        meet(&park, &mut || {
            open.store(true, Ordering::Release);
            parked.lock().unwrap().as_ref().expect("it parks").unpark();
        });
    }),
    ("pthread mutex", |meet| {
        let mutex = CMutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        mutex.lock();
        meet(
            &|| {
                mutex.lock();
                mutex.unlock();
            },
            &mut || mutex.unlock(),
        );
    }),
    ("flock", |meet| {
        let file = Scratch::new("flock");
        let (mine, theirs) = (file.open(), file.open());
        flock(&mine, libc::LOCK_EX);
        meet(
            &|| {
                flock(&theirs, libc::LOCK_EX);
                flock(&theirs, libc::LOCK_UN);
            },
            &mut || flock(&mine, libc::LOCK_UN),
        );
    }),
    ("poll", |meet| {
        let pipe = Pipe::new();
        let poll = || {
            let mut wanted = libc::pollfd { fd: pipe.reader(), events: libc::POLLIN, revents: 0 };
            let mut call = || {
                // SAFETY: one entry, for as long as it takes, and no set of signals.
                unsafe { libc::syscall(libc::SYS_ppoll, &raw mut wanted, 1_usize, 0_usize, 0_usize, 0_usize) }
            };
            // A signal may end it early; what it waits for has not happened then.
            while call() != 1 {
                assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
            }
        };
        meet(&poll, &mut || pipe.write());
    }),
    ("accept", |meet| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = None;
        let accept = || {
            // SAFETY: an open socket, and no address wanted.
            let accepted = check(unsafe {
                libc::syscall(libc::SYS_accept4, listener.as_raw_fd(), 0_usize, 0_usize, libc::SOCK_CLOEXEC)
            });
            // SAFETY: new, and ours alone.
            drop(unsafe { OwnedFd::from_raw_fd(accepted as c_int) });
        };
        meet(&accept, &mut || stream = Some(TcpStream::connect(address).unwrap()));
    }),
    ("connect", |meet| {
        // The queue of a Unix socket is as long as it says. A sender that finds it full waits.
        let file = Scratch::new("connect");
        let listener = UnixListener::bind(&file.0).unwrap();
        // SAFETY: changes the length of the queue.
        check(unsafe { libc::listen(listener.as_raw_fd(), 0) });
        let _first = UnixStream::connect(&file.0).unwrap();
        let mut accepted = None;
        meet(&|| drop(UnixStream::connect(&file.0).unwrap()), &mut || {
            accepted = Some(listener.accept().unwrap());
        });
    }),
    ("receive with a timeout", |meet| {
        let (mine, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        let receive = || {
            let mut byte = 0_u8;
            // SAFETY: room for one byte.
            let mut read =
                || unsafe { libc::syscall(libc::SYS_read, theirs.as_raw_fd(), &raw mut byte, 1_usize) };
            // Restarted by hand: with a timeout, a signal surfaces.
            while read() != 1 {
                assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
            }
        };
        meet(&receive, &mut || (&mine).write_all(&[1]).unwrap());
    }),
    ("open of a FIFO", |meet| {
        let file = Scratch::new("fifo");
        let name = std::ffi::CString::new(file.0.to_str().unwrap()).unwrap();
        // SAFETY: a name that ends.
        check(unsafe { libc::mkfifo(name.as_ptr(), 0o600) });
        let mut writer = None;
        meet(&|| drop(File::open(&file.0).unwrap()), &mut || {
            writer = Some(OpenOptions::new().write(true).open(&file.0).unwrap());
        });
    }),
];

/// A process that ends when its standard input does.
fn process() -> Child {
    let mut cat = Command::new("cat");
    cat.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program cat")
}

/// Kinds that cost a process each time.
pub(crate) const PROCESSES: &[Kind] = &[
    ("std Child::wait", |meet| {
        let mut child = process();
        let mut stdin = child.stdin.take();
        let child = Mutex::new(child);
        meet(&|| assert!(child.lock().unwrap().wait().unwrap().success()), &mut || drop(stdin.take()));
    }),
    ("waitid", |meet| {
        let mut child = process();
        let mut stdin = child.stdin.take();
        let wait = || {
            // SAFETY: all zeroes is a valid value.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            let options = libc::WEXITED | libc::WNOWAIT;
            // SAFETY: room for the information; the child is ours.
            check(unsafe {
                libc::syscall(libc::SYS_waitid, libc::P_PID, child.id(), &raw mut info, options, 0_usize)
            });
            assert_eq!(info.si_code, libc::CLD_EXITED);
        };
        meet(&wait, &mut || drop(stdin.take()));
        assert!(child.wait().unwrap().success());
    }),
];

/// Looks up a name, which goes through files, sockets and locks of the C library.
///
/// If glibc finds no name service daemon, it sets a counter to 1. If the counter is not 0, it goes on to the
/// files. Each further look-up counts, and the hundredth sets the counter to 0 and looks for the daemon again. A
/// thread that gets no CPU between the two steps may see that 0. Its look-up fails with a system error, and
/// `errno` is as it was.
pub(crate) fn look_up() {
    let found = loop {
        // SAFETY: takes nothing.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: the calling thread's own.
        unsafe { *errno = 0 };
        match ("localhost", 80).to_socket_addrs() {
            Err(error) if error.raw_os_error() == Some(0) => {}
            found => break found.expect("localhost has an address"),
        }
    };
    let found: Vec<_> = found.collect();
    assert!(found.iter().all(|address| address.ip().is_loopback()) && !found.is_empty(), "{found:?}");
}

/// A file mapping, to be read after its pages were pushed out of memory.
pub(crate) struct Pages {
    file: Scratch,
    start: *mut u8,
}

impl Pages {
    const COUNT: usize = 16;
    const SIZE: usize = 4096;

    pub(crate) fn new() -> Self {
        let file = Scratch::new("pages");
        let content: Vec<u8> = (0..Self::COUNT * Self::SIZE).map(|at| (at / Self::SIZE) as u8 + 1).collect();
        let open = file.open();
        (&open).write_all(&content).unwrap();
        open.sync_all().unwrap();
        // SAFETY: a new mapping, where the kernel likes.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                content.len(),
                libc::PROT_READ,
                libc::MAP_SHARED,
                open.as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Self { file, start: start.cast() }
    }

    /// Pushes the pages out and faults them in. `false`: this kernel or file system does not push them out.
    pub(crate) fn fault(&self) -> bool {
        let length = Self::COUNT * Self::SIZE;
        // SAFETY: our mapping; its file keeps the content.
        let out = unsafe { libc::madvise(self.start.cast(), length, libc::MADV_PAGEOUT) } == 0;
        // SAFETY: no memory of the program is involved.
        unsafe { libc::posix_fadvise(self.file.open().as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        for page in 0..Self::COUNT {
            let byte = self.start.wrapping_add(page * Self::SIZE);
            // SAFETY: within the mapping; volatile, so that it is read at all.
            assert_eq!(unsafe { byte.read_volatile() }, page as u8 + 1);
        }
        out
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no thread reads it any more.
        unsafe { libc::munmap(self.start.cast(), Self::COUNT * Self::SIZE) };
    }
}

/// A file name in a temporary folder, which is removed when this is dropped.
pub(crate) struct Scratch(
    pub(crate) PathBuf,
    #[expect(dead_code, reason = "kept for its destructor")] TempDir,
);

impl Scratch {
    pub(crate) fn new(what: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self(folder.path().join(what), folder)
    }

    fn open(&self) -> File {
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&self.0).unwrap()
    }
}

fn flock(file: &File, operation: c_int) {
    // SAFETY: an open file.
    check(unsafe { libc::flock(file.as_raw_fd(), operation) });
}

/// A `pthread_mutex_t` without a value.
struct CMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: that is what it is for.
unsafe impl Sync for CMutex {}

impl CMutex {
    fn lock(&self) {
        // SAFETY: initialised, and alive.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: initialised, alive, and locked by the caller.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}
