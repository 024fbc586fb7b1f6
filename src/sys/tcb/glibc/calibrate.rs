//! Where glibc keeps what in a block: asked where it tells, observed in two real threads where it does not.
//!
//! Thread `given` runs on a stack of this crate's, thread `own` on one that the library made. Both have an
//! empty robust list. Each takes these steps: it sets a thread-specific value, makes the library allocate for
//! it, and, if it is `own`, detaches itself. It copies its own `struct pthread` before and after each step. A
//! field is found by what differs between the copies, or by a value that only this crate knows. What others
//! change in a descriptor at any moment does not count.
//! Offsets that glibc exports are checked against the same copies: a table that lies is as bad as none.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::super::kthread::{self, Attributes, Mask, Options};
use super::super::super::pthread;
use super::super::common::peek;
use super::super::unfit::Unfit;
use super::exit::{ExitFields, Scramble};
use super::kept::{self, Makers};
use super::keys::Keys;
use super::layout;
use super::symbols::{Functions, Static, field, symbol};

/// Offsets, in bytes, of fields of `struct pthread` unless said otherwise.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) sizes: Static,
    /// The vector of modules, `dtv`.
    pub(super) vector: usize,
    /// Size of one element of it.
    pub(super) vector_slot: usize,
    /// The pointer within an element.
    pub(super) vector_value: usize,
    pub(super) tid: usize,
    /// Links of the library's list of threads.
    pub(super) list: usize,
    /// `robust_head`. The word before it is `robust_prev`.
    pub(super) robust: usize,
    /// The second word of `robust_head`, the same in every thread.
    pub(super) robust_futex_offset: isize,
    pub(super) keys: Keys,
    /// A byte and its value: the library did not make this stack, and must not free it.
    pub(super) user_stack: (usize, u8),
    /// What a thread changes that detaches itself, and what it was before. Two halves of a pointer, which was
    /// null, or since glibc 2.43 one number, which stands here twice. If that were zero, the library would
    /// take the thread for dead.
    pub(super) detached: [(usize, u32); 2],
    /// Whether the thread was asked to end, and may be.
    pub(super) cancelling: usize,
    /// Memory of the library's that hangs on the descriptor.
    pub(super) kept: Vec<usize>,
    /// For a better message only, so a thread can do without.
    pub(super) exit: Option<ExitFields>,
    /// State of the resolver.
    pub(super) resolver: usize,
    /// The thread-local that points there, from the thread register.
    pub(super) resolver_pointer: isize,
    /// The thread-locals `errno` and `h_errno`, from the thread register.
    pub(super) errors: [isize; 2],
    /// The thread-local that is null if `dlerror` has nothing to tell or to free, from the thread register.
    /// Before glibc 2.34, one that is never null.
    pub(super) dlerror: isize,
    /// `cpu_id` of the area for restartable sequences, from the thread register. Not every kernel and glibc
    /// has one.
    pub(super) cpu_id: Option<isize>,
}

impl Shape {
    /// Asks and observes. Starts two threads that end before it returns.
    pub(super) fn find(functions: &Functions) -> Result<Self, Unfit> {
        let sizes = Static::ask()?;
        let own_register = layout::register(layout::own_descriptor(), &sizes);
        if layout::has_shadow_stack(own_register) {
            return Err(Unfit::ShadowStack);
        }
        let resp = symbol(c"__resp")?.as_ptr().expose_provenance();
        // SAFETY: a public function that takes nothing.
        let h_errno = unsafe { (functions.h_errno)() }.expose_provenance();
        // SAFETY: a public function that takes nothing.
        let errno = unsafe { libc::__errno_location() }.expose_provenance();
        let dlerror = symbol(c"__libc_dlerror_result").ok();
        let from_register = |address: usize| address.wrapping_sub(own_register).cast_signed();
        let mut keys = Keys::ask()?;

        let cancelling = field(c"_thread_db_pthread_cancelhandling")?.offset;
        let jump = cancelling.wrapping_sub(8);
        let given = Observed::thread(functions, &sizes, jump, true)?;
        let own = Observed::thread(functions, &sizes, jump, false)?;

        let tid = field(c"_thread_db_pthread_tid")?;
        let list = field(c"_thread_db_pthread_list")?;
        // Other threads change the links of the list, and the kernel changes the area.
        let others = [list.offset..list.offset + 16, rseq_area(&sizes)];
        let robust = given.find_robust_list().ok_or(Unfit::Unexpected("the list of robust mutexes"))?;
        let vector = field(c"_thread_db_pthread_dtvp")?;
        let slot = field(c"_thread_db_dtv_dtv")?;
        let value = field(c"_thread_db_dtv_t_pointer_val")?;
        let flags = keys.end_of_blocks..keys.end_of_blocks + 16;
        keys.used = only(flags.clone(), |at| given.before[at] == 0 && given.after[at] == 1)
            .ok_or(Unfit::Unexpected("the mark of a thread with specific values"))?;
        let shape = Self {
            user_stack: only(flags, |at| given.before[at] != own.before[at])
                .map(|at| (at, given.before[at]))
                .ok_or(Unfit::Unexpected("the mark of a stack that is the program's"))?,
            detached: own.find_detached(&others).ok_or(Unfit::Unexpected("the mark of a detached thread"))?,
            cancelling,
            kept: given.find_kept(&keys, &others)?,
            exit: given.find_stack().zip(given.find_scramble()).map(|(stack, scramble)| ExitFields {
                jump,
                scramble,
                stack,
            }),
            robust,
            robust_futex_offset: given.word(robust + 8).cast_signed(),
            resolver: given.resolver.wrapping_sub(given.descriptor),
            resolver_pointer: from_register(resp),
            errors: [errno, h_errno].map(from_register),
            dlerror: from_register(dlerror.map_or(resp, |at| at.as_ptr().expose_provenance())),
            cpu_id: match rseq_offset() {
                Some(0) => Some(
                    given
                        .find_unregistered(&sizes)
                        .filter(|_| given.find_unregistered(&sizes) == own.find_unregistered(&sizes))
                        .ok_or(Unfit::Unexpected("the area for restartable sequences"))?,
                ),
                _ => given.find_cpu_id(),
            },
            vector: vector.offset,
            vector_slot: slot.size,
            vector_value: value.offset,
            tid: tid.offset,
            list: list.offset,
            keys,
            sizes,
        };
        for thread in [&given, &own] {
            shape.check(thread)?;
        }
        if own.find_kept(&shape.keys, &others)? != shape.kept {
            return Err(Unfit::Unexpected("the memory that it keeps for a thread"));
        }
        Ok(shape)
    }

    /// Checks in a real thread the offsets that nothing was searched for.
    fn check(&self, thread: &Observed) -> Result<(), Unfit> {
        let size = self.sizes.descriptor;
        let fits = |at: usize, len: usize| at.checked_add(len).is_some_and(|end| end <= size);
        let is_static = |from_register: isize| from_register.unsigned_abs() <= self.sizes.size;
        let links = [self.list, self.list + 8];
        let tid_is = || thread.word(self.tid & !7) >> (8 * (self.tid & 7)) as u32 & 0xffff_ffff;
        // On aarch64 the vector's address stands just above the descriptor, on riscv64 at its end.
        if self.vector > size || self.vector_slot < 16 || self.vector_value != 0 {
            Err(Unfit::Unexpected("the vector of modules"))
        } else if !fits(self.tid, 4) || tid_is() != thread.tid {
            Err(Unfit::Unexpected("the thread id"))
        } else if !fits(self.list, 16) || links.iter().any(|&at| thread.word(at) == 0) {
            Err(Unfit::Unexpected("the list of threads"))
        } else if thread.word(self.keys.blocks) != thread.descriptor.wrapping_add(self.keys.first_block) {
            Err(Unfit::Unexpected("the values of pthread keys"))
        } else if thread.find_robust_list() != Some(self.robust) {
            Err(Unfit::Unexpected("the list of robust mutexes"))
        } else if !fits(self.resolver, super::symbols::RESOLVER_STATE_SIZE)
            || thread.resolver != thread.descriptor + self.resolver
        {
            Err(Unfit::Unexpected("the state of the resolver"))
        } else if !fits(self.cancelling, 4) || !self.cancelling.is_multiple_of(4) {
            Err(Unfit::Unexpected("the state of cancellation"))
        } else if !is_static(self.resolver_pointer) {
            Err(Unfit::Unexpected("the thread-local __resp"))
        } else if !self.errors.into_iter().all(is_static) {
            Err(Unfit::Unexpected("the thread-locals errno and h_errno"))
        } else if !is_static(self.dlerror) {
            Err(Unfit::Unexpected("what dlerror tells"))
        } else {
            Ok(())
        }
    }
}

/// Returns where the area for restartable sequences lies, from the thread register. Zero, where something
/// else begins: the library uses no area on its machine (2.36 on riscv64), and does not tell.
fn rseq_offset() -> Option<isize> {
    symbol(c"__rseq_offset").ok().map(|at| {
        // SAFETY: public: `extern const ptrdiff_t __rseq_offset`.
        unsafe { at.cast::<isize>().read() }
    })
}

/// Returns where the area lies in a descriptor, or an empty range. The kernel writes to it whenever the
/// thread changes its processor.
fn rseq_area(sizes: &Static) -> Range<usize> {
    let area = rseq_offset().map_or(0, |at| layout::register(0, sizes).wrapping_add_signed(at));
    if (1..sizes.descriptor).contains(&area) { area..area + 32 } else { 0..0 }
}

/// Returns the one place in `range` for which `is` returns `true`.
fn only(range: Range<usize>, is: impl Fn(usize) -> bool) -> Option<usize> {
    let mut hits = range.filter(|&at| is(at));
    hits.next().filter(|_| hits.next().is_none())
}

/// What a real thread saw of itself.
struct Observed {
    descriptor: usize,
    tid: usize,
    /// Its `struct pthread`, at the start of the thread.
    before: Vec<u8>,
    /// The same after one specific value was set.
    after: Vec<u8>,
    /// The same after the library has allocated for it.
    used: Vec<u8>,
    /// The same after it has detached itself, or else a copy of `used`.
    detached: Vec<u8>,
    resolver: usize,
    /// The address of a local variable: somewhere on its stack.
    local: usize,
    /// The jump of its end.
    jump: Option<layout::Jump>,
    /// The stack that it was given.
    stack: Range<usize>,
    cpu_id: Option<(isize, i32)>,
}

/// What a thread needs to look.
struct Task<'a> {
    functions: &'a Functions,
    makers: Makers,
    key: libc::pthread_key_t,
    rseq: Option<isize>,
    sizes: Static,
    /// The field with the address of the jump of a thread's end.
    jump: usize,
    /// The thread detaches itself.
    detaches: bool,
    seen: Observed,
    /// The thread has seen everything, and does not use this any more.
    done: AtomicBool,
}

impl Observed {
    /// Starts a thread and lets it look. `given`: on a stack of this crate's.
    fn thread(functions: &Functions, sizes: &Static, jump: usize, given: bool) -> Result<Self, Unfit> {
        let mut stack: Vec<[u8; 4096]> = Vec::new();
        if given {
            stack.resize((sizes.size + sizes.descriptor + (256 << 10)) / 4096, [0; 4096]);
        }
        let range = stack.as_ptr_range();
        let seen = Self {
            descriptor: 0,
            tid: 0,
            before: vec![0; sizes.descriptor],
            after: vec![0; sizes.descriptor],
            used: vec![0; sizes.descriptor],
            detached: vec![0; sizes.descriptor],
            resolver: 0,
            local: 0,
            jump: None,
            stack: range.start.addr().next_multiple_of(4096)..range.end.addr() & !4095,
            cpu_id: None,
        };
        let makers = Makers::bind()?;
        let done = AtomicBool::new(false);
        let sizes = *sizes;
        let mut task = Task {
            functions,
            makers,
            key: 0,
            rseq: rseq_offset(),
            sizes,
            jump,
            detaches: !given,
            seen,
            done,
        };
        // SAFETY: the key is a local variable, and has no destructor.
        ok(unsafe { libc::pthread_key_create(&mut task.key, None) })?;
        let result = spawn_and_wait(&mut task);
        // SAFETY: made above, and not used after this.
        ok(unsafe { libc::pthread_key_delete(task.key) })?;
        result?;
        drop(stack);
        Ok(task.seen)
    }

    fn word(&self, at: usize) -> usize {
        let bytes = self.before[at..at + 8].try_into().expect("eight bytes");
        usize::from_ne_bytes(bytes)
    }

    fn words(&self) -> impl Iterator<Item = usize> {
        (0..self.before.len() / 8 * 8).step_by(8)
    }

    /// Finds the robust list. An empty one points to itself, as does the word before it. Then come the offset
    /// from a mutex's links to its word, and null.
    fn find_robust_list(&self) -> Option<usize> {
        let mut hits = self.words().skip(1).filter(|&at| {
            let here = self.descriptor + at;
            at + 24 <= self.before.len()
                && self.word(at) == here
                && self.word(at - 8) == here
                && (-128..0).contains(&self.word(at + 8).cast_signed())
                && self.word(at + 16) == 0
        });
        hits.next().filter(|_| hits.next().is_none())
    }

    /// Finds the bounds of the stack that was given.
    fn find_stack(&self) -> Option<usize> {
        let mut hits = self.words().filter(|&at| {
            at + 16 <= self.before.len()
                && self.word(at) == self.stack.start
                && self.word(at + 8) == self.stack.len()
        });
        hits.next().filter(|_| hits.next().is_none())
    }

    /// Finds how the library scrambles the jump of a thread's end, which leads to its first frame.
    fn find_scramble(&self) -> Option<Scramble> {
        let sp = self.jump?[layout::JUMP_SP];
        Scramble::known().find(|scramble| (self.local..self.stack.end).contains(&scramble.undo(sp)))
    }

    /// Finds what the thread has changed by detaching itself, and what it was before. What lies in `others`
    /// does not count.
    fn find_detached(&self, others: &[Range<usize>; 2]) -> Option<[(usize, u32); 2]> {
        let number = |part: &[u8]| u32::from_ne_bytes(part.try_into().expect("four bytes"));
        let parts = self.used.chunks_exact(4).zip(self.detached.chunks_exact(4)).enumerate();
        let changed = parts.filter(|(_, (before, after))| before != after);
        let changed = changed.map(|(index, (before, _))| (index * 4, number(before)));
        let changed: Vec<_> =
            changed.filter(|(at, _)| !others.iter().any(|range| range.contains(at))).collect();
        match changed[..] {
            [one] => Some([one, one]),
            [(low, 0), (high, 0)] if low + 4 == high && low % 8 == 0 => Some([(low, 0), (high, 0)]),
            _ => None,
        }
    }

    /// Finds the memory of the library's that hangs on the descriptor. What lies in `others` does not count.
    fn find_kept(&self, keys: &Keys, others: &[Range<usize>; 2]) -> Result<Vec<usize>, Unfit> {
        let [list, rseq] = others.clone();
        kept::fields(&self.after, &self.used, &[list, rseq, keys.first_block..keys.end_of_blocks])
    }

    /// Finds where the number of the processor stands, if in a real thread it is a number, or says that there
    /// is none.
    fn find_cpu_id(&self) -> Option<isize> {
        self.cpu_id.filter(|&(_, cpu)| (-2..1 << 20).contains(&cpu)).map(|(at, _)| at)
    }

    /// Finds it in an area that the library does not use. It lies at a multiple of 32 and says "registration
    /// failed". Where it says anything else, new threads want an area too, and do not start without.
    fn find_unregistered(&self, sizes: &Static) -> Option<isize> {
        const FAILED: usize = 0xffff_fffe << 32;
        let is_area = |at: &usize| {
            let in_place = (self.descriptor + at).is_multiple_of(32) && at + 32 <= self.before.len();
            in_place && [FAILED, 0, 0] == [0, 8, 16].map(|word| self.word(at + word))
        };
        let mut hits = self.words().filter(is_area);
        let at = hits.next().filter(|_| hits.next().is_none())?;
        Some((at + 4).cast_signed() - layout::register(0, sizes).cast_signed())
    }
}

/// Runs `look` in a thread that takes no signals but those of faults. Returns once it has ended.
fn spawn_and_wait(task: &mut Task<'_>) -> Result<(), Unfit> {
    let no_thread = |error: io::Error| Unfit::NoThread(error.raw_os_error().unwrap_or(0));
    let mut attributes = Attributes::new(&Options::default()).map_err(no_thread)?;
    if !task.detaches {
        let stack = ptr::with_exposed_provenance_mut::<c_void>(task.seen.stack.start);
        // SAFETY: initialised above. The stack outlives the thread, which is joined below.
        ok(unsafe { libc::pthread_attr_setstack(&mut attributes.0, stack, task.seen.stack.len()) })?;
    }
    let mut thread = 0;
    let mask = Mask::block_asynchronous();
    let argument = ptr::from_mut(task).cast();
    // SAFETY: `look` takes a task, which is lent until the thread is joined, or done.
    let created = unsafe { pthread::pthread_create(&mut thread, &attributes.0, look, argument) };
    drop(mask);
    ok(created)?;
    if !task.detaches {
        // SAFETY: created above, joined once.
        return ok(unsafe { pthread::pthread_join(thread, ptr::null_mut()) });
    }
    // Acquire: pairs with the release in `look`.
    while !task.done.load(Ordering::Acquire) {
        thread::yield_now();
    }
    while exists(task.seen.tid) {
        thread::yield_now();
    }
    Ok(())
}

/// Returns `true` if the process has a thread with the kernel's number `tid`.
fn exists(tid: usize) -> bool {
    // SAFETY: signal 0 is a question.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, 0) == 0 }
}

/// Returns an error for an error number.
fn ok(errno: c_int) -> Result<(), Unfit> {
    if errno == 0 { Ok(()) } else { Err(Unfit::NoThread(errno)) }
}

/// Looks at the calling thread itself.
extern "C" fn look(task: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn_and_wait` lends the task until this thread has ended, or sets `done`.
    let task = unsafe { &mut *task.cast::<Task<'_>>() };
    let seen = &mut task.seen;
    let local = 0_u8;
    seen.local = (&raw const local).addr();
    seen.descriptor = layout::own_descriptor();
    seen.tid = kthread::gettid().cast_unsigned() as usize;
    // SAFETY: public, takes nothing.
    seen.resolver = unsafe { (task.functions.resolver)() }.expose_provenance();
    let descriptor = ptr::with_exposed_provenance::<u8>(seen.descriptor);
    // SAFETY: a thread's own `struct pthread`, as long as glibc says, is readable.
    let copy = |to: &mut [u8]| unsafe { ptr::copy_nonoverlapping(descriptor, to.as_mut_ptr(), to.len()) };
    copy(&mut seen.before);
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(task.key, descriptor.cast()) };
    copy(&mut seen.after);
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(task.key, ptr::null()) };
    task.makers.call();
    copy(&mut seen.used);
    if task.detaches {
        // SAFETY: takes nothing.
        let own = unsafe { pthread::pthread_self() };
        // SAFETY: no other thread joins this one or detaches it.
        unsafe { pthread::pthread_detach(own) };
    }
    copy(&mut seen.detached);
    if task.jump % 8 == 0 && task.jump < task.sizes.descriptor {
        // SAFETY: a field of the thread's own descriptor.
        let jump = unsafe { peek(seen.descriptor + task.jump) };
        if (seen.local..seen.stack.end).contains(&jump) {
            // SAFETY: a buffer in a frame above this one.
            seen.jump = Some(unsafe { peek(jump) });
        }
    }
    if let Some(rseq) = task.rseq {
        let register = layout::register(seen.descriptor, &task.sizes);
        let at = rseq + 4;
        let block = layout::statics(register, &task.sizes);
        let lies_in = |range: Range<usize>| range.contains(&register.wrapping_add_signed(at));
        if lies_in(block) || lies_in(seen.descriptor..seen.descriptor + task.sizes.descriptor) {
            // SAFETY: within the block of this thread. The kernel writes it with one store.
            seen.cpu_id = Some((at, unsafe { peek(register.wrapping_add_signed(at)) }));
        }
    }
    // Release: what this thread has seen comes before.
    task.done.store(true, Ordering::Release);
    ptr::null_mut()
}
