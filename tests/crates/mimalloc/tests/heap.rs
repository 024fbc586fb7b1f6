//! mimalloc as the global allocator of a program of migrating threads.

#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../../shared/heap.rs"]
mod heap;
