/*
 * Threads that other threads end: in each kind of wait, before they begin, while they refuse it, while they
 * compute, and again and again while others wait at the same objects. Prints "ok".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);          \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static int quiet[2];
static int full[2];
static int listener;
static int set;
static pid_t child;
static pthread_t eternal;
static atomic_int cleaned, arrived;

static void cleans(void *unlocks)
{
    atomic_fetch_add(&cleaned, 1);
    if (unlocks != NULL)
        CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static struct timespec in_an_hour(clockid_t clock)
{
    struct timespec then;

    clock_gettime(clock, &then);
    then.tv_sec += 3600;
    return then;
}

static void waits_cond(void) { CHECK(pthread_cond_wait(&never, &mutex) == 0); }

static void waits_cond_timed(void)
{
    struct timespec then = in_an_hour(CLOCK_REALTIME);

    CHECK(pthread_cond_timedwait(&never, &mutex, &then) == 0);
}

static void waits_sem(void) { sem_wait(&empty); }

static void waits_sem_timed(void)
{
    struct timespec then = in_an_hour(CLOCK_REALTIME);

    sem_timedwait(&empty, &then);
}

static void waits_join(void) { pthread_join(eternal, NULL); }

static void waits_join_timed(void)
{
    struct timespec then = in_an_hour(CLOCK_REALTIME);

    pthread_timedjoin_np(eternal, NULL, &then);
}

static void waits_read(void)
{
    char byte;

    read(quiet[0], &byte, 1);
}

static void waits_readv(void)
{
    char byte;
    struct iovec part = { &byte, 1 };

    readv(quiet[0], &part, 1);
}

static void waits_write(void)
{
    static char bytes[1 << 20];

    for (;;)
        write(full[1], bytes, sizeof bytes);
}

static void waits_accept(void) { accept(listener, NULL, NULL); }

static void waits_poll(void)
{
    struct pollfd polled[2] = { { quiet[0], POLLIN, 0 }, { listener, POLLIN, 0 } };

    poll(polled, 2, -1);
}

static void waits_poll_alone(void) { poll(NULL, 0, 3600 * 1000); }

static void waits_select(void)
{
    fd_set read;

    FD_ZERO(&read);
    FD_SET(quiet[0], &read);
    FD_SET(listener, &read);
    select(listener + 1, &read, NULL, NULL, NULL);
}

static void waits_pselect(void)
{
    struct timespec hour = { 3600, 0 };
    fd_set read;

    FD_ZERO(&read);
    FD_SET(quiet[0], &read);
    pselect(quiet[0] + 1, &read, NULL, NULL, &hour, NULL);
}

static void waits_epoll(void)
{
    struct epoll_event event;

    epoll_wait(set, &event, 1, -1);
}

static void waits_sleep(void) { sleep(3600); }

static void waits_nanosleep(void)
{
    struct timespec hour = { 3600, 0 };

    nanosleep(&hour, NULL);
}

static void waits_clock(void)
{
    struct timespec then = in_an_hour(CLOCK_MONOTONIC);

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static void waits_child(void) { waitpid(child, NULL, 0); }

static const struct {
    const char *name;
    void (*waits)(void);
    int locks;
} waits[] = {
    { "pthread_cond_wait", waits_cond, 1 },
    { "pthread_cond_timedwait", waits_cond_timed, 1 },
    { "sem_wait", waits_sem, 0 },
    { "sem_timedwait", waits_sem_timed, 0 },
    { "pthread_join", waits_join, 0 },
    { "pthread_timedjoin_np", waits_join_timed, 0 },
    { "read", waits_read, 0 },
    { "readv", waits_readv, 0 },
    { "write", waits_write, 0 },
    { "accept", waits_accept, 0 },
    { "poll", waits_poll, 0 },
    { "poll of nothing", waits_poll_alone, 0 },
    { "select", waits_select, 0 },
    { "pselect", waits_pselect, 0 },
    { "epoll_wait", waits_epoll, 0 },
    { "sleep", waits_sleep, 0 },
    { "nanosleep", waits_nanosleep, 0 },
    { "clock_nanosleep", waits_clock, 0 },
    { "waitpid", waits_child, 0 },
};
#define KINDS (sizeof waits / sizeof *waits)

static void *waiter(void *argument)
{
    size_t kind = (size_t)argument;
    void *unlocks = waits[kind].locks ? &mutex : NULL;

    if (unlocks != NULL)
        CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(cleans, unlocks);
    atomic_fetch_add(&arrived, 1);
    waits[kind].waits();
    printf("%s returned\n", waits[kind].name);
    exit(1);
    pthread_cleanup_pop(0);
    return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void *joined(pthread_t thread)
{
    void *value;

    CHECK(pthread_join(thread, &value) == 0);
    return value;
}

/* One thread in each wait: at once, or `delay` microseconds after it has begun. */
static void each_wait_ends(useconds_t delay)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        int before = atomic_load(&cleaned), begun = atomic_load(&arrived);
        pthread_t thread = start(waiter, (void *)kind);

        while (delay != 0 && atomic_load(&arrived) == begun)
            usleep(100);
        usleep(delay);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(joined(thread) == PTHREAD_CANCELED);
        /* If it was ended before it had begun, nothing was to be cleaned. */
        CHECK(delay == 0 || atomic_load(&cleaned) == before + 1);
        CHECK(pthread_mutex_trylock(&mutex) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
}

static void all_waits_end_together(void)
{
    pthread_t threads[4 * KINDS];
    int n = 0, before = atomic_load(&cleaned);

    atomic_store(&arrived, 0);
    for (size_t i = 0; i < 4 * KINDS; i++)
        /* Only one thread may join another. */
        if (strstr(waits[i % KINDS].name, "join") == NULL)
            threads[n++] = start(waiter, (void *)(i % KINDS));
    while (atomic_load(&arrived) < n)
        usleep(100);
    for (int i = 0; i < n; i++)
        CHECK(pthread_cancel(threads[i]) == 0);
    for (int i = 0; i < n; i++)
        CHECK(joined(threads[i]) == PTHREAD_CANCELED);
    CHECK(atomic_load(&cleaned) == before + n);
}

static atomic_int go;

static void *refuses(void *argument)
{
    int old;

    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_DISABLE);
    CHECK(pthread_setcancelstate(7, NULL) == EINVAL && pthread_setcanceltype(7, NULL) == EINVAL);
    atomic_store(&go, 1);
    while (atomic_load(&go) < 2)
        usleep(100);
    /* Waits that are not to be ended end as always. */
    CHECK(sem_wait(&empty) == 0);
    pthread_testcancel();
    pthread_mutex_lock(&mutex);
    while (atomic_load(&go) != 3)
        CHECK(pthread_cond_wait(&never, &mutex) == 0);
    pthread_mutex_unlock(&mutex);
    if (argument != NULL)
        return argument;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    pthread_testcancel();
    printf("a request was forgotten\n");
    exit(1);
}

static void refused_requests_wait(void *argument, void *value)
{
    atomic_store(&go, 0);
    pthread_t thread = start(refuses, argument);

    while (atomic_load(&go) != 1)
        usleep(100);
    CHECK(pthread_cancel(thread) == 0);
    atomic_store(&go, 2);
    usleep(2000);
    sem_post(&empty);
    usleep(2000);
    pthread_mutex_lock(&mutex);
    atomic_store(&go, 3);
    pthread_cond_broadcast(&never);
    pthread_mutex_unlock(&mutex);
    CHECK(joined(thread) == value);
}

/* Locks of the C library's own: no thread ends where it takes one. */
static pthread_mutex_t robust;
static pthread_rwlock_t shared_lock;
static pthread_barrier_t shared_barrier;
static pthread_cond_t with_robust = PTHREAD_COND_INITIALIZER;

static void *locks(void *value)
{
    struct timespec then = in_an_hour(CLOCK_REALTIME);

    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    CHECK(pthread_mutex_timedlock(&robust, &then) == 0 && pthread_mutex_unlock(&robust) == 0);
    CHECK(pthread_rwlock_rdlock(&shared_lock) == 0 && pthread_rwlock_unlock(&shared_lock) == 0);
    CHECK(pthread_rwlock_wrlock(&shared_lock) == 0 && pthread_rwlock_unlock(&shared_lock) == 0);
    CHECK(pthread_barrier_wait(&shared_barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    return value;
}

static void unlocks_robust(void *argument)
{
    (void)argument;
    CHECK(pthread_mutex_unlock(&robust) == 0);
}

static void *waits_with_robust(void *argument)
{
    CHECK(pthread_mutex_lock(&robust) == 0);
    pthread_cleanup_push(unlocks_robust, NULL);
    atomic_fetch_add(&arrived, 1);
    for (;;)
        pthread_cond_wait(&with_robust, &robust);
    pthread_cleanup_pop(0);
    return argument;
}

static void locks_are_no_points(void)
{
    pthread_mutexattr_t mutexes;
    pthread_rwlockattr_t rwlocks;
    pthread_barrierattr_t barriers;
    int value;

    CHECK(pthread_mutexattr_init(&mutexes) == 0 && pthread_rwlockattr_init(&rwlocks) == 0);
    CHECK(pthread_mutexattr_settype(&mutexes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutexattr_setrobust(&mutexes, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_rwlockattr_setpshared(&rwlocks, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrierattr_init(&barriers) == 0);
    CHECK(pthread_barrierattr_setpshared(&barriers, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&robust, &mutexes) == 0 && pthread_rwlock_init(&shared_lock, &rwlocks) == 0);
    CHECK(pthread_barrier_init(&shared_barrier, &barriers, 1) == 0);
    CHECK(joined(start(locks, &value)) == &value);
    /* A thread has its mutex again before it ends. */
    atomic_store(&arrived, 0);
    pthread_t thread = start(waits_with_robust, NULL);
    while (atomic_load(&arrived) == 0)
        usleep(100);
    CHECK(pthread_cancel(thread) == 0 && joined(thread) == PTHREAD_CANCELED);
    CHECK(pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
}

static void *computes(void *argument)
{
    volatile unsigned long sum = 0;

    (void)argument;
    pthread_cleanup_push(cleans, NULL);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    atomic_store(&go, 1);
    for (;;)
        sum++;
    pthread_cleanup_pop(0);
    return NULL;
}

static void a_thread_that_computes_ends(void)
{
    for (int i = 0; i < 20; i++) {
        int before = atomic_load(&cleaned);

        atomic_store(&go, 0);
        pthread_t thread = start(computes, NULL);
        while (atomic_load(&go) == 0)
            usleep(100);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(joined(thread) == PTHREAD_CANCELED);
        CHECK(atomic_load(&cleaned) == before + 1);
    }
}

static void *joins(void *thread)
{
    CHECK(joined(*(pthread_t *)thread) == PTHREAD_CANCELED);
    return NULL;
}

/* What is known of a thread may be no other's any more while one still asks it to end. */
static void a_thread_is_gone_before_the_asker_returns(void)
{
    pthread_attr_t detached;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 40; i++) {
        int before = atomic_load(&cleaned), joined_by_other = i % 2;
        pthread_t thread, joiner = pthread_self();

        atomic_store(&go, 0);
        CHECK(pthread_create(&thread, joined_by_other ? NULL : &detached, computes, NULL) == 0);
        if (joined_by_other)
            joiner = start(joins, &thread);
        while (atomic_load(&go) == 0)
            usleep(100);
        CHECK(pthread_cancel(thread) == 0);
        while (atomic_load(&cleaned) == before)
            usleep(100);
        if (joined_by_other)
            CHECK(joined(joiner) == NULL);
    }
    pthread_attr_destroy(&detached);
}

static void *ends_itself(void *anywhere)
{
    pthread_cleanup_push(cleans, NULL);
    if (anywhere != NULL)
        CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    pthread_cancel(pthread_self());
    CHECK(anywhere == NULL);
    pthread_testcancel();
    exit(1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *returns(void *argument)
{
    return argument;
}

/* Posts are neither lost nor made up while threads end that wait for them. */
static void *takes(void *argument)
{
    (void)argument;
    for (;;) {
        if (sem_wait(&empty) != 0)
            continue;
        atomic_fetch_add(&arrived, 1);
    }
    return NULL;
}

static void posts_are_not_lost(void)
{
    enum { ROUNDS = 200, POSTS = 10 };
    int value;

    atomic_store(&arrived, 0);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t ends = start(takes, NULL), stays = start(takes, NULL);

        for (int i = 0; i < POSTS; i++) {
            sem_post(&empty);
            if (i == round % POSTS)
                CHECK(pthread_cancel(ends) == 0);
        }
        CHECK(joined(ends) == PTHREAD_CANCELED);
        while (sem_getvalue(&empty, &value) == 0 && value > 0)
            usleep(50);
        CHECK(pthread_cancel(stays) == 0);
        CHECK(joined(stays) == PTHREAD_CANCELED);
    }
    /* A thread may be ended between the post and the count. */
    CHECK(sem_getvalue(&empty, &value) == 0 && value == 0);
    CHECK(atomic_load(&arrived) <= ROUNDS * POSTS);
}

static void *waits_in_main_thread(void *main_thread)
{
    usleep(20000);
    CHECK(pthread_cancel(*(pthread_t *)main_thread) == 0);
    return NULL;
}

static void says_ok(void *argument)
{
    (void)argument;
    printf("ok\n");
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct epoll_event event = { .events = EPOLLIN };
    pthread_t own = pthread_self();

    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(150);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK(sem_init(&empty, 0, 0) == 0 && pipe(quiet) == 0 && pipe(full) == 0);
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 8) == 0);
    CHECK((set = epoll_create1(0)) >= 0);
    event.data.fd = quiet[0];
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, quiet[0], &event) == 0);
    eternal = start((void *(*)(void *))waits_sleep, NULL);

    for (int i = 0; i < 10; i++)
        each_wait_ends(0);
    each_wait_ends(3000);
    all_waits_end_together();
    refused_requests_wait(NULL, PTHREAD_CANCELED);
    refused_requests_wait(&own, &own);
    locks_are_no_points();
    a_thread_that_computes_ends();
    a_thread_is_gone_before_the_asker_returns();
    CHECK(joined(start(ends_itself, NULL)) == PTHREAD_CANCELED);
    CHECK(joined(start(ends_itself, &own)) == PTHREAD_CANCELED);
    /* Without the library, a thread that is ended may take a wake-up with it: glibc 2.36. */
    if (getenv("LD_PRELOAD") != NULL)
        posts_are_not_lost();

    pthread_t ended = start(returns, &own);
    usleep(2000);
    CHECK(pthread_cancel(ended) == 0);
    void *value = joined(ended);
    CHECK(value == &own || value == PTHREAD_CANCELED);

    CHECK(pthread_cancel(eternal) == 0 && joined(eternal) == PTHREAD_CANCELED);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);

    /* The main thread, while it waits in a lock. */
    pthread_cleanup_push(says_ok, NULL);
    start(waits_in_main_thread, &own);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(0);
    return 1;
}
