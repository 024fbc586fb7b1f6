//! Address space for stacks: reserving it, guarding parts of it, giving its memory back.
//!
//! A [`Mapping`] is readable and writable, and is not charged until it is touched. A guard makes part of it
//! fault on every access. There are two kinds. A *marker* (`MADV_GUARD_INSTALL`, Linux 6.13) lives in the
//! page tables, so a mapping with a million guards is still one mapping to the kernel. *No access*
//! (`PROT_NONE`) works everywhere. It splits the mapping: two more entries towards `vm.max_map_count` (65,530
//! by default) for each guard.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::bytes::Bytes;
use super::once::OnceLock;
use super::short_file::{ROOT, read_text};
use super::system;

/// How a range is made to fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Markers in the page tables. The mapping stays whole.
    Marker,
    /// No access. The mapping is split.
    NoAccess,
}

impl Guard {
    /// Returns the better kind that this kernel has. Tried out once.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Guard> = OnceLock::new();
        *BEST.get_or_init(|| {
            let tried = Mapping::reserve(page_size()).ok().and_then(|page| page.takes_markers().ok());
            if tried == Some(true) { Self::Marker } else { Self::NoAccess }
        })
    }
}

/// Returns the size of a page.
pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: no memory is involved.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).expect("every system has a page size")
    })
}

/// A range of address space that this value owns; unmapped when dropped.
///
/// Offsets are in bytes from its start and must be multiples of the page size.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a kernel thread, and a `Mapping` hands out no references.
unsafe impl Send for Mapping {}
// SAFETY: its methods are system calls, which the kernel serializes.
unsafe impl Sync for Mapping {}

/// Parts of mappings for one system call: a call for each costs as much again as what it does.
///
/// The parts are whole pages. If the kernel has no call for many parts (Linux has it since 6.14), each gets
/// its own.
pub(crate) struct Parts {
    parts: [libc::iovec; Self::MOST],
    len: usize,
}

impl Parts {
    /// How many parts fit.
    pub(crate) const MOST: usize = 64;

    pub(crate) const fn new() -> Self {
        const NONE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self { parts: [NONE; Self::MOST], len: 0 }
    }

    /// Adds the bytes from `start` to `end`, both on pages' edges. There must be room.
    pub(crate) fn push(&mut self, start: *mut u8, end: *mut u8) {
        debug_assert!(start.addr().is_multiple_of(page_size()) && end.addr().is_multiple_of(page_size()));
        self.parts[self.len] = libc::iovec { iov_base: start.cast(), iov_len: end.addr() - start.addr() };
        self.len += 1;
    }

    /// Gives the memory behind the parts back. They read as zero afterwards. Guards stay.
    ///
    /// # Safety
    /// Nothing in the parts is needed any more.
    pub(crate) unsafe fn discard(&self) {
        // SAFETY: the caller's promise.
        let done = unsafe { self.advise(libc::MADV_DONTNEED) };
        for part in &self.parts[done..self.len] {
            // Locked memory stays: that is what locking asks for.
            // SAFETY: the caller's promise.
            unsafe { libc::madvise(part.iov_base, part.iov_len, libc::MADV_DONTNEED) };
        }
    }

    /// Has the kernel put memory there now, and not page by page as it is touched. If it has no such call, or
    /// no memory, it does nothing.
    pub(crate) fn touch(&self) {
        if let Some(advice) = system::TOUCH {
            // SAFETY: contents stay.
            unsafe { self.advise(advice) };
        }
    }

    /// Advises the kernel on all parts. Returns how many, from the first, it has done: none, if it has no
    /// such call.
    ///
    /// # Safety
    /// The contents may be lost if the advice says so.
    unsafe fn advise(&self, advice: libc::c_int) -> usize {
        /// The kernel has no such call.
        static MISSING: AtomicBool = AtomicBool::new(false);
        // Relaxed, both: a thread that does not know it yet finds it out.
        if self.len == 0 || MISSING.load(Ordering::Relaxed) {
            return 0;
        }
        // SAFETY: the caller's promise.
        let Some(mut done) = (unsafe { system::advise_each(&self.parts[..self.len], advice) }) else {
            MISSING.store(true, Ordering::Relaxed);
            return 0;
        };
        self.parts[..self.len]
            .iter()
            .position(|part| {
                let whole = part.iov_len <= done;
                done -= part.iov_len.min(done);
                !whole
            })
            .unwrap_or(self.len)
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({})", self.len)
    }
}

/// Stacks may hold code.
static EXECUTABLE: AtomicBool = AtomicBool::new(false);

/// Finds out if the process's threads may run code on their stacks, as C's nested functions need it (`-z
/// execstack`). Mappings that are made afterwards allow it, too. Takes a lock of the loader.
pub(crate) fn heed_executable_stacks() {
    // Relaxed: a process that loads such code later, while others start a runtime, has no order either.
    EXECUTABLE.store(system::stacks_may_run(), Ordering::Relaxed);
}

/// Returns the lowest page of a range that is in memory. `None` if none is, or not all of the range is
/// mapped. A system call for each 256 pages.
pub(crate) fn lowest_resident(range: Range<usize>) -> Option<usize> {
    const PAGES: usize = 256;
    let mut resident = [0_u8; PAGES];
    range.clone().step_by(PAGES * page_size()).find_map(|from| {
        let pages = ((range.end - from) / page_size()).min(PAGES);
        let start = ptr::without_provenance_mut(from);
        // SAFETY: looks at no memory, and `resident` has a byte for each page.
        let rc = unsafe { libc::mincore(start, pages * page_size(), resident.as_mut_ptr().cast()) };
        let lowest = resident[..pages].iter().position(|state| state & 1 == 1).filter(|_| rc == 0)?;
        Some(from + lowest * page_size())
    })
}

/// Address space that must be free beside what a new thread takes. Without it, a program that reaches `ulimit
/// -v` by spawning would get no error from `spawn`. It would get an abort from the next `malloc`, or from
/// std, which maps a signal stack in the new thread.
const HEADROOM: usize = 16 << 20;

/// Why address space was not mapped, or not guarded. Allocates nothing, because the caller may hold a lock.
/// As an `io::Error`, it has words.
#[derive(Debug)]
pub(crate) struct Refusal {
    wanted: Wanted,
    /// What the kernel said.
    error: io::Error,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Headroom(usize),
    Reserved(usize),
    RedZone,
}

impl Refusal {
    fn last(wanted: Wanted) -> Self {
        Self { wanted, error: io::Error::last_os_error() }
    }

    /// Returns `true` if a smaller mapping may be granted.
    pub(crate) fn is_for_memory(&self) -> bool {
        // EAGAIN is for locked memory.
        self.error.kind() == io::ErrorKind::OutOfMemory || self.error.raw_os_error() == Some(libc::EAGAIN)
    }
}

/// Checks that `len` bytes may be mapped, if the process's address space is limited. It does not map more and
/// give it back, because a thread that allocates at that moment would find nothing.
///
/// # Errors
/// `OutOfMemory`: less than a headroom would be left.
pub(crate) fn check_headroom(len: usize) -> Result<(), Refusal> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid place.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    if !asked || limit.rlim_cur == libc::RLIM_INFINITY {
        return Ok(());
    }
    // If this cannot be known, the kernel refuses in time or not.
    let Some(used) = address_space() else { return Ok(()) };
    let wanted = used.saturating_add(len).saturating_add(HEADROOM);
    if wanted as libc::rlim_t <= limit.rlim_cur {
        return Ok(());
    }
    Err(Refusal { wanted: Wanted::Headroom(len), error: io::ErrorKind::OutOfMemory.into() })
}

/// Returns how many bytes of address space the process has mapped.
fn address_space() -> Option<usize> {
    // Without an allocation: the caller may hold a lock.
    let mut text = [0; 128];
    let text = read_text(ROOT, c"/proc/self/statm", &mut text).ok()?;
    text.split(' ').next()?.parse::<usize>().ok()?.checked_mul(page_size())
}

/// Returns how many more mappings this process may have; `None`: there is no limit, or it cannot be found
/// out. Reads a line for each that there is. That takes some 20 ms for as many as are allowed by default.
pub(crate) fn mappings_left() -> Option<usize> {
    let limit: usize = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim_end().parse().ok()?;
    count_mappings().map(|used| limit.saturating_sub(used))
}

/// Returns how many mappings the process has.
fn count_mappings() -> Option<usize> {
    let mut list = fs::File::open("/proc/self/maps").ok()?;
    let (mut used, mut buffer) = (0, [0; 16 << 10]);
    loop {
        match list.read(&mut buffer) {
            Ok(0) => return Some(used),
            Ok(length) => used += buffer[..length].iter().filter(|&&byte| byte == b'\n').count(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

impl Mapping {
    /// Reserves `len` bytes, a multiple of the page size, readable and writable. Memory comes with the first
    /// touch. It is not locked, whatever the process has asked for.
    ///
    /// # Errors
    /// `OutOfMemory`, with the limit that is likely to be the cause.
    pub(crate) fn reserve(len: usize) -> Result<Self, Refusal> {
        debug_assert!(len > 0 && len.is_multiple_of(page_size()));
        // Without access at first: after `mlockall(MCL_FUTURE)` the kernel would fill an accessible mapping
        // with memory at once.
        // SAFETY: a new mapping at an address that the kernel chooses disturbs nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | system::UNCHARGED,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Refusal::last(Wanted::Reserved(len)));
        }
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address zero unasked");
        let mapping = Self { start, len };
        // SAFETY: this call's own mapping. If it were locked, all of its memory would be there, and the
        // kernel might refuse markers.
        unsafe { libc::munlock(mapping.at(0), len) };
        // Relaxed: see `heed_executable_stacks`.
        let run = if EXECUTABLE.load(Ordering::Relaxed) { libc::PROT_EXEC } else { 0 };
        let access = libc::PROT_READ | libc::PROT_WRITE | run;
        // SAFETY: this call's own mapping, which is not in use yet.
        if unsafe { libc::mprotect(mapping.at(0), len, access) } != 0 {
            return Err(Refusal::last(Wanted::Reserved(len)));
        }
        Ok(mapping)
    }

    /// Returns the address of the lowest byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps the kernel from backing this with huge pages, 2 MiB for a stack that touches 4 KiB.
    pub(crate) fn forbid_huge_pages(&self) {
        // A kernel without huge pages refuses, and nothing is lost.
        let _ = system::NO_HUGE_PAGES.map(|advice| self.advise(0..self.len, advice));
    }

    /// Labels this for listings of the process's mappings, if the system can.
    pub(crate) fn set_name(&self, name: &'static std::ffi::CStr) {
        system::name_mapping(self.start.as_ptr(), self.len, name);
    }

    /// Makes every access to `range` fault. If the kernel refuses markers for this very mapping (before 6.15
    /// it does so for locked memory), falls back to no access. Returns what was done.
    ///
    /// # Errors
    /// `OutOfMemory`, with the limit that is likely to be the cause.
    pub(crate) fn guard(&self, range: Range<usize>, kind: Guard) -> Result<Guard, Refusal> {
        if kind == Guard::Marker {
            match self.mark(range.clone()) {
                Ok(()) => return Ok(kind),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(Refusal { wanted: Wanted::RedZone, error }),
            }
        }
        self.check(&range);
        // SAFETY: within this mapping. The caller wants that no code uses the range from now on.
        let rc = unsafe { libc::mprotect(self.at(range.start), range.len(), libc::PROT_NONE) };
        if rc != 0 {
            return Err(Refusal::last(Wanted::RedZone));
        }
        Ok(Guard::NoAccess)
    }

    /// Makes every access to the parts, which lie in this mapping, fault by markers. Returns how many of them
    /// do now, from the first. The others need [`guard`](Self::guard).
    pub(crate) fn mark_each(&self, parts: &Parts) -> usize {
        let ours = self.start().addr()..self.start().addr() + self.len;
        for part in &parts.parts[..parts.len] {
            let start = part.iov_base.addr();
            assert!(ours.start <= start && start + part.iov_len <= ours.end, "{start:#x} is not in {self:?}");
        }
        // SAFETY: within this mapping. The caller wants that no code uses the parts from now on.
        system::GUARD_BY_MARKERS.map_or(0, |advice| unsafe { parts.advise(advice) })
    }

    /// Marks all of this, and returns `true` if the markers are there. An emulator may take the advice, as it
    /// takes all that it does not know, and do nothing. Memory cannot be put where a marker is, so asking for
    /// that must fail. Every kernel that has markers knows that advice.
    fn takes_markers(&self) -> io::Result<bool> {
        self.mark(0..self.len)?;
        let filled = system::TOUCH.map(|advice| self.advise(0..self.len, advice));
        Ok(matches!(filled, Some(Err(error)) if error.raw_os_error() == Some(libc::EFAULT)))
    }

    fn mark(&self, range: Range<usize>) -> io::Result<()> {
        let advice = system::GUARD_BY_MARKERS.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        loop {
            match self.advise(range.clone(), advice) {
                // A page was being faulted in at the same time, or a signal came.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
                done => return done,
            }
        }
    }

    fn advise(&self, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        self.check(&range);
        // SAFETY: within this mapping. The advices used here leave its contents alone, or the owner of the
        // contents asks for them.
        let rc = unsafe { libc::madvise(self.at(range.start), range.len(), advice) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn at(&self, offset: usize) -> *mut libc::c_void {
        self.start.as_ptr().wrapping_add(offset).cast()
    }

    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        debug_assert!(range.start.is_multiple_of(page_size()) && range.end.is_multiple_of(page_size()));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping. Its users borrowed from `self`, or promised to have finished.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({:p}, {})", self.start, Bytes(self.len))
    }
}

/// The reason to print if the number of mappings is not the cause.
const ADDRESS_SPACE: &str = "the limit on address space or data (ulimit -v, ulimit -d), or on memory that may be promised \
                             (vm.overcommit_memory, vm.overcommit_ratio), is reached";

/// The reason to print if the kernel wants to lock a new mapping, and may not.
const LOCKED: &str =
    "the limit on locked memory (ulimit -l) is reached, and the process has called mlockall(MCL_FUTURE)";

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Headroom(len) => write!(f, "cannot map {} more", Bytes(len)),
            Self::Reserved(len) => write!(f, "cannot reserve {} of address space", Bytes(len)),
            Self::RedZone => f.write_str("cannot make the red zone of a stack inaccessible"),
        }
    }
}

impl From<Refusal> for io::Error {
    /// Names the limits that make the kernel say "cannot allocate memory" though there is some.
    #[cold]
    fn from(Refusal { wanted, error }: Refusal) -> Self {
        let limit = match (error.raw_os_error(), wanted) {
            (Some(libc::EAGAIN), _) => LOCKED.to_owned(),
            (_, Wanted::Headroom(_)) => ADDRESS_SPACE.to_owned(),
            (Some(libc::ENOMEM), _) => map_count_reached().unwrap_or_else(|| ADDRESS_SPACE.to_owned()),
            _ => return super::explain(&error, wanted),
        };
        Self::new(io::ErrorKind::OutOfMemory, format!("{wanted}: {limit}"))
    }
}

/// Returns how many mappings the process has, or had at most a second ago. If there are many, it takes the
/// kernel half a second to list them. A program that meets the limit meets it again and again.
fn recent_mappings() -> Option<usize> {
    const FRESH: Duration = Duration::from_secs(1);
    static FIRST: OnceLock<Instant> = OnceLock::new();
    /// The count, and its time in ms after the first look: in one word, so they belong together.
    static SEEN: AtomicU64 = AtomicU64::new(0);
    const BITS: u32 = 24;
    let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64;
    // Relaxed, both: a figure to show.
    let seen = SEEN.load(Ordering::Relaxed);
    if seen != 0 && now.saturating_sub(seen >> BITS) < FRESH.as_millis() as u64 {
        return Some((seen & ((1 << BITS) - 1)) as usize);
    }
    let count = count_mappings()?;
    let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64;
    SEEN.store(now << BITS | (count as u64).min((1 << BITS) - 1), Ordering::Relaxed);
    Some(count)
}

/// Returns what to print if the process has as many mappings as it may have.
fn map_count_reached() -> Option<String> {
    // Reading the list of mappings maps nothing but what the buffers need, which malloc mostly has.
    let limit: usize = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    let count = recent_mappings()?;
    // The kernel keeps a few for itself, and the count is a moment old.
    (count + 16 >= limit).then(|| {
        format!(
            "the process has {count} memory mappings and may have {limit} \
             (raise it with: sysctl -w vm.max_map_count={})",
            limit.saturating_mul(4)
        )
    })
}

#[cfg(test)]
mod tests;
