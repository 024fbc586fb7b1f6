//! The last events, written when something has gone wrong. A thread has panicked, threads wait for each other
//! forever, or the process is about to abort.
//!
//! Whatever has gone wrong may have happened with any lock held. So nothing here takes a lock or allocates:
//! the paths are made beforehand, and events pass through a buffer on the stack.

use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::clock::Scale;
use super::format::{CLOCK, CPUS, EVENT, LOST, MAGIC, NAMES, RING, RUNTIMES, SAMPLE, WHY, header};
use super::known;
use super::rings::{self, Listed, Owner};
use super::session;
use crate::sys::crash::File;

/// What has gone wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A thread has panicked. Only the first one counts: its events are soon gone.
    Panic,
    /// Threads wait for each other, or forever.
    Deadlock,
    /// The process is about to abort.
    Abort,
}

impl Reason {
    const ALL: [Self; 3] = [Self::Panic, Self::Deadlock, Self::Abort];

    /// Returns the end of the name of its file.
    fn suffix(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Deadlock => "deadlock",
            Self::Abort => "abort",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Panic => "a thread panicked",
            Self::Deadlock => "threads wait forever",
            Self::Abort => "the process aborts",
        }
    }
}

/// The files, by [`Reason`]; null while nothing is to be written.
static PATHS: [AtomicPtr<c_char>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];

/// The reasons for which a file was written, as bits.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Writes the last events if anything goes wrong from now on: to `path`, with `.panic`, `.deadlock` or
/// `.abort` appended. What comes after a zero byte in the path is left out.
pub(crate) fn write_to(path: &[u8]) {
    for reason in Reason::ALL {
        let mut path: Vec<u8> = path.iter().copied().take_while(|&byte| byte != 0).collect();
        path.extend_from_slice(b".");
        path.extend_from_slice(reason.suffix().as_bytes());
        let path = CString::new(path).expect("zero bytes are left out");
        // Release: pairs with `write`. Leaked: a crash may read it at any time.
        PATHS[reason as usize].store(path.into_raw(), Ordering::Release);
    }
}

/// Returns `true` if the last events are written when something goes wrong.
pub(crate) fn is_wanted() -> bool {
    // Relaxed: `write` looks again.
    !PATHS[Reason::Abort as usize].load(Ordering::Relaxed).is_null()
}

/// Writes nothing from now on. Called in the child of a fork.
pub(crate) fn forget() {
    PATHS.iter().for_each(|path| path.store(ptr::null_mut(), Ordering::Relaxed));
}

/// Writes the last events, if that was asked for. Async-signal-safe. Of several panics, only the first
/// writes.
#[cold]
pub(crate) fn write(reason: Reason) {
    // Acquire: pairs with `write_to`.
    let path = PATHS[reason as usize].load(Ordering::Acquire);
    let bit = 1 << reason as u32;
    // Relaxed: it decides which thread writes, and orders nothing.
    if path.is_null() || WRITTEN.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    // SAFETY: made by `write_to` from a string with a zero byte at its end, and never freed.
    let path = unsafe { CStr::from_ptr(path) };
    let Some(file) = File::create(path) else { return };
    let why = reason.text().as_bytes();
    let _ = file.write(MAGIC) && file.write(&header(WHY, why.len() as u64)) && file.write(why);
    let one_of = u64::from(session::events().1).to_le_bytes();
    let _ = file.write(&header(SAMPLE, 8)) && file.write(&one_of);
    if let Some(scale) = Scale::at_once() {
        let words = bytes::<32>(scale.to_words());
        let _ = file.write(&header(CLOCK, 32)) && file.write(&words);
    }
    let _ = file.write(&header(CPUS, 8)) && file.write(&known::cpus().to_le_bytes());
    for facts in known::runtimes() {
        let _ = file.write(&header(RUNTIMES, 72)) && file.write(&bytes::<72>(facts));
    }
    let mut whole_since = 0;
    for listed in rings::all() {
        let (owner, since) = look(listed);
        write_ring(&file, listed, owner);
        whole_since = since.max(whole_since);
    }
    let _ = file.write(&header(LOST, 8)) && file.write(&whole_since.to_le_bytes());
    for (id, name) in known::names() {
        let name = name.bytes();
        let length = name.len() as u64;
        let head = bytes::<16>([id, length]);
        let _ = file.write(&header(NAMES, 16 + length)) && file.write(&head) && file.write(name);
    }
}

/// Returns words as bytes.
fn bytes<const BYTES: usize>(words: impl IntoIterator<Item = u64>) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (room, word) in bytes.chunks_exact_mut(8).zip(words) {
        room.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Returns the owner of the first events of a ring, and the count before which events of an LWP are missing,
/// or 0.
fn look(listed: &Listed) -> (Owner, u64) {
    let current = listed.owner();
    let (mut owner, mut first, mut at, mut is_cut) = (None, None, listed.first(), false);
    listed.ring().read_some(listed.first(), usize::MAX, |number, event| {
        if number != at {
            (first, is_cut) = (None, true);
        }
        at = number + 1;
        match event.owners() {
            Some((before, _)) => owner = owner.or(Some(before)),
            None => first = first.or(Some(event.count)),
        }
    });
    let is_cut = is_cut && current.is_lwp();
    let whole_since = first.filter(|&first| is_cut && first >= session::events().0);
    (owner.unwrap_or(current), whole_since.unwrap_or(0))
}

/// Writes the events of this session that a ring has, as sections of [`BATCH`] events.
fn write_ring(file: &File, listed: &Listed, owner: Owner) {
    let began = session::events().0;
    let mut batch = Batch { bytes: [0; PREFIX + BATCH * EVENT], events: 0 };
    batch.begin(listed, owner);
    let mut at = None;
    listed.ring().read_some(listed.first(), usize::MAX, |number, event| {
        if at.replace(number + 1).is_some_and(|at| at != number) {
            // The kernel thread that writes is faster. A mark may be among what is missing.
            batch.flush(file);
            batch.begin(listed, listed.owner());
        }
        if let Some((_, next)) = event.owners() {
            batch.flush(file);
            batch.begin(listed, next);
            return;
        }
        if event.count < began {
            return;
        }
        let at = PREFIX + batch.events * EVENT;
        for (room, word) in batch.bytes[at..at + EVENT].chunks_exact_mut(8).zip(event.to_words()) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        batch.events += 1;
        if batch.events == BATCH {
            batch.flush(file);
        }
    });
    batch.flush(file);
}

/// The bytes of a ring's payload before its events.
const PREFIX: usize = 16;

/// How many events are written at a time.
const BATCH: usize = 16;

/// A section of a ring.
struct Batch {
    bytes: [u8; PREFIX + BATCH * EVENT],
    events: usize,
}

impl Batch {
    /// Says that the next events are those of this owner of the ring.
    fn begin(&mut self, listed: &Listed, Owner { runtime, lwp }: Owner) {
        let lwp = u64::from(lwp) | u64::from(listed.number()) << 32;
        self.bytes[..PREFIX].copy_from_slice(&bytes::<PREFIX>([u64::from(runtime), lwp]));
    }

    fn flush(&mut self, file: &File) {
        if self.events > 0 {
            let payload = &self.bytes[..PREFIX + self.events * EVENT];
            let _ = file.write(&header(RING, payload.len() as u64)) && file.write(payload);
            self.events = 0;
        }
    }
}
