//! The M:N runtime with either way to write the thread register.

use std::io::ErrorKind;

use selvedge::Mxn;
use selvedge::ThreadRegister;
use selvedge::mxn::Builder;

/// Tries something on a runtime with these settings on each rung that this machine has.
pub(crate) fn on_rungs(builder: &Builder, mut scenario: impl FnMut(&Mxn)) {
    for rung in [ThreadRegister::Switched, ThreadRegister::Syscall] {
        match builder.clone().thread_register(rung).build() {
            Ok(rt) => scenario(&rt),
            Err(error) if error.kind() == ErrorKind::Unsupported => println!("skipped: {rung:?}: {error}"),
            Err(error) => panic!("{rung:?}: {error}"),
        }
    }
}
