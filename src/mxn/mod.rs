//! Green threads over a pool of kernel threads.

mod stack;
