//! Green threads over a pool of kernel threads.

mod stack;
mod tls;

pub use tls::ThreadRegister;
