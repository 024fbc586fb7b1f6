// Keeps stacks for the models that `ci/loom.sh` runs. Loom maps a stack for each thread of each execution,
// and unmaps it when the thread has ended. A model has thousands of executions, so the kernel took two fifths
// of their time.
//
// A stack that is unmapped here stays, and is the answer to the next request for one. It has the contents
// that the last thread left, and its guard page: loom protects that page again. All threads of a model run on
// one kernel thread, so each kernel thread keeps its own stacks.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 0x9000 // 32 KiB, and the guard page. Loom's threads have no others.
#define MOST 16     // Loom has no models with as many threads.

static __thread struct {
    void *at;
    bool is_free;
} stacks[MOST];
static __thread int count;

void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
    bool is_stack = at == NULL && size == SIZE && flags == (MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK);
    for (int i = 0; is_stack && i < count; i++) {
        if (stacks[i].is_free) {
            stacks[i].is_free = false;
            return stacks[i].at;
        }
    }
    void *new = (void *)syscall(SYS_mmap, at, size, access, flags, file, offset);
    if (is_stack && new != MAP_FAILED && count < MOST)
        stacks[count++].at = new;
    return new;
}

int munmap(void *at, size_t size) {
    for (int i = 0; size == SIZE && i < count; i++) {
        if (stacks[i].at == at) {
            stacks[i].is_free = true;
            return 0;
        }
    }
    return (int)syscall(SYS_munmap, at, size);
}
