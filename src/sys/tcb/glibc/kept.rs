//! Memory of the library's that hangs on `struct pthread`, beside its thread-locals. It is the text of the
//! last unknown error and signal (since glibc 2.32), and the state of random numbers (since 2.41).
//!
//! The library frees it when a thread ends, in functions that it does not export. So it stays with a block
//! from one thread to the next, and outlives the block (`carry_over.rs`). No names tell where the fields are.
//! They are those that are null until the library has been asked for such things.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::super::common::LC_GLOBAL_LOCALE;
use super::super::unfit::Unfit;
use super::symbols::function;

/// The most fields that are expected.
const MOST: usize = 8;

/// No error and no signal has this number.
const UNKNOWN: c_int = 100_000;

/// Public functions that allocate for the calling thread.
#[derive(Clone, Copy)]
pub(super) struct Makers {
    /// Not in every glibc.
    random: Option<unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize>,
    error: unsafe extern "C" fn(c_int, libc::locale_t) -> *mut c_char,
    signal: unsafe extern "C" fn(c_int) -> *mut c_char,
}

impl Makers {
    pub(super) fn bind() -> Result<Self, Unfit> {
        Ok(Self {
            // SAFETY: public since 2.25: `ssize_t getrandom (void *, size_t, unsigned int)`.
            random: unsafe { function(c"getrandom") }.ok(),
            // SAFETY: public: `char *strerror_l (int, locale_t)`.
            error: unsafe { function(c"strerror_l") }?,
            // SAFETY: public: `char *strsignal (int)`.
            signal: unsafe { function(c"strsignal") }?,
        })
    }

    /// Makes the library allocate all of it for the calling thread.
    pub(super) fn call(&self) {
        let mut bytes = [0_u8; 8];
        if let Some(random) = self.random {
            // SAFETY: the buffer is as long as the argument says.
            unsafe { random(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
        }
        // SAFETY: any number will do, and the locale always exists.
        unsafe { (self.error)(UNKNOWN, LC_GLOBAL_LOCALE) };
        // SAFETY: any number will do.
        unsafe { (self.signal)(UNKNOWN) };
    }
}

/// Returns the fields: those that are null in `before` and not in `after`, which are copies of one thread's
/// descriptor. Those in `except` do not count.
pub(super) fn fields(
    before: &[u8],
    after: &[u8],
    except: &[std::ops::Range<usize>],
) -> Result<Vec<usize>, Unfit> {
    let words = before.chunks_exact(8).zip(after.chunks_exact(8)).enumerate();
    let filled = words.filter(|(_, (before, after))| **before == [0; 8] && **after != [0; 8]);
    let counts = |at: &usize| !except.iter().any(|range| range.contains(at));
    let fields: Vec<usize> = filled.map(|(word, _)| word * 8).filter(counts).collect();
    if fields.len() > MOST {
        Err(Unfit::Unexpected("the memory that it keeps for a thread"))
    } else {
        Ok(fields)
    }
}
