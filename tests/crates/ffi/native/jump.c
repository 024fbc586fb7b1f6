/* setjmp and longjmp around a callback that switches threads. */
#include <setjmp.h>
#include <stddef.h>

typedef void (*hop_fn)(void *);

/* Jumps from the bottom of a stack of frames; returns only where there is nowhere to jump to. */
static int deep(jmp_buf *back, int depth, hop_fn hop, void *context) {
    volatile int frame = depth; /* keeps the recursion a recursion */
    if (depth > 0) return deep(back, frame - 1, hop, context) + frame;
    hop(context);
    if (back != NULL) longjmp(*back, 42);
    return 0;
}

/* Gives 42 + depth if the jump came back into the right frame. */
int jump_across_switch(int depth, hop_fn hop, void *context) {
    jmp_buf back;
    volatile int local = depth;
    int value = setjmp(back);
    if (value == 0) {
        hop(context);
        return -1 - deep(&back, depth, hop, context);
    }
    hop(context);
    return value + local;
}

static _Thread_local int counter;
static _Thread_local const int *address;

/* Counts in a thread-local of C; 0 if its address has changed. */
int count_in_thread_local(hop_fn hop, void *context) {
    if (address == NULL) address = &counter;
    int before = counter;
    hop(context);
    counter = before + 1;
    return address == &counter ? counter : 0;
}
