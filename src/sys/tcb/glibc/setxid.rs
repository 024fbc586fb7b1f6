//! `setuid` and its kin, in a process with blocks.
//!
//! **The problem.** Linux keeps credentials for each kernel thread, POSIX for the process. So glibc signals
//! every thread on its lists to make the system call too. It signals again each thread that has not cleared a
//! bit in its `struct pthread` since. The handler finds that structure through the thread register. If the
//! kernel thread stands on a block, the handler clears the bit of the block, which is never looked at. So the
//! call goes round until it meets the kernel thread on its own register: as long as a busy thread is busy. If
//! the caller itself stands on a block, that is forever.
//!
//! **Rejected.** Kernel threads that are not on the lists: they would keep the old user. To clear the bit in
//! our handler: one more thing to know of `struct pthread`, which the library's handler knows better.
//!
//! **The way.** Our handler comes before the library's. It finds the kernel thread's own `struct pthread` by
//! its id, on the library's lists, and lends the library's handler that register. The lists hold still
//! meanwhile: the caller of `setuid` holds their lock until every thread has answered. The library does not
//! let programs handle its signal, so the kernel is asked directly.

use std::ffi::{c_int, c_ulong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::super::super::kthread;
use super::super::super::once::OnceLock;
use super::super::common::peek;
use super::super::unfit::Unfit;
use super::calibrate::Shape;
use super::layout;
use super::symbols::{Static, field, symbol};

/// `SIGSETXID`: the second of the signals that the library keeps for itself.
const SIGNAL: c_int = 33;

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The kernel's `struct sigaction`, on every 64-bit Linux but riscv64. There, the mask stands in the place of
/// the restorer, and the structure ends with it.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: c_ulong,
    restorer: usize,
    mask: u64,
}

/// What the handler needs. Leaked, because a thread can be in it at any time.
struct Relay {
    library: Handler,
    /// Writes the thread register.
    write: unsafe fn(usize),
    /// The heads of the library's lists of threads: those on stacks of its own, and the others.
    lists: [usize; 2],
    /// The offsets in `struct pthread`.
    link: usize,
    tid: usize,
    sizes: Static,
}

/// Null until `install` is done.
static RELAY: AtomicPtr<Relay> = AtomicPtr::new(ptr::null_mut());

/// Puts this crate's handler before the library's, once. `write` writes the thread register.
pub(super) fn install(shape: &Shape, write: unsafe fn(usize)) -> Result<(), Unfit> {
    static DONE: OnceLock<Result<(), Unfit>> = OnceLock::new();
    *DONE.get_or_init(|| {
        let lists = lists()?;
        let mut action = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
        exchange(None, Some(&mut action))?;
        let ours = handler as Handler as usize;
        if action.handler == ours {
            // This is the child of a fork that another thread called right after the installation.
            return Ok(());
        }
        if action.handler <= libc::SIG_IGN {
            return Err(Unfit::Unexpected("its handler for setuid"));
        }
        let relay = Relay {
            // SAFETY: the library's own handler, which it installed with `SA_SIGINFO`.
            library: unsafe { mem::transmute::<usize, Handler>(action.handler) },
            write,
            lists,
            link: shape.list,
            tid: shape.tid,
            sizes: shape.sizes,
        };
        // Release: pairs with the load in `handler`.
        RELAY.store(Box::into_raw(Box::new(relay)), Ordering::Release);
        // On the kernel thread's alternate stack: a frame on a small green stack could end in its neighbour.
        // And nothing else may run here while the register is lent.
        let flags = action.flags | libc::SA_ONSTACK as c_ulong;
        let restorer = if cfg!(target_arch = "riscv64") { usize::MAX } else { action.restorer };
        exchange(Some(&KernelAction { handler: ours, flags, restorer, mask: u64::MAX }), None)
    })
}

/// Returns the heads of the library's lists of threads.
fn lists() -> Result<[usize; 2], Unfit> {
    let address = |name| symbol(name).map(|at| at.as_ptr().expose_provenance());
    let used = field(c"_thread_db_rtld_global__dl_stack_used");
    let user = field(c"_thread_db_rtld_global__dl_stack_user");
    if let (Ok(used), Ok(user)) = (used, user) {
        let loader = address(c"_rtld_global")?;
        return Ok([loader + used.offset, loader + user.offset]);
    }
    // Up to glibc 2.32, they are those of the library of threads.
    Ok([address(c"stack_used")?, address(c"__stack_user")?])
}

/// Calls `rt_sigaction`. The library's own call refuses this signal.
fn exchange(new: Option<&KernelAction>, old: Option<&mut KernelAction>) -> Result<(), Unfit> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let old = old.map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: null, or what the kernel reads and writes.
    let failed = unsafe { libc::syscall(libc::SYS_rt_sigaction, SIGNAL, new, old, size_of::<u64>()) };
    if failed == 0 { Ok(()) } else { Err(Unfit::Unexpected("its handler for setuid")) }
}

unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Acquire: pairs with the release in `install`, which came before the handler's installation.
    let relay = RELAY.load(Ordering::Acquire);
    // SAFETY: leaked before this handler was installed.
    let relay = unsafe { &*relay };
    let own = layout::own_descriptor();
    let me = kthread::gettid();
    // The library ignores another sender's signal. The lists may change during one.
    // SAFETY: the kernel passes a complete siginfo.
    let stays = !is_setxid(unsafe { &*info }) || relay.id(own) == me;
    // SAFETY: the library's lists hold still until this handler has answered.
    let lend = if stays { None } else { unsafe { relay.find(me) } };
    if let Some(descriptor) = lend {
        // SAFETY: this kernel thread's own register. Every signal is blocked until the handler returns.
        unsafe { (relay.write)(layout::register(descriptor, &relay.sizes)) };
    }
    // SAFETY: as the kernel called this handler. It uses no thread-local except through the register, and no
    // canary of this frame.
    unsafe { (relay.library)(signal, info, context) };
    if lend.is_some() {
        // SAFETY: the value that the register had.
        unsafe { (relay.write)(layout::register(own, &relay.sizes)) };
    }
}

/// Returns `true` for a signal of this process's `setuid`, as the library itself judges.
fn is_setxid(info: &libc::siginfo_t) -> bool {
    // SAFETY: signals with that code have the field, and otherwise it is ignored.
    info.si_code == libc::SI_TKILL && unsafe { info.si_pid() }.cast_unsigned() == std::process::id()
}

impl Relay {
    /// Returns the id in a `struct pthread`.
    fn id(&self, descriptor: usize) -> i32 {
        // SAFETY: the caller has a descriptor.
        unsafe { peek(descriptor + self.tid) }
    }

    /// Returns the thread with the kernel's id `tid`.
    ///
    /// # Safety
    /// No thread changes the library's lists.
    unsafe fn find(&self, tid: i32) -> Option<usize> {
        self.lists.iter().find_map(|&head| {
            // SAFETY: a list's head is a link.
            let mut link: usize = unsafe { peek(head) };
            while link != head {
                let descriptor = link - self.link;
                if self.id(descriptor) == tid {
                    return Some(descriptor);
                }
                // SAFETY: the next link of a list at rest.
                link = unsafe { peek(link) };
            }
            None
        })
    }
}
