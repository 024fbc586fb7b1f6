//! The C and C++ side of the tests. Calls come back by `longjmp` or by an exception, and thread-locals are
//! those of C and C++. Each has a callback in the middle.
#![cfg(not(no_cxx))]

use std::ffi::{c_int, c_void};

/// Called in the middle, with the context that was passed.
pub type Hop = extern "C" fn(*mut c_void);

unsafe extern "C" {
    pub fn jump_across_switch(depth: c_int, hop: Hop, context: *mut c_void) -> c_int;
    pub fn count_in_thread_local(hop: Hop, context: *mut c_void) -> c_int;
    pub fn exceptions_across_switch(depth: c_int, hop: Hop, context: *mut c_void) -> c_int;
    pub fn thread_local_object(mine: c_int, hop: Hop, context: *mut c_void) -> c_int;
    pub fn thread_local_objects(made: *mut c_int, dropped: *mut c_int);
}
