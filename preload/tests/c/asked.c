/*
 * Threads that were asked to end make calls that are no cancellation points. They end in none of these, and
 * in the next that is one. Prints "ok".
 */
#include "signals.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The last step of `calls`. */
#define ALL 100

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t posted;
static pthread_t main_thread;
static int quiet[2], go;
static volatile int step;

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

/* While one waits for a descriptor, a kernel thread sleeps there, and has to be woken from that. */
static void *reads(void *argument)
{
    char byte;

    read(quiet[0], &byte, 1);
    return argument;
}

static void *waits_cond(void *argument)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!go)
        CHECK(pthread_cond_wait(&changed, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return argument;
}

static void *waits_sem(void *argument)
{
    while (sem_wait(&posted) != 0)
        CHECK(errno == EINTR);
    return argument;
}

static void *waits_lock(void *argument)
{
    CHECK(pthread_rwlock_rdlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
    return argument;
}

static void *waits_barrier(void *argument)
{
    pthread_barrier_wait(&barrier);
    return argument;
}

static void *sleeps(void *argument)
{
    for (;;)
        pause();
    return argument;
}

static void *locks(void *argument)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (volatile int i = 0; i < 30000000; i++)
        ;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return argument;
}

static void *nothing(void *argument) { return argument; }

static void handler(int signal) { (void)signal; }

static void rests(void)
{
    for (volatile int i = 0; i < 20000000; i++)
        ;
}

/* Called by a thread that was asked to end. Others run meanwhile. */
static void calls(void)
{
    pthread_t threads[4], waiters[4], ended, created[64];
    pthread_attr_t attributes;
    sigset_t set, old;
    void *value;

    step = 1;
    for (int i = 0; i < 4; i++)
        waiters[i] = start(waits_cond, NULL);
    step = 2;
    rests();
    CHECK(pthread_mutex_lock(&mutex) == 0);
    go = 1;
    CHECK(pthread_cond_signal(&changed) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    rests();
    step = 3;
    CHECK(pthread_cond_broadcast(&changed) == 0);
    rests();
    step = 4;
    threads[0] = start(waits_sem, NULL);
    rests();
    CHECK(sem_post(&posted) == 0);
    rests();
    step = 5;
    CHECK(pthread_rwlock_wrlock(&lock) == 0);
    threads[1] = start(waits_lock, NULL);
    rests();
    CHECK(pthread_rwlock_unlock(&lock) == 0);
    rests();
    step = 6;
    threads[2] = start(waits_barrier, NULL);
    rests();
    pthread_barrier_wait(&barrier);
    rests();
    step = 7;
    threads[3] = start(locks, NULL);
    rests();
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    step = 8;
    ended = start(sleeps, NULL);
    rests();
    CHECK(pthread_kill(ended, SIGUSR1) == 0);
    rests();
    step = 9;
    CHECK(pthread_cancel(ended) == 0);
    rests();
    step = 10;
    CHECK(pthread_setname_np(pthread_self(), "asked") == 0);
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    pthread_attr_destroy(&attributes);
    step = 11;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, &old) == 0 && pthread_kill(pthread_self(), SIGUSR2) == 0);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGUSR2));
    CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    step = 12;
    while (pthread_tryjoin_np(ended, &value) == EBUSY)
        sched_yield();
    CHECK(value == PTHREAD_CANCELED);
    for (int i = 0; i < 4; i++) {
        while (pthread_tryjoin_np(threads[i], &value) == EBUSY)
            sched_yield();
        while (pthread_tryjoin_np(waiters[i], &value) == EBUSY)
            sched_yield();
    }
    step = 13;
    CHECK(pthread_detach(start(sleeps, NULL)) == 0);
    step = 14;
    for (int i = 0; i < 64; i++)
        created[i] = start(nothing, NULL);
    for (int i = 0; i < 64; i++)
        while (pthread_tryjoin_np(created[i], &value) == EBUSY)
            sched_yield();
    go = 0;
    step = ALL;
}

static void ends_after_all(pthread_t thread)
{
    void *value;

    CHECK(pthread_join(thread, &value) == 0);
    if (value != PTHREAD_CANCELED || step != ALL) {
        printf("ended at step %d\n", step);
        exit(1);
    }
}

static void *judges(void *argument)
{
    ends_after_all(main_thread);
    puts("ok");
    exit(0);
    return argument;
}

static void *asked(void *is_main)
{
    step = 0;
    CHECK(pthread_cancel(pthread_self()) == 0);
    if (is_main != NULL)
        start(judges, NULL);
    calls();
    pthread_testcancel();
    step = 0;
    return NULL;
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(150);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    CHECK(pipe(quiet) == 0 && sem_init(&posted, 0, 0) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    main_thread = pthread_self();
    start(reads, NULL);
    usleep(10000);
    for (int i = 0; i < 3; i++)
        ends_after_all(start(asked, NULL));
    asked(&main_thread);
    return 1;
}
