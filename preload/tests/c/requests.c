/*
 * Requests to end a thread that come while it cannot heed them: in a wait of the program's own `malloc`,
 * within a call that waits, and while it ignores them. None is lost, and they hold up no signal. Prints "ok".
 */
#include "signals.h"

#include <poll.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);

enum { TAKES, LOCKS, SLEEPS, KINDS };

static _Thread_local int is_armed;
static int kind, quiet[2], is_green;
static atomic_int begun, handled;
static sem_t posted, never;
static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;
static sigjmp_buf out;

static void waits(void)
{
    switch (kind) {
    case TAKES:
        take(&posted);
        break;
    case LOCKS:
        pthread_mutex_lock(&locked);
        pthread_mutex_unlock(&locked);
        break;
    default:
        rest(100000);
    }
}

/* What `poll` calls for a green thread. */
void *malloc(size_t size)
{
    if (is_armed) {
        is_armed = 0;
        atomic_store(&begun, 1);
        waits();
    }
    return __libc_malloc(size);
}

static void polls(void)
{
    struct pollfd polled[2] = { { quiet[0], POLLIN, 0 }, { quiet[0], POLLPRI, 0 } };

    is_armed = 1;
    poll(polled, 2, -1);
    is_armed = 0;
}

static void await_malloc(void)
{
    while (is_green && atomic_load(&begun) == 0)
        rest(100);
    /* It waits by then, as a rule. */
    rest(10000);
}

static void ends(pthread_t thread)
{
    void *value;

    CHECK(pthread_join(thread, &value) == 0 && value == PTHREAD_CANCELED);
}

static void *polls_once(void *argument)
{
    polls();
    return argument;
}

static void in_a_call_within(void)
{
    pthread_t thread;

    for (kind = 0; kind < KINDS; kind++) {
        atomic_store(&begun, 0);
        CHECK(pthread_mutex_lock(&locked) == 0);
        CHECK(pthread_create(&thread, NULL, polls_once, NULL) == 0);
        await_malloc();
        CHECK(pthread_cancel(thread) == 0);
        rest(10000);
        CHECK(pthread_mutex_unlock(&locked) == 0);
        if (is_green && kind == TAKES)
            sem_post(&posted);
        ends(thread);
    }
}

static void *ignores(void *argument)
{
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    take(&posted);
    return argument;
}

static void notes(int signal)
{
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void while_they_are_ignored(void)
{
    pthread_t thread;
    int i;

    handle_by(SIGUSR1, notes, SA_RESTART);
    CHECK(pthread_create(&thread, NULL, ignores, NULL) == 0);
    rest(10000);
    for (i = 0; i < 3; i++) {
        CHECK(pthread_cancel(thread) == 0);
        rest(10000);
    }
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (atomic_load(&handled) == 0)
        rest(100);
    sem_post(&posted);
    join(thread);
}

static void jumps(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void *jumps_and_sleeps(void *argument)
{
    if (sigsetjmp(out, 1) == 0)
        polls();
    atomic_store(&begun, 2);
    for (;;)
        rest(10000000);
    return argument;
}

static void after_a_jump_out_of_a_call_within(void)
{
    pthread_t thread;

    kind = TAKES;
    atomic_store(&begun, 0);
    handle_by(SIGUSR1, jumps, SA_RESTART);
    CHECK(pthread_create(&thread, NULL, jumps_and_sleeps, NULL) == 0);
    await_malloc();
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (atomic_load(&begun) != 2)
        rest(100);
    CHECK(pthread_cancel(thread) == 0);
    ends(thread);
}

static void *takes(void *argument)
{
    take(&never);
    return argument;
}

/* Such a handler may run in itself. So no green thread knows that it is in none: it waits in the kernel. */
static void where_handlers_cannot_be_told(void)
{
    pthread_t thread;

    handle_by(SIGUSR1, notes, SA_NODEFER | SA_RESTART);
    CHECK(pthread_create(&thread, NULL, takes, NULL) == 0);
    rest(10000);
    CHECK(pthread_cancel(thread) == 0);
    ends(thread);
}

int main(void)
{
    const char *model = getenv("SELVEDGE_RUNTIME");

    is_green = model != NULL && strcmp(model, "mxn") == 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(60);
    CHECK(pipe(quiet) == 0 && sem_init(&posted, 0, 0) == 0 && sem_init(&never, 0, 0) == 0);
    in_a_call_within();
    while_they_are_ignored();
    after_a_jump_out_of_a_call_within();
    where_handlers_cannot_be_told();
    puts("ok");
    return 0;
}
