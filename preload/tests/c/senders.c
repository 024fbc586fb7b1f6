/*
 * What signals for one thread promise to those that send many, from anywhere, and to a thread that suspends
 * itself. It prints "ok" at the end.
 */
#include "signals.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>

static pthread_t start(void *(*function)(void *))
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
    return thread;
}

static sem_t waits, may_go_on, handled;
static volatile int counted, over;

static void on_count(int signal)
{
    (void)signal;
    counted++;
}

static void on_other(int signal)
{
    (void)signal;
    over = 1;
}

enum { QUEUED = 400 };

static void *unblocks(void *argument)
{
    set_mask(SIG_BLOCK, SIGRTMIN, 0);
    sem_post(&waits);
    take(&may_go_on);
    CHECK(counted == 0);
    set_mask(SIG_UNBLOCK, SIGRTMIN, 0);
    CHECK(counted == QUEUED);
    return argument;
}

/* All that are queued come when the thread does not block them any more. */
static void queued(void)
{
    union sigval value = { .sival_int = 1 };
    pthread_t thread = start(unblocks);
    int i;

    handle_by(SIGRTMIN, on_count, SA_RESTART);
    take(&waits);
    for (i = 0; i < QUEUED; i++)
        CHECK(pthread_sigqueue(thread, SIGRTMIN, value) == 0);
    sem_post(&may_go_on);
    join(thread);
}

static void *suspends(void *argument)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sem_post(&waits);
    CHECK(sigsuspend(&set) == -1 && errno == EINTR);
    CHECK(over == 1);
    return argument;
}

/* A signal that a thread blocks while it suspends itself does not end that. */
static void suspended(void)
{
    pthread_t thread;
    int i;

    handle_by(SIGUSR1, on_count, SA_RESTART);
    handle_by(SIGUSR2, on_other, SA_RESTART);
    for (i = 0; i < 10; i++) {
        over = 0;
        thread = start(suspends);
        take(&waits);
        /* It is suspended by then, as a rule. */
        rest(5000);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        rest(5000);
        CHECK(pthread_kill(thread, SIGUSR2) == 0);
        join(thread);
    }
}

static pthread_t target;
static volatile long alarms;

static void on_answer(int signal)
{
    (void)signal;
    sem_post(&handled);
}

static volatile int is_handled;

static void on_alarm(int signal)
{
    int error = errno;

    (void)signal;
    /* It may come to a kernel thread that runs no thread, too. */
    if (__sync_lock_test_and_set(&is_handled, 1) == 0) {
        alarms++;
        CHECK(pthread_kill(target, SIGUSR2) == 0);
        take(&handled);
        __sync_lock_release(&is_handled);
    }
    errno = error;
}

static void *yields(void *argument)
{
    sem_post(&waits);
    while (!over)
        sched_yield();
    return argument;
}

static void *sends(void *argument)
{
    set_mask(SIG_UNBLOCK, SIGALRM, 0);
    while (alarms < 5000)
        CHECK(pthread_kill(target, SIGUSR1) == 0);
    return argument;
}

/* A handler interrupts a thread that sends a signal, sends one to the same thread, and waits for the answer. */
static void in_senders(void)
{
    struct itimerval often = { { 0, 200 }, { 0, 200 } }, never;
    pthread_t sender;

    over = 0;
    set_mask(SIG_BLOCK, SIGALRM, 0);
    handle_by(SIGUSR1, on_count, SA_RESTART);
    handle_by(SIGUSR2, on_answer, SA_RESTART);
    handle_by(SIGALRM, on_alarm, SA_RESTART);
    target = start(yields);
    take(&waits);
    sender = start(sends);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    join(sender);
    memset(&never, 0, sizeof never);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    /* One that waits for a thread that does not block it is gone, too. */
    handle_by(SIGALRM, SIG_IGN, SA_RESTART);
    while (is_handled)
        rest(1000);
    over = 1;
    join(target);
}

/*
 * The program's allocator. Threads that have been stopped may have its locks, so the library's thread that
 * tells others of their signals does not use it.
 */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
static volatile int are_stopped;

static void look(void)
{
    static const char text[] = "memory is taken or freed while threads are stopped\n";

    char name[16] = "";

    if (are_stopped && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "selvedge-kill") == 0
        && write(1, text, sizeof text - 1))
        _exit(1);
}

void *malloc(size_t size)
{
    look();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    look();
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    look();
    return __libc_realloc(block, size);
}

void free(void *block)
{
    look();
    __libc_free(block);
}

enum { STOPPED = 40 };

static void on_stop(int signal)
{
    (void)signal;
    stop_for_round(&handled, &handled);
}

static void on_go(int signal)
{
    (void)signal;
}

/* A collector stops threads by a signal. */
static void stops(void)
{
    pthread_t threads[STOPPED];
    int i, round;

    over = 0;
    stop_by_signals(on_stop, on_go);
    for (i = 0; i < STOPPED; i++)
        threads[i] = start(yields);
    for (i = 0; i < STOPPED; i++)
        take(&waits);
    for (round = 0; round < 3; round++) {
        are_stopped = 1;
        for (i = 0; i < STOPPED; i++)
            CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
        for (i = 0; i < STOPPED; i++)
            take(&handled);
        round_of_stops++;
        for (i = 0; i < STOPPED; i++)
            CHECK(pthread_kill(threads[i], SIGUSR2) == 0);
        for (i = 0; i < STOPPED; i++)
            take(&handled);
        are_stopped = 0;
    }
    over = 1;
    for (i = 0; i < STOPPED; i++)
        join(threads[i]);
}

static volatile int never;

static void on_end(int signal)
{
    (void)signal;
    pthread_exit(&waits);
}

static void *never_ends(void *argument)
{
    sem_post(&waits);
    while (!never)
        rest(1000000);
    return argument;
}

/* A handler ends its thread. The signals that were blocked there come to the threads that are next. */
static void in_threads_that_end(void)
{
    pthread_t thread;
    void *value;
    int i;

    handle_by(SIGUSR1, on_end, SA_RESTART);
    for (i = 0; i < 40; i++) {
        thread = start(never_ends);
        take(&waits);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        CHECK(pthread_join(thread, &value) == 0 && value == &waits);
    }
}

static volatile int told;

static void *ends_when_told(void *argument)
{
    int before = told;

    set_mask(SIG_BLOCK, SIGUSR1, 0);
    CHECK(pthread_detach(pthread_self()) == 0);
    sem_post(&waits);
    while (told == before)
        ;
    return argument;
}

/* Threads end that have been sent a signal. The library's thread may be the last that knows of one. */
static void to_threads_that_end(void)
{
    pthread_t thread;
    int i;

    handle_by(SIGUSR1, on_go, SA_RESTART);
    for (i = 0; i < 300; i++) {
        thread = start(ends_when_told);
        take(&waits);
        /* By now, the library's thread has begun. */
        are_stopped = i > 0;
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        told++;
    }
    rest(1000);
    are_stopped = 0;
}

enum { CREATED = 200 };

static pthread_t creator, newest;
static int asks;
static sem_t born, looked, may_end;

static void on_look(int signal)
{
    int error = errno;

    (void)signal;
    sem_post(&looked);
    errno = error;
}

static void *is_born(void *argument)
{
    newest = pthread_self();
    sem_post(&born);
    take(&may_end);
    return argument;
}

/* Stops the creator as soon as the new thread has begun, and sends that a signal. */
static void *stops_creator(void *argument)
{
    int i;

    for (i = 0; i < CREATED; i++) {
        take(&born);
        CHECK(pthread_kill(creator, SIGUSR1) == 0);
        take(&handled);
        CHECK(pthread_kill(newest, SIGWINCH) == 0);
        take(&looked);
        round_of_stops++;
        CHECK(pthread_kill(creator, SIGUSR2) == 0);
        take(&handled);
        sem_post(&may_end);
    }
    return argument;
}

static void *creates(void *argument)
{
    pthread_t other;
    int i;

    creator = pthread_self();
    other = start(stops_creator);
    for (i = 0; i < CREATED; i++) {
        pthread_t one = start(is_born);

        /* To ask holds what is known of the thread for moments. The others need a processor, too. */
        while (asks && pthread_tryjoin_np(one, NULL) == EBUSY)
            sched_yield();
        if (!asks)
            join(one);
    }
    join(other);
    return argument;
}

/* A collector stops a thread that creates another, or joins it, and then the other one. */
static void in_creators(void)
{
    stop_by_signals(on_stop, on_go);
    handle_by(SIGWINCH, on_look, SA_RESTART);
    for (asks = 0; asks < 2; asks++) {
        creates(NULL);
        join(start(creates));
    }
}

int main(int count, char **arguments)
{
    const char *only = count > 1 ? arguments[1] : "";

    sem_init(&waits, 0, 0);
    sem_init(&may_go_on, 0, 0);
    sem_init(&handled, 0, 0);
    sem_init(&born, 0, 0);
    sem_init(&looked, 0, 0);
    sem_init(&may_end, 0, 0);
#define RUN(part) (*only == 0 || strcmp(only, #part) == 0 ? part() : (void)0)
    RUN(queued);
    RUN(in_creators);
    RUN(suspended);
    RUN(stops);
    RUN(in_senders);
    RUN(in_threads_that_end);
    RUN(to_threads_that_end);
    printf("ok\n");
    return 0;
}
