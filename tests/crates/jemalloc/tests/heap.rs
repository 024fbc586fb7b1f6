//! jemalloc as the global allocator of a program of migrating threads.

#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[path = "../../shared/heap.rs"]
mod heap;
