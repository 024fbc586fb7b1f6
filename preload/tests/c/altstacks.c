/*
 * Threads with alternate stacks of their own for handlers of signals. Each gives the memory back at its end,
 * so no kernel thread may use it after that. It prints "ok" at the end.
 */
#include "signals.h"

#include <string.h>
#include <sys/mman.h>

enum { THREADS = 8, ROUNDS = 20, SIZE = 64 * 1024 };

static _Thread_local int handled;

static void on_signal(int signal)
{
    stack_t own;

    (void)signal;
    CHECK(sigaltstack(NULL, &own) == 0 && own.ss_flags == SS_ONSTACK);
    CHECK((char *)&own >= (char *)own.ss_sp && (char *)&own < (char *)own.ss_sp + own.ss_size);
    CHECK(sigaltstack(&own, NULL) == -1);
    handled++;
}

static void *has_own(void *argument)
{
    stack_t own, now, none;

    memset(&own, 0, sizeof own);
    memset(&none, 0, sizeof none);
    none.ss_flags = SS_DISABLE;
    own.ss_size = 1;
    CHECK(sigaltstack(&own, NULL) == -1);
    own.ss_size = SIZE;
    own.ss_sp = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own.ss_sp != MAP_FAILED);
    CHECK(sigaltstack(&own, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(sigaltstack(NULL, &now) == 0);
        CHECK(now.ss_sp == own.ss_sp && now.ss_size == SIZE && now.ss_flags == 0);
        CHECK(raise(SIGUSR1) == 0);
        rest(50);
    }
    CHECK(handled == ROUNDS);
    CHECK(sigaltstack(&none, &now) == 0 && now.ss_sp == own.ss_sp);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE);
    CHECK(munmap(own.ss_sp, SIZE) == 0);
    return argument;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, has_own, NULL) == 0);
        for (int i = 0; i < THREADS; i++)
            join(threads[i]);
    }
    puts("ok");
    return 0;
}
