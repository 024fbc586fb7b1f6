/*
 * Threads overflow their stacks, and a handler of the program's jumps back. It prints "ok" at the end. With
 * an argument, a function of the library may be what overflows.
 */
#include "signals.h"

#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TIMES = 5, STACK = 64 * 1024 };

static _Thread_local sigjmp_buf back;
static _Thread_local volatile int overflows;
static int yields;

static void on_fault(int signal)
{
    (void)signal;
    overflows++;
    siglongjmp(back, 1);
}

static __attribute__((noinline)) int dig(int depth)
{
    volatile char frame[1000];

    memset((void *)frame, depth, sizeof frame);
    if (yields)
        sched_yield();
    return dig(depth + 1) + frame[depth % 1000];
}

static void *digs(void *argument)
{
    stack_t own = { .ss_sp = malloc(STACK), .ss_size = STACK }, none = { .ss_flags = SS_DISABLE };

    CHECK(own.ss_sp && sigaltstack(&own, NULL) == 0);
    for (volatile int i = 0; i < TIMES; i++) {
        if (sigsetjmp(back, 1) == 0)
            dig(0);
        rest(50);
    }
    CHECK(overflows == TIMES);
    CHECK(sigaltstack(&none, NULL) == 0);
    free(own.ss_sp);
    return argument;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    struct sigaction action;

    (void)arguments;
    yields = count > 1;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_fault;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 4 * STACK) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], &attributes, digs, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    puts("ok");
    return 0;
}
