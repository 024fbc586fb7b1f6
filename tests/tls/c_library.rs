//! What the C library keeps for each thread.

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use selvedge::sync::Mutex;
use selvedge::thread;

use super::crew::{HOPS, crew};

/// Public, and absent from the crate libc for musl.
#[cfg(target_env = "gnu")]
const ALL_CATEGORIES: libc::c_int = libc::LC_ALL_MASK;
#[cfg(not(target_env = "gnu"))]
const ALL_CATEGORIES: libc::c_int = 0x7fff_ffff;

// The calls of the C library that have no preconditions.
unsafe extern "C" {
    safe fn inet_ntoa(address: libc::in_addr) -> *mut c_char;
    safe fn strerror(code: c_int) -> *mut c_char;
    safe fn __ctype_get_mb_cur_max() -> usize;
    safe fn __errno_location() -> *mut c_int;
}

/// `LC_GLOBAL_LOCALE`: the locale that threads use until they choose one.
const GLOBAL_LOCALE: libc::locale_t = std::ptr::without_provenance_mut(usize::MAX);

fn is_alpha(c: u8) -> bool {
    // SAFETY: in the range of unsigned char.
    unsafe { libc::isalpha(c.into()) != 0 }
}

fn text<'a>(start: *const c_char) -> &'a str {
    // SAFETY: the callers pass strings of the C library, and use them only while they stand.
    unsafe { CStr::from_ptr(start) }.to_str().expect("ASCII")
}

pub(crate) fn errno_is_kept() -> usize {
    let places = Arc::new(Mutex::new(HashSet::new()));
    crew(24, move |member| {
        let place = __errno_location();
        places.lock().insert(place.addr());
        for round in 0..HOPS {
            let mine = 1000 + (member.index * HOPS + round) as c_int;
            // SAFETY: the address of this thread's errno, which no other thread writes.
            unsafe { *place = mine };
            // Not `hop`: a sleep may fail in the kernel and say so in errno.
            member.across(thread::yield_now);
            assert_eq!(__errno_location(), place);
            // SAFETY: this thread's errno, which no other thread writes.
            assert_eq!(unsafe { *place }, mine, "errno of another thread, or lost in the runtime");
        }
    })
}

pub(crate) fn characters_tokens_and_numbers() -> usize {
    // `strtok` has one state for the process, so the lock is for all runtimes; it is held across switches.
    static STRTOK: Mutex<()> = Mutex::new(());
    crew(16, |member| {
        for round in 0..HOPS / 10 {
            // `isalpha` and `strtod` go through a table that each thread points to.
            assert!(is_alpha(b'x') && !is_alpha(b'7'));
            member.hop();
            assert!(is_alpha(b'Q') && !is_alpha(b'['));
            // SAFETY: a string with its end.
            assert_eq!(unsafe { libc::strtod(c"2.5e3".as_ptr(), null_mut()) }, 2500.0);

            let mut line = format!("a{round},b{},c\0", member.index).into_bytes();
            let mut words = Vec::new();
            {
                let _only_me = STRTOK.lock();
                // SAFETY: a string of our own, and no other thread calls strtok meanwhile.
                let mut word = unsafe { libc::strtok(line.as_mut_ptr().cast(), c",".as_ptr()) };
                while !word.is_null() {
                    words.push(text(word).to_string());
                    member.hop();
                    // SAFETY: the string is still there, and no other thread calls strtok meanwhile.
                    word = unsafe { libc::strtok(null_mut(), c",".as_ptr()) };
                }
            }
            assert_eq!(words, [format!("a{round}"), format!("b{}", member.index), "c".into()]);
        }
    })
}

pub(crate) fn static_buffers_are_per_thread() -> usize {
    let is_shared = |own: fn() -> usize| own() == std::thread::spawn(own).join().expect("an address");
    if is_shared(|| inet_ntoa(libc::in_addr { s_addr: 0 }).addr()) {
        println!("skipped: this C library has one buffer for all threads");
        return crew(16, |member| (0..HOPS).for_each(|_| member.hop()));
    }
    // Up to glibc 2.31, this one is.
    let message_is_shared = is_shared(|| strerror(100_000).addr());
    crew(16, move |member| {
        for round in 0..HOPS {
            let octets = [10, member.index as u8, round as u8, 1];
            let code = 100_000 + member.index as c_int;
            // Both answers live in buffers of the calling thread until it asks again.
            let address = inet_ntoa(libc::in_addr { s_addr: u32::from_ne_bytes(octets) });
            let message = strerror(code);
            member.hop();
            assert_eq!(text(address), format!("10.{}.{}.1", member.index, round as u8));
            if !message_is_shared {
                assert!(text(message).ends_with(&code.to_string()), "{:?}", text(message));
            }
        }
    })
}

pub(crate) fn names_are_resolved() -> usize {
    crew(6, |member| {
        for round in 0..8 {
            // SAFETY: all zeros is a valid hint.
            let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
            hints.ai_family = libc::AF_INET;
            hints.ai_socktype = libc::SOCK_STREAM;
            let (node, service) =
                if round % 2 == 0 { (c"localhost", c"80") } else { (c"127.0.0.1", c"http") };
            if round % 2 == 1 {
                hints.ai_flags = libc::AI_NUMERICHOST;
            }
            let numeric = if round % 2 == 1 { c"80" } else { service };
            let mut list = null_mut();
            // SAFETY: strings with their ends, hints that live, a place for the result.
            let failed = unsafe { libc::getaddrinfo(node.as_ptr(), numeric.as_ptr(), &hints, &mut list) };
            assert_eq!(failed, 0, "getaddrinfo of {node:?}");
            member.hop();
            // SAFETY: the call succeeded, so there is a first entry.
            let address = unsafe { *list }.ai_addr.cast::<libc::sockaddr_in>();
            // SAFETY: it is of the family that was asked for.
            let first = unsafe { *address };
            // SAFETY: the list came from getaddrinfo and is freed once.
            unsafe { libc::freeaddrinfo(list) };
            assert_eq!(first.sin_addr.s_addr.to_ne_bytes(), [127, 0, 0, 1]);
            assert_eq!(first.sin_port, 80_u16.to_be());
        }
    })
}

/// A block of the C library's heap, filled with a pattern.
struct Block {
    start: *mut u8,
    len: usize,
    pattern: u8,
}

// SAFETY: plain memory, with one owner.
unsafe impl Send for Block {}

impl Block {
    fn new(len: usize, pattern: u8) -> Self {
        // SAFETY: no preconditions.
        let start = unsafe { libc::malloc(len) }.cast::<u8>();
        assert!(!start.is_null());
        // SAFETY: `len` bytes of our own.
        unsafe { start.write_bytes(pattern, len) };
        Self { start, len, pattern }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: written whole by `new`.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.len) };
        assert!(bytes.iter().all(|&byte| byte == self.pattern), "another thread's memory");
        // SAFETY: from malloc, freed once.
        unsafe { libc::free(self.start.cast()) };
    }
}

pub(crate) fn memory_is_freed_by_others() -> usize {
    let shared: Arc<Mutex<Vec<Block>>> = Arc::default();
    let left = shared.clone();
    let migrations = crew(16, move |member| {
        for round in 0..HOPS {
            let len = [16, 24, 100, 1000, 5000, 200_000][(round + member.index) % 6];
            let block = Block::new(len, member.index as u8);
            member.hop();
            let taken = {
                let mut shared = shared.lock();
                shared.push(block);
                if shared.len() > 32 { shared.drain(..8).collect() } else { Vec::new() }
            };
            drop(taken);
        }
    });
    left.lock().clear();
    migrations
}

/// How often `count_value` ran, and the sum of what it was given.
static KEY_DESTRUCTORS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

unsafe extern "C" fn count_value(value: *mut c_void) {
    KEY_DESTRUCTORS[0].fetch_add(1, Ordering::Relaxed);
    KEY_DESTRUCTORS[1].fetch_add(value.addr(), Ordering::Relaxed);
}

pub(crate) fn pthread_keys_and_their_destructors() -> usize {
    // Other rungs run this test at the same time, in the same process.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // More than the 32 that glibc keeps in the control block itself.
    const KEYS: usize = 48;
    const SIZE: usize = 16;
    let keys: Arc<Vec<libc::pthread_key_t>> = Arc::new(
        (0..KEYS)
            .map(|_| {
                let mut key = 0;
                // SAFETY: a place for the key, and a destructor that lives as long as the program.
                assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(count_value)) }, 0);
                key
            })
            .collect(),
    );
    let before = KEY_DESTRUCTORS.each_ref().map(|n| n.load(Ordering::Relaxed));
    let theirs = keys.clone();
    let value = |index: usize, n: usize| (index + 1) << 8 | (n + 1);
    let migrations = crew(SIZE, move |member| {
        for (n, &key) in theirs.iter().enumerate() {
            // SAFETY: a living key.
            let earlier = unsafe { libc::pthread_getspecific(key) };
            assert!(earlier.is_null(), "the value of an earlier thread");
            // SAFETY: a living key.
            assert_eq!(unsafe { libc::pthread_setspecific(key, value(member.index, n) as *const c_void) }, 0);
        }
        for _ in 0..HOPS / 10 {
            member.hop();
            for (n, &key) in theirs.iter().enumerate() {
                // SAFETY: a living key.
                assert_eq!(unsafe { libc::pthread_getspecific(key) }.addr(), value(member.index, n));
            }
        }
    });
    // Joined, so all destructors have run.
    let after = KEY_DESTRUCTORS.each_ref().map(|n| n.load(Ordering::Relaxed));
    let sum: usize = (0..SIZE).flat_map(|index| (0..KEYS).map(move |n| value(index, n))).sum();
    assert_eq!([after[0] - before[0], after[1] - before[1]], [SIZE * KEYS, sum]);
    for &key in keys.iter() {
        // SAFETY: a living key, deleted once.
        unsafe { libc::pthread_key_delete(key) };
    }
    migrations
}

pub(crate) fn locales_are_per_thread() -> usize {
    let mut migrations = 0;
    for _ in 0..8 {
        migrations += crew(16, |member| {
            let name = if member.index % 2 == 0 { c"C.UTF-8" } else { c"C" };
            // SAFETY: a name with its end, and no base.
            let locale = unsafe { libc::newlocale(ALL_CATEGORIES, name.as_ptr(), null_mut()) };
            assert!(!locale.is_null(), "no locale {name:?}");
            // SAFETY: no preconditions; a thread starts with the program's locale, whatever an earlier
            // one used.
            assert_eq!(unsafe { libc::uselocale(null_mut()) }, GLOBAL_LOCALE, "an earlier thread's locale");
            // SAFETY: a living locale.
            unsafe { libc::uselocale(locale) };
            for _ in 0..HOPS / 10 {
                member.hop();
                // SAFETY: null asks and changes nothing.
                assert_eq!(unsafe { libc::uselocale(null_mut()) }, locale);
                assert_eq!(
                    __ctype_get_mb_cur_max() > 1,
                    member.index % 2 == 0,
                    "characters of another thread's locale"
                );
                assert!(is_alpha(b'k'));
            }
            if member.index % 4 < 2 {
                // SAFETY: always there.
                unsafe { libc::uselocale(GLOBAL_LOCALE) };
                // SAFETY: no thread uses it any more.
                unsafe { libc::freelocale(locale) };
            } else {
                // Ends with it in use, and with its memory gone: the next thread in this block must not
                // see it.
                FREE_AT_END.set(FreeAtEnd(locale));
            }
        });
    }
    migrations
}

/// Frees a locale when its thread ends.
struct FreeAtEnd(libc::locale_t);

impl Drop for FreeAtEnd {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: POSIX leaves a thread that still uses it undefined; this thread calls nothing that
            // reads it, and the runtime resets the thread's locale.
            unsafe { libc::freelocale(self.0) };
        }
    }
}

thread_local! {
    static FREE_AT_END: std::cell::Cell<FreeAtEnd> = const { std::cell::Cell::new(FreeAtEnd(null_mut())) };
}

/// A pthread mutex of the given kind, on the heap: it must not move.
struct PthreadMutex(Box<std::cell::UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: made to be shared.
unsafe impl Send for PthreadMutex {}
// SAFETY: made to be shared.
unsafe impl Sync for PthreadMutex {}

impl PthreadMutex {
    fn new(kind: c_int) -> Self {
        let mutex = Self(Box::new(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        let mut attribute = MaybeUninit::uninit();
        // SAFETY: a place for the attribute.
        unsafe { libc::pthread_mutexattr_init(attribute.as_mut_ptr()) };
        // SAFETY: initialised by the line above.
        assert_eq!(unsafe { libc::pthread_mutexattr_settype(attribute.as_mut_ptr(), kind) }, 0);
        // SAFETY: a mutex that no thread uses yet, and an initialised attribute.
        assert_eq!(unsafe { libc::pthread_mutex_init(mutex.0.get(), attribute.as_ptr()) }, 0);
        mutex
    }

    fn try_lock(&self) -> c_int {
        // SAFETY: initialised by `new`.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) }
    }

    fn unlock(&self) -> c_int {
        // SAFETY: initialised by `new`.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }
}

pub(crate) fn owners_of_pthread_mutexes_are_threads() -> usize {
    let recursive = Arc::new(PthreadMutex::new(libc::PTHREAD_MUTEX_RECURSIVE));
    let checking = Arc::new(PthreadMutex::new(libc::PTHREAD_MUTEX_ERRORCHECK));
    let holders = Arc::new([const { AtomicUsize::new(0) }; 2]);
    crew(8, move |member| {
        for _ in 0..HOPS / 4 {
            if recursive.try_lock() == 0 {
                assert_eq!(holders[0].fetch_add(1, Ordering::SeqCst), 0, "two owners");
                for _ in 0..3 {
                    member.hop();
                    assert_eq!(recursive.try_lock(), 0, "not seen as the owner");
                }
                holders[0].fetch_sub(1, Ordering::SeqCst);
                for _ in 0..4 {
                    assert_eq!(recursive.unlock(), 0);
                }
            }
            member.hop();
            if checking.try_lock() == 0 {
                assert_eq!(holders[1].fetch_add(1, Ordering::SeqCst), 0, "two owners");
                member.hop();
                holders[1].fetch_sub(1, Ordering::SeqCst);
                assert_eq!(checking.unlock(), 0, "not seen as the owner");
            } else {
                assert_eq!(checking.unlock(), libc::EPERM, "unlocked by a thread that does not own it");
            }
            member.hop();
        }
    })
}
