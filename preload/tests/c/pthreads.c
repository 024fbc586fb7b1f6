/*
 * What the manual says of POSIX threads and their locks, asked of whatever library the program gets. It
 * prints "ok" at the end, or the first line that was not so.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define EXPECT(claim) \
    do { \
        if (!(claim)) { \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #claim); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)

enum { CROWD = 200 };

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec then;

    clock_gettime(clock, &then);
    then.tv_nsec += ms % 1000 * 1000000;
    then.tv_sec += ms / 1000 + then.tv_nsec / 1000000000;
    then.tv_nsec %= 1000000000;
    return then;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void *finish(pthread_t thread)
{
    void *value;

    EXPECT(pthread_join(thread, &value) == 0);
    return value;
}

/* Threads: values, exits, clean-up, keys. */

struct keeper {
    pthread_t self;
    int number;
};

static int cleaned;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int made;

static void clean(void *argument)
{
    cleaned = cleaned * 10 + (int)(intptr_t)argument;
}

/* Leaves the thread from a frame far below its function. */
static __attribute__((noinline)) int leaves(int depth)
{
    volatile char frame[1000] = { 0 };

    if (depth == 0)
        pthread_exit((void *)42);
    return leaves(depth - 1) + frame[depth];
}

static void *exits(void *argument)
{
    pthread_cleanup_push(clean, (void *)1);
    pthread_cleanup_push(clean, (void *)2);
    pthread_cleanup_push(clean, (void *)3);
    pthread_cleanup_pop(0);
    EXPECT(leaves(20) < 0);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(1);
    return argument;
}

static void *returns(void *argument)
{
    pthread_cleanup_push(clean, (void *)7);
    pthread_cleanup_pop(1);
    return argument;
}

static void clean_and_ask(void *argument)
{
    struct keeper *keeper = argument;

    /* Still the thread that it was. */
    EXPECT(pthread_equal(keeper->self, pthread_self()));
    clean((void *)(intptr_t)keeper->number);
    free(keeper);
}

static void make(void)
{
    made++;
    /* The program has no key 0 before it has made one. */
    EXPECT(pthread_setspecific(key, &made) != 0);
    EXPECT(pthread_key_create(&key, clean_and_ask) == 0);
}

static void *keeps(void *argument)
{
    struct keeper *keeper = malloc(sizeof *keeper);

    keeper->self = pthread_self();
    keeper->number = (int)(intptr_t)argument;
    EXPECT(pthread_once(&once, make) == 0);
    EXPECT(pthread_getspecific(key) == NULL);
    EXPECT(pthread_setspecific(key, keeper) == 0);
    sched_yield();
    EXPECT(pthread_getspecific(key) == keeper);
    EXPECT(pthread_equal(pthread_self(), pthread_self()));
    return argument;
}

static int freed;

/* Frees the place of its own id. The creator must not write there any more. */
static void *frees(void *argument)
{
    munmap(argument, 4096);
    __atomic_add_fetch(&freed, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *sleeps(void *argument)
{
    usleep(20000);
    return argument;
}

static void places_and_questions(void)
{
    pthread_attr_t detached;
    pthread_t thread;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 100; i++) {
        pthread_t *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        EXPECT(pthread_create(place, &detached, frees, place) == 0);
    }
    while (__atomic_load_n(&freed, __ATOMIC_SEQ_CST) < 100)
        sched_yield();
    EXPECT(pthread_create(&thread, &detached, sleeps, NULL) == 0);
    EXPECT(pthread_kill(thread, 0) == 0);
    usleep(30000);
}

static void *waits_for_post(void *argument)
{
    while (sem_wait(argument) != 0)
        ;
    return argument;
}

static void times_and_sizes_that_cannot_be(void)
{
    struct timespec before_all = { -1, 0 }, late = in_ms(CLOCK_MONOTONIC, 5);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_attr_t large;
    pthread_t thread;
    sem_t posted;
    int code;

    EXPECT(sem_init(&posted, 0, 0) == 0);
    thread = start(waits_for_post, &posted);
    EXPECT(pthread_timedjoin_np(thread, NULL, &before_all) == ETIMEDOUT);
    EXPECT(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &before_all) == ETIMEDOUT);
    EXPECT(sem_post(&posted) == 0);
    EXPECT(finish(thread) == &posted);

    /* A clock that does not count in a wait, though there is nothing to wait for. */
    EXPECT(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
    EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
    EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &late) == EINVAL);
    EXPECT(sem_post(&posted) == 0);
    EXPECT(sem_clockwait(&posted, CLOCK_PROCESS_CPUTIME_ID, &late) == -1 && errno == EINVAL);

    pthread_attr_init(&large);
    EXPECT(pthread_attr_setstacksize(&large, (size_t)1 << 40) == 0);
    code = pthread_create(&thread, &large, sleeps, NULL);
    if (code == 0)
        finish(thread);
    else
        EXPECT(code == EAGAIN);
    pthread_attr_destroy(&large);
}

static void a_priority_that_cannot_be(void)
{
    struct sched_param first = { 1 };
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    EXPECT(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    EXPECT(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
    EXPECT(pthread_attr_setschedparam(&attributes, &first) == 0);
    EXPECT(pthread_attr_setschedpolicy(&attributes, SCHED_OTHER) == 0);
    EXPECT(pthread_create(&thread, &attributes, returns, NULL) == EINVAL);
    pthread_attr_destroy(&attributes);
}

static void threads(void)
{
    for (int round = 0; round < 3; round++) {
        cleaned = 0;
        EXPECT(finish(start(exits, NULL)) == (void *)42);
        EXPECT(cleaned == 21);
        EXPECT(finish(start(returns, (void *)5)) == (void *)5);
        EXPECT(cleaned == 217);
    }
    cleaned = 0;
    EXPECT(finish(start(keeps, (void *)4)) == (void *)4);
    EXPECT(finish(start(keeps, (void *)5)) == (void *)5);
    EXPECT(cleaned == 45 && made == 1);
    EXPECT(pthread_join(pthread_self(), NULL) == EDEADLK);
    places_and_questions();
    times_and_sizes_that_cannot_be();
    a_priority_that_cannot_be();
}

/* Mutexes of all types. */

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static long count;

static void *counts(void *argument)
{
    pthread_mutex_t *mutex = argument;

    for (int i = 0; i < 500; i++) {
        long seen;

        EXPECT(pthread_mutex_lock(mutex) == 0);
        seen = count;
        if (i % 50 == 0)
            sched_yield();
        count = seen + 1;
        EXPECT(pthread_mutex_unlock(mutex) == 0);
    }
    return NULL;
}

static void *tries(void *argument)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 5), late = in_ms(CLOCK_MONOTONIC, 5), wrong = { 0, -1 };

    EXPECT(pthread_mutex_trylock(argument) == EBUSY);
    EXPECT(pthread_mutex_timedlock(argument, &soon) == ETIMEDOUT);
    EXPECT(pthread_mutex_clocklock(argument, CLOCK_MONOTONIC, &late) == ETIMEDOUT);
    EXPECT(pthread_mutex_timedlock(argument, &wrong) == EINVAL);
    return NULL;
}

static void *steals(void *argument)
{
    EXPECT(pthread_mutex_unlock(argument) == EPERM);
    return NULL;
}

static void several(int number, void *(*function)(void *), void *argument)
{
    pthread_t threads[CROWD];

    for (int i = 0; i < number; i++)
        threads[i] = start(function, argument);
    for (int i = 0; i < number; i++)
        finish(threads[i]);
}

static void crowd(void *(*function)(void *), void *argument)
{
    several(CROWD, function, argument);
}

static void mutexes(void)
{
    pthread_mutex_t *all[] = { &normal, &recursive, &checked, &adaptive };
    pthread_mutex_t made_robust, made_shared, made_here;
    pthread_mutexattr_t attributes;

    for (int i = 0; i < 4; i++) {
        count = 0;
        crowd(counts, all[i]);
        EXPECT(count == 500L * CROWD);
        EXPECT(pthread_mutex_lock(all[i]) == 0 && pthread_mutex_destroy(all[i]) == EBUSY);
        finish(start(tries, all[i]));
        EXPECT(pthread_mutex_unlock(all[i]) == 0);
    }
    EXPECT(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_trylock(&recursive) == 0);
    EXPECT(pthread_mutex_unlock(&recursive) == 0);
    finish(start(tries, &recursive));
    finish(start(steals, &recursive));
    EXPECT(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == EPERM);
    EXPECT(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
    EXPECT(pthread_mutex_trylock(&checked) == EBUSY);
    finish(start(steals, &checked));
    EXPECT(pthread_mutex_unlock(&checked) == 0 && pthread_mutex_unlock(&checked) == EPERM);

    pthread_mutexattr_init(&attributes);
    EXPECT(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL) == 0);
    EXPECT(pthread_mutex_init(&made_here, &attributes) == 0);
    count = 0;
    crowd(counts, &made_here);
    EXPECT(count == 500L * CROWD && pthread_mutex_destroy(&made_here) == 0);
    EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    EXPECT(pthread_mutex_init(&made_here, &attributes) == 0);
    EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_NONE) == 0);
    count = 0;
    crowd(counts, &made_here);
    EXPECT(count == 500L * CROWD && pthread_mutex_destroy(&made_here) == 0);
    EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    EXPECT(pthread_mutex_init(&made_robust, &attributes) == 0);
    EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_STALLED) == 0);
    EXPECT(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_mutex_init(&made_shared, &attributes) == 0);
    for (int i = 0; i < 2; i++) {
        pthread_mutex_t *mutex = i ? &made_robust : &made_shared;

        EXPECT(pthread_mutex_lock(mutex) == 0);
        finish(start(tries, mutex));
        EXPECT(pthread_mutex_unlock(mutex) == 0 && pthread_mutex_destroy(mutex) == 0);
    }
}

/* Mistakes that the C library does not notice, and programs make. */
static void *sets_ceiling(void *argument)
{
    pthread_mutex_t *mutex = argument;
    int ceiling = 0;

    EXPECT(pthread_mutex_getprioceiling(mutex, &ceiling) == 0 && ceiling == 5);
    EXPECT(pthread_mutex_setprioceiling(mutex, 7, &ceiling) == 0 && ceiling == 5);
    EXPECT(pthread_mutex_setprioceiling(mutex, 0, &ceiling) == EINVAL);
    EXPECT(pthread_mutex_setprioceiling(mutex, 100, &ceiling) == EINVAL);
    EXPECT(pthread_mutex_setprioceiling(mutex, 8, &ceiling) == 0 && ceiling == 7);
    /* Not every thread may have that priority. */
    if (pthread_mutex_lock(mutex) == 0)
        EXPECT(pthread_mutex_trylock(mutex) == EBUSY && pthread_mutex_unlock(mutex) == 0);
    EXPECT(pthread_mutex_getprioceiling(mutex, &ceiling) == 0 && ceiling == 8);
    return NULL;
}

/* Mutexes that give their owner a priority. */
static void ceilings(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex, plain = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    int ceiling;

    EXPECT(pthread_mutexattr_init(&attributes) == 0);
    EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT) == 0);
    EXPECT(pthread_mutexattr_setprioceiling(&attributes, 5) == 0);
    EXPECT(pthread_mutex_init(&mutex, &attributes) == 0);
    EXPECT(pthread_mutexattr_destroy(&attributes) == 0);
    EXPECT(pthread_create(&thread, NULL, sets_ceiling, &mutex) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(pthread_mutex_destroy(&mutex) == 0);
    EXPECT(pthread_mutex_getprioceiling(&plain, &ceiling) == EINVAL);
    EXPECT(pthread_mutex_setprioceiling(&plain, 5, &ceiling) == EINVAL);
}

static void mistakes(void)
{
    pthread_mutex_t free = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec then = in_ms(CLOCK_REALTIME, 1);

    EXPECT(pthread_mutex_unlock(&free) == 0 && pthread_mutex_lock(&free) == 0);
    EXPECT(pthread_mutex_unlock(&free) == 0);
    EXPECT(pthread_cond_timedwait(&never, &free, &then) == ETIMEDOUT);
    EXPECT(pthread_mutex_trylock(&free) == EBUSY && pthread_mutex_unlock(&free) == 0);
}

/* Condition variables. */

struct box {
    pthread_mutex_t lock;
    pthread_cond_t full, empty;
    int value, left;
};

static void *puts_in(void *argument)
{
    struct box *box = argument;

    for (int i = 1; i <= 20; i++) {
        EXPECT(pthread_mutex_lock(&box->lock) == 0);
        while (box->value != 0)
            EXPECT(pthread_cond_wait(&box->empty, &box->lock) == 0);
        box->value = i;
        EXPECT(pthread_cond_signal(&box->full) == 0);
        EXPECT(pthread_mutex_unlock(&box->lock) == 0);
    }
    return NULL;
}

static void *waits_for_zero(void *argument)
{
    struct box *box = argument;

    EXPECT(pthread_mutex_lock(&box->lock) == 0);
    while (box->left > 0)
        EXPECT(pthread_cond_wait(&box->full, &box->lock) == 0);
    EXPECT(pthread_mutex_unlock(&box->lock) == 0);
    return NULL;
}

static void *opens(void *argument)
{
    struct box *box = argument;

    usleep(2000);
    EXPECT(pthread_mutex_lock(&box->lock) == 0);
    box->left = 0;
    EXPECT(pthread_mutex_unlock(&box->lock) == 0);
    EXPECT(pthread_cond_broadcast(&box->full) == 0);
    return NULL;
}

static void box_game(struct box *box, int waiters)
{
    pthread_t threads[CROWD];
    long sum = 0;

    for (int i = 0; i < 10; i++)
        threads[i] = start(puts_in, box);
    for (int i = 0; i < 200; i++) {
        EXPECT(pthread_mutex_lock(&box->lock) == 0);
        while (box->value == 0)
            EXPECT(pthread_cond_wait(&box->full, &box->lock) == 0);
        sum += box->value;
        box->value = 0;
        EXPECT(pthread_cond_signal(&box->empty) == 0);
        EXPECT(pthread_mutex_unlock(&box->lock) == 0);
    }
    EXPECT(sum == 10 * 210);
    for (int i = 0; i < 10; i++)
        finish(threads[i]);
    box->left = 1;
    for (int i = 0; i < waiters; i++)
        threads[i] = start(waits_for_zero, box);
    finish(start(opens, box));
    for (int i = 0; i < waiters; i++)
        finish(threads[i]);
}

static void *waits_until_full(void *argument)
{
    struct box *box = argument;

    EXPECT(pthread_mutex_lock(&box->lock) == 0);
    box->left++;
    EXPECT(pthread_cond_signal(&box->empty) == 0);
    while (!box->value)
        EXPECT(pthread_cond_wait(&box->full, &box->lock) == 0);
    EXPECT(pthread_mutex_unlock(&box->lock) == 0);
    return argument;
}

/* A thread that waits will lock the mutex again, so it is not destroyed. */
static void waiters_keep_a_mutex(int type)
{
    struct box box = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
    pthread_mutexattr_t attributes;
    pthread_t threads[2];

    pthread_mutexattr_init(&attributes);
    EXPECT(pthread_mutexattr_settype(&attributes, type) == 0);
    EXPECT(pthread_mutex_init(&box.lock, &attributes) == 0);
    EXPECT(pthread_mutex_lock(&box.lock) == 0);
    for (int at = 0; at < 2; at++)
        threads[at] = start(waits_until_full, &box);
    while (box.left < 2)
        EXPECT(pthread_cond_wait(&box.empty, &box.lock) == 0);
    EXPECT(pthread_mutex_unlock(&box.lock) == 0 && pthread_mutex_destroy(&box.lock) == EBUSY);
    EXPECT(pthread_mutex_lock(&box.lock) == 0);
    box.value = 1;
    EXPECT(pthread_cond_broadcast(&box.full) == 0 && pthread_mutex_unlock(&box.lock) == 0);
    finish(threads[0]);
    finish(threads[1]);
    EXPECT(pthread_mutex_destroy(&box.lock) == 0);
}

static void condition_variables(void)
{
    struct box box = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
    struct timespec then;
    pthread_mutexattr_t type;
    pthread_condattr_t attributes;

    box_game(&box, CROWD);
    EXPECT(pthread_mutex_lock(&box.lock) == 0);
    then = in_ms(CLOCK_REALTIME, 5);
    errno = 0;
    EXPECT(pthread_cond_timedwait(&box.full, &box.lock, &then) == ETIMEDOUT && errno == 0);
    then = in_ms(CLOCK_MONOTONIC, 5);
    EXPECT(pthread_cond_clockwait(&box.full, &box.lock, CLOCK_MONOTONIC, &then) == ETIMEDOUT);
    EXPECT(pthread_mutex_trylock(&box.lock) == EBUSY && pthread_mutex_unlock(&box.lock) == 0);
    EXPECT(pthread_cond_destroy(&box.full) == 0 && pthread_cond_destroy(&box.empty) == 0);

    pthread_condattr_init(&attributes);
    EXPECT(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    EXPECT(pthread_cond_init(&box.full, &attributes) == 0 && pthread_cond_init(&box.empty, NULL) == 0);
    EXPECT(pthread_mutex_lock(&box.lock) == 0);
    then = in_ms(CLOCK_MONOTONIC, 5);
    EXPECT(pthread_cond_timedwait(&box.full, &box.lock, &then) == ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(&box.lock) == 0);

    waiters_keep_a_mutex(PTHREAD_MUTEX_NORMAL);
    waiters_keep_a_mutex(PTHREAD_MUTEX_RECURSIVE);
    waiters_keep_a_mutex(PTHREAD_MUTEX_ERRORCHECK);
    /* With a recursive mutex, and with a robust one. */
    pthread_mutexattr_init(&type);
    EXPECT(pthread_mutexattr_settype(&type, PTHREAD_MUTEX_RECURSIVE) == 0);
    EXPECT(pthread_mutex_init(&box.lock, &type) == 0);
    box_game(&box, CROWD);
    EXPECT(pthread_mutexattr_setrobust(&type, PTHREAD_MUTEX_ROBUST) == 0);
    EXPECT(pthread_mutex_init(&box.lock, &type) == 0);
    box_game(&box, 10);
    EXPECT(pthread_mutex_lock(&box.lock) == 0);
    then = in_ms(CLOCK_MONOTONIC, 5);
    EXPECT(pthread_cond_timedwait(&box.full, &box.lock, &then) == ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(&box.lock) == 0);
    /* All of it shared between processes. */
    EXPECT(pthread_mutexattr_setpshared(&type, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_mutex_init(&box.lock, &type) == 0);
    EXPECT(pthread_cond_init(&box.full, &attributes) == 0 && pthread_cond_init(&box.empty, &attributes) == 0);
    box_game(&box, 10);
}

/* Read-write locks, barriers, spin locks, semaphores. */

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static int readers, most_readers, pair[2];

static void *reads_and_writes(void *argument)
{
    for (int i = 0; i < 50; i++) {
        if (i % 8 == 0) {
            EXPECT(pthread_rwlock_wrlock(&shared) == 0);
            EXPECT(pthread_rwlock_wrlock(&shared) == EDEADLK && pthread_rwlock_rdlock(&shared) == EDEADLK);
            pair[0]++;
            sched_yield();
            pair[1]++;
        } else {
            int now;

            EXPECT(pthread_rwlock_rdlock(&shared) == 0);
            now = __atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST);
            if (now > most_readers)
                most_readers = now;
            sched_yield();
            EXPECT(pthread_rwlock_tryrdlock(&shared) == 0 && pthread_rwlock_unlock(&shared) == 0);
            EXPECT(pair[0] == pair[1]);
            __atomic_sub_fetch(&readers, 1, __ATOMIC_SEQ_CST);
        }
        EXPECT(pthread_rwlock_unlock(&shared) == 0);
    }
    return argument;
}

static void *cannot_read(void *argument)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 5), late = in_ms(CLOCK_MONOTONIC, 5);

    EXPECT(pthread_rwlock_tryrdlock(&shared) == EBUSY && pthread_rwlock_trywrlock(&shared) == EBUSY);
    EXPECT(pthread_rwlock_timedrdlock(&shared, &soon) == ETIMEDOUT);
    EXPECT(pthread_rwlock_timedwrlock(&shared, &soon) == ETIMEDOUT);
    EXPECT(pthread_rwlock_clockrdlock(&shared, CLOCK_MONOTONIC, &late) == ETIMEDOUT);
    EXPECT(pthread_rwlock_clockwrlock(&shared, CLOCK_MONOTONIC, &late) == ETIMEDOUT);
    return argument;
}

static pthread_barrier_t barrier;
static int leaders;

static void *meets(void *argument)
{
    for (int i = 0; i < 10; i++) {
        int code = pthread_barrier_wait(&barrier);

        EXPECT(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD);
        if (code != 0)
            __atomic_add_fetch(&leaders, 1, __ATOMIC_SEQ_CST);
    }
    return argument;
}

/* Objects that a thread destroys as soon as it may, and whose memory is gone then: one a page. */

enum { PAGE = 4096, OBJECTS = 1000, PARTIES = 5 };

static char *pages;

static void make_pages(void)
{
    pages = mmap(NULL, (size_t)OBJECTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
}

static void drop_page(void *object)
{
    EXPECT(mprotect(object, PAGE, PROT_NONE) == 0);
}

static void *passes_and_destroys(void *argument)
{
    for (int i = 0; i < OBJECTS; i++) {
        pthread_barrier_t *door = (pthread_barrier_t *)(pages + (size_t)i * PAGE);
        int code = pthread_barrier_wait(door);

        EXPECT(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD);
        if (code != 0) {
            EXPECT(pthread_barrier_destroy(door) == 0);
            drop_page(door);
        }
    }
    return argument;
}

static pthread_mutex_t around;
static int called, waiting;

static void *waits_to_be_called(void *argument)
{
    EXPECT(pthread_mutex_lock(&around) == 0);
    for (int i = 0; i < OBJECTS; i++) {
        pthread_cond_t *call = (pthread_cond_t *)(pages + (size_t)i * PAGE);

        waiting++;
        while (called <= i)
            EXPECT(pthread_cond_wait(call, &around) == 0);
    }
    EXPECT(pthread_mutex_unlock(&around) == 0);
    return argument;
}

static void *calls_and_destroys(void *argument)
{
    for (int i = 0; i < OBJECTS; i++) {
        pthread_cond_t *call = (pthread_cond_t *)(pages + (size_t)i * PAGE);

        EXPECT(pthread_mutex_lock(&around) == 0);
        while (waiting < (i + 1) * PARTIES) {
            EXPECT(pthread_mutex_unlock(&around) == 0);
            sched_yield();
            EXPECT(pthread_mutex_lock(&around) == 0);
        }
        called++;
        EXPECT(pthread_cond_broadcast(call) == 0);
        EXPECT(pthread_mutex_unlock(&around) == 0);
        EXPECT(pthread_cond_destroy(call) == 0);
        drop_page(call);
    }
    return argument;
}

static void destroyed_at_once(void)
{
    pthread_mutexattr_t attributes;
    pthread_t caller;

    make_pages();
    for (int i = 0; i < OBJECTS; i++)
        EXPECT(pthread_barrier_init((pthread_barrier_t *)(pages + (size_t)i * PAGE), NULL, PARTIES) == 0);
    several(PARTIES, passes_and_destroys, NULL);
    EXPECT(munmap(pages, (size_t)OBJECTS * PAGE) == 0);

    pthread_mutexattr_init(&attributes);
    for (int robust = 0; robust < 2; robust++) {
        if (robust)
            EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
        EXPECT(pthread_mutex_init(&around, &attributes) == 0);
        called = waiting = 0;
        make_pages();
        for (int i = 0; i < OBJECTS; i++)
            EXPECT(pthread_cond_init((pthread_cond_t *)(pages + (size_t)i * PAGE), NULL) == 0);
        caller = start(calls_and_destroys, NULL);
        several(PARTIES, waits_to_be_called, NULL);
        finish(caller);
        EXPECT(munmap(pages, (size_t)OBJECTS * PAGE) == 0);
        EXPECT(pthread_mutex_destroy(&around) == 0);
    }
}

static pthread_spinlock_t spin;

static void *spins(void *argument)
{
    for (int i = 0; i < 10; i++) {
        long seen;

        EXPECT(pthread_spin_lock(&spin) == 0);
        seen = count;
        if (i == 5)
            sched_yield();
        count = seen + 1;
        EXPECT(pthread_spin_unlock(&spin) == 0);
    }
    return argument;
}

static sem_t slots, done;

static void *passes(void *argument)
{
    for (int i = 0; i < 20; i++) {
        EXPECT(sem_wait(&slots) == 0);
        EXPECT(__atomic_add_fetch(&readers, 1, __ATOMIC_SEQ_CST) <= 3);
        sched_yield();
        __atomic_sub_fetch(&readers, 1, __ATOMIC_SEQ_CST);
        EXPECT(sem_post(&slots) == 0);
    }
    EXPECT(sem_post(&done) == 0);
    return argument;
}

static void on_signal(int signal)
{
    (void)signal;
    sem_post(&done);
}

/* Handlers post while threads that they interrupt post to each other. */

static sem_t ball[2];
static int over;

static void *returns_the_ball(void *argument)
{
    int side = (int)(intptr_t)argument;

    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        EXPECT(sem_wait(&ball[side]) == 0 || errno == EINTR);
        sem_post(&ball[1 - side]);
    }
    sem_post(&ball[1 - side]);
    return argument;
}

static void on_alarm(int signal)
{
    int before = errno;

    (void)signal;
    sem_post(&done);
    errno = before;
}

static void new_balls(void)
{
    over = 0;
    EXPECT(sem_init(&ball[0], 0, 1) == 0 && sem_init(&ball[1], 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
}

static void handlers_that_post(void)
{
    struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    pthread_t players[2];

    signal(SIGALRM, on_alarm);
    for (intptr_t i = 0; i < 2; i++)
        players[i] = start(returns_the_ball, (void *)i);
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 300; i++)
        while (sem_wait(&done) != 0)
            EXPECT(errno == EINTR);
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++)
        finish(players[i]);
}

/* Writers go first, if the lock says so. */

static void *reads_on(void *argument)
{
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        EXPECT(pthread_rwlock_rdlock(argument) == 0);
        usleep(300);
        EXPECT(pthread_rwlock_unlock(argument) == 0);
    }
    return argument;
}

static void writers_first(void)
{
    struct timespec then = in_ms(CLOCK_REALTIME, 20000);
    pthread_rwlockattr_t attributes;
    pthread_rwlock_t lock;
    pthread_t readers_on[8];

    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    EXPECT(pthread_rwlock_init(&lock, &attributes) == 0);
    over = 0;
    for (int i = 0; i < 8; i++)
        readers_on[i] = start(reads_on, &lock);
    usleep(3000);
    EXPECT(pthread_rwlock_timedwrlock(&lock, &then) == 0 && pthread_rwlock_unlock(&lock) == 0);
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 8; i++)
        finish(readers_on[i]);
}

static void the_others(void)
{
    struct timespec then;
    pthread_barrierattr_t attributes;
    int value;

    crowd(reads_and_writes, NULL);
    EXPECT(pair[0] == 7 * CROWD && pair[1] == pair[0]);
    EXPECT(pthread_rwlock_wrlock(&shared) == 0);
    finish(start(cannot_read, NULL));
    EXPECT(pthread_rwlock_unlock(&shared) == 0 && pthread_rwlock_destroy(&shared) == 0);

    EXPECT(pthread_barrier_init(&barrier, NULL, 0) == EINVAL);
    EXPECT(pthread_barrier_init(&barrier, NULL, CROWD) == 0);
    crowd(meets, NULL);
    EXPECT(leaders == 10 && pthread_barrier_destroy(&barrier) == 0);
    pthread_barrierattr_init(&attributes);
    EXPECT(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    EXPECT(pthread_barrier_init(&barrier, &attributes, 1) == 0);
    EXPECT(pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    EXPECT(pthread_barrier_destroy(&barrier) == 0);
    destroyed_at_once();

    count = 0;
    EXPECT(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    several(5, spins, NULL);
    EXPECT(count == 10L * 5 && pthread_spin_trylock(&spin) == 0 && pthread_spin_trylock(&spin) == EBUSY);
    EXPECT(pthread_spin_unlock(&spin) == 0 && pthread_spin_destroy(&spin) == 0);

    readers = 0;
    EXPECT(sem_init(&slots, 0, 3) == 0 && sem_init(&done, 0, 0) == 0);
    crowd(passes, NULL);
    for (int i = 0; i < CROWD; i++)
        EXPECT(sem_trywait(&done) == 0);
    EXPECT(sem_trywait(&done) == -1 && errno == EAGAIN);
    then = in_ms(CLOCK_REALTIME, 5);
    EXPECT(sem_timedwait(&done, &then) == -1 && errno == ETIMEDOUT);
    then = in_ms(CLOCK_MONOTONIC, 5);
    EXPECT(sem_clockwait(&done, CLOCK_MONOTONIC, &then) == -1 && errno == ETIMEDOUT);
    EXPECT(sem_getvalue(&slots, &value) == 0 && value == 3);
    signal(SIGUSR1, on_signal);
    EXPECT(raise(SIGUSR1) == 0 && sem_wait(&done) == 0);
    EXPECT(sem_destroy(&slots) == 0 && sem_init(&slots, 1, 2) == 0);
    EXPECT(sem_wait(&slots) == 0 && sem_post(&slots) == 0 && sem_getvalue(&slots, &value) == 0 && value == 2);
    EXPECT(sem_destroy(&slots) == 0);
    new_balls();
    handlers_that_post();
    writers_first();
}

/* Names, stacks, signals, forks. */

static void *looks(void *argument)
{
    pthread_attr_t attributes;
    char name[16];
    void *low;
    size_t size;

    EXPECT(pthread_setname_np(pthread_self(), "a C thread") == 0);
    EXPECT(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "a C thread") == 0);
    EXPECT(pthread_getattr_np(pthread_self(), &attributes) == 0);
    EXPECT(pthread_attr_getstack(&attributes, &low, &size) == 0);
    EXPECT((char *)&size > (char *)low && (char *)&size < (char *)low + size);
    EXPECT(pthread_kill(pthread_self(), 0) == 0);
    return argument;
}

static void *waits_for_signal(void *argument)
{
    sigset_t set;
    int signal = 0;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(sigwait(&set, &signal) == 0 && signal == SIGUSR2);
    return argument;
}

/* An exception that no frame catches is not taken. (C++ ends the program then.) */
static void *throws(void *argument)
{
    struct _Unwind_Exception exception;

    memset(&exception, 0, sizeof exception);
    EXPECT(_Unwind_RaiseException(&exception) == _URC_END_OF_STACK);
    return argument;
}

#if __GLIBC_PREREQ(2, 32)
static void *has_masked(void *argument)
{
    sigset_t set;

    EXPECT(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0);
    EXPECT(sigismember(&set, SIGVTALRM) == 1 && sigismember(&set, SIGUSR2) == 0);
    return argument;
}

static void masks(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGVTALRM);
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setsigmask_np(&attributes, &set) == 0);
    EXPECT(pthread_create(&thread, &attributes, has_masked, NULL) == 0);
    finish(thread);
    EXPECT(pthread_attr_destroy(&attributes) == 0);
}
#else
static void masks(void)
{
}
#endif

static void *forks(void *argument)
{
    int status;
    pid_t child;

    new_balls();
    child = fork();
    if (child == 0) {
        EXPECT(pthread_mutex_lock(&normal) == 0 && pthread_mutex_unlock(&normal) == 0);
        EXPECT(finish(start(looks, (void *)3)) == (void *)3);
        /* By semaphores that the parent has initialized. */
        handlers_that_post();
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    return argument;
}

static void the_rest(void)
{
    pthread_t waiter;

    finish(start(looks, NULL));
    waiter = start(waits_for_signal, NULL);
    usleep(2000);
    EXPECT(pthread_kill(waiter, SIGUSR2) == 0);
    /* It may have ended, and that is no error. */
    EXPECT(pthread_kill(waiter, SIGWINCH) == 0);
    usleep(20000);
    EXPECT(pthread_kill(waiter, SIGWINCH) == 0 && pthread_kill(waiter, 0) == 0);
    finish(waiter);
    masks();
    finish(start(throws, NULL));
    finish(start(forks, NULL));
}

int main(void)
{
    sigset_t set;

    /* As programs do that wait for signals in a thread: before they start any. */
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    threads();
    mutexes();
    ceilings();
    mistakes();
    condition_variables();
    the_others();
    the_rest();
    printf("ok\n");
    return 0;
}
