/* Robust mutexes: what the next owner is told if the last one ends with the mutex locked. All kinds of
   mutexes, of owners, of ends and of waits. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(that)                                                                               \
    do {                                                                                           \
        if (!(that)) {                                                                             \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #that, strerror(errno));                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT};
static pthread_mutex_t *mutex;
static sem_t locked, go;

static void init(pthread_mutex_t *which, int type, int protocol, int shared, int robust)
{
    pthread_mutexattr_t attributes;

    EXPECT(pthread_mutexattr_init(&attributes) == 0);
    EXPECT(pthread_mutexattr_settype(&attributes, type) == 0);
    EXPECT(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    EXPECT(pthread_mutexattr_setpshared(&attributes, shared) == 0);
    EXPECT(pthread_mutexattr_setrobust(&attributes, robust) == 0);
    EXPECT(pthread_mutex_init(which, &attributes) == 0);
    EXPECT(pthread_mutexattr_destroy(&attributes) == 0);
}

static int lock_in_time(pthread_mutex_t *which)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 100;
    return pthread_mutex_timedlock(which, &end);
}

/* The ends of a thread. */
static void *returns(void *argument)
{
    EXPECT(pthread_mutex_lock(mutex) == 0);
    sem_post(&locked);
    sem_wait(&go);
    return argument;
}

static void *exits(void *argument)
{
    returns(argument);
    pthread_exit(argument);
}

static void *is_ended(void *argument)
{
    EXPECT(pthread_mutex_lock(mutex) == 0);
    sem_post(&locked);
    for (;;)
        sem_wait(&go);
    return argument;
}

static void *has_it_twice(void *argument)
{
    EXPECT(pthread_mutex_lock(mutex) == 0);
    return returns(argument);
}

static void inherit(int locked)
{
    EXPECT(locked == EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(mutex) == 0);
    EXPECT(pthread_mutex_unlock(mutex) == 0);
    EXPECT(pthread_mutex_lock(mutex) == 0);
    EXPECT(pthread_mutex_unlock(mutex) == 0);
}

static void *waits(void *argument)
{
    sem_post(&locked);
    inherit(argument ? lock_in_time(mutex) : pthread_mutex_lock(mutex));
    return NULL;
}

static void ends_with(void *(*owner)(void *), int cancelled)
{
    pthread_t thread, waiter;

    /* The next owner comes afterwards. */
    EXPECT(pthread_create(&thread, NULL, owner, NULL) == 0);
    sem_wait(&locked);
    EXPECT(pthread_mutex_trylock(mutex) == EBUSY);
    EXPECT(cancelled ? pthread_cancel(thread) == 0 : sem_post(&go) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    inherit(pthread_mutex_trylock(mutex));
    /* It waits already. */
    EXPECT(pthread_create(&thread, NULL, owner, NULL) == 0);
    sem_wait(&locked);
    EXPECT(pthread_create(&waiter, NULL, waits, NULL) == 0);
    sem_wait(&locked);
    usleep(2000);
    EXPECT(cancelled ? pthread_cancel(thread) == 0 : sem_post(&go) == 0);
    EXPECT(pthread_join(thread, NULL) == 0 && pthread_join(waiter, NULL) == 0);
    EXPECT(pthread_create(&thread, NULL, owner, NULL) == 0);
    sem_wait(&locked);
    EXPECT(cancelled ? pthread_cancel(thread) == 0 : sem_post(&go) == 0);
    inherit(lock_in_time(mutex));
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void *leaves_it_to_the_next(void *argument)
{
    int code = pthread_mutex_lock(mutex);

    if (code == EOWNERDEAD)
        code = pthread_mutex_consistent(mutex);
    EXPECT(code == 0);
    return argument;
}

/* Each of many threads ends with the mutex locked. */
static void one_after_the_other(void)
{
    pthread_t threads[20];

    for (int at = 0; at < 20; at++)
        EXPECT(pthread_create(&threads[at], NULL, leaves_it_to_the_next, NULL) == 0);
    for (int at = 0; at < 20; at++)
        EXPECT(pthread_join(threads[at], NULL) == 0);
    inherit(pthread_mutex_lock(mutex));
}

static void *makes_it_useless(void *argument)
{
    int code = pthread_mutex_lock(mutex);

    sem_post(&locked);
    sem_wait(&go);
    EXPECT(code == EOWNERDEAD && pthread_mutex_unlock(mutex) == 0);
    return argument;
}

static void *finds_it_useless(void *argument)
{
    sem_post(&locked);
    EXPECT(pthread_mutex_lock(mutex) == ENOTRECOVERABLE);
    return argument;
}

static void not_recovered(void)
{
    pthread_t thread, waiter;

    EXPECT(pthread_create(&thread, NULL, leaves_it_to_the_next, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(pthread_create(&thread, NULL, makes_it_useless, NULL) == 0);
    sem_wait(&locked);
    EXPECT(pthread_create(&waiter, NULL, finds_it_useless, NULL) == 0);
    sem_wait(&locked);
    usleep(2000);
    sem_post(&go);
    EXPECT(pthread_join(thread, NULL) == 0 && pthread_join(waiter, NULL) == 0);
    EXPECT(pthread_mutex_lock(mutex) == ENOTRECOVERABLE);
}

static pthread_mutex_t many[100];

static void *locks_many(void *argument)
{
    for (int at = 0; at < 100; at++)
        EXPECT(pthread_mutex_lock(&many[at]) == 0);
    for (int at = 0; at < 100; at += 3)
        EXPECT(pthread_mutex_unlock(&many[at]) == 0);
    return argument;
}

/* It unmaps a mutex that it has locked. */
static void *unmaps(void *argument)
{
    pthread_mutex_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    EXPECT(page != MAP_FAILED);
    init(page, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST);
    EXPECT(pthread_mutex_lock(page) == 0);
    returns(argument);
    EXPECT(munmap(page, 4096) == 0);
    return argument;
}

static pthread_key_t key;

static void unlocks(void *value)
{
    EXPECT(pthread_mutex_unlock(value) == 0);
}

/* The last code of a thread unlocks. */
static void *has_a_destructor(void *argument)
{
    EXPECT(pthread_setspecific(key, mutex) == 0 && pthread_mutex_lock(mutex) == 0);
    return argument;
}

static void several(void)
{
    pthread_t thread;

    for (int at = 0; at < 100; at++)
        init(&many[at], PTHREAD_MUTEX_NORMAL, protocols[at / 5 % 2], at / 10 % 2, PTHREAD_MUTEX_ROBUST);
    EXPECT(pthread_create(&thread, NULL, locks_many, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (int at = 0; at < 100; at++) {
        EXPECT(pthread_mutex_lock(&many[at]) == (at % 3 ? EOWNERDEAD : 0));
        if (at % 3)
            EXPECT(pthread_mutex_consistent(&many[at]) == 0);
        EXPECT(pthread_mutex_unlock(&many[at]) == 0);
    }
    EXPECT(pthread_create(&thread, NULL, unmaps, NULL) == 0);
    sem_wait(&locked);
    sem_post(&go);
    EXPECT(pthread_join(thread, NULL) == 0);
    inherit(pthread_mutex_lock(mutex));
    EXPECT(pthread_key_create(&key, unlocks) == 0);
    EXPECT(pthread_create(&thread, NULL, has_a_destructor, NULL) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
}

static void *forks(void *argument)
{
    pid_t child;
    int status;

    (void)argument;
    EXPECT(pthread_mutex_lock(mutex) == 0);
    child = fork();
    if (child == 0) {
        pthread_t thread;

        /* The parent's thread has it. */
        EXPECT(pthread_mutex_trylock(mutex) == EBUSY);
        /* Both ends here: of a thread, and of the thread that has forked. */
        EXPECT(pthread_create(&thread, NULL, locks_many, NULL) == 0 && pthread_join(thread, NULL) == 0);
        EXPECT(pthread_mutex_lock(&many[1]) == EOWNERDEAD);
        EXPECT(pthread_mutex_consistent(&many[1]) == 0);
        return NULL;
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(pthread_mutex_unlock(mutex) == 0);
    return NULL;
}

/* Two programs, of which the first threads share mutexes. */
static void *tries_it(void *argument)
{
    EXPECT(pthread_mutex_trylock(mutex) == EBUSY);
    return argument;
}

static void two_programs(void)
{
    pthread_t thread;
    int status, pipes[2][2];
    char byte = 0;
    pid_t child;

    EXPECT(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    child = fork();
    if (child == 0) {
        EXPECT(pthread_create(&thread, NULL, returns, NULL) == 0);
        sem_wait(&locked);
        EXPECT(write(pipes[0][1], &byte, 1) == 1 && read(pipes[1][0], &byte, 1) == 1);
        sem_post(&go);
        EXPECT(pthread_join(thread, NULL) == 0);
        _exit(0);
    }
    EXPECT(child > 0 && read(pipes[0][0], &byte, 1) == 1);
    EXPECT(pthread_create(&thread, NULL, tries_it, NULL) == 0 && pthread_join(thread, NULL) == 0);
    EXPECT(write(pipes[1][1], &byte, 1) == 1);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    for (int at = 0; at < 4; at++)
        close(pipes[at / 2][at % 2]);
}

int main(void)
{
    pthread_t thread;

    mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(mutex != MAP_FAILED && sem_init(&locked, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
    init(mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_ROBUST);
    two_programs();
    inherit(pthread_mutex_lock(mutex));
    for (int at = 0; at < 12; at++) {
        int type = types[at % 3], protocol = protocols[at / 3 % 2], shared = at / 6;

        init(mutex, type, protocol, shared, PTHREAD_MUTEX_ROBUST);
        ends_with(returns, 0);
        ends_with(exits, 0);
        ends_with(is_ended, 1);
        if (type == PTHREAD_MUTEX_RECURSIVE)
            ends_with(has_it_twice, 0);
        one_after_the_other();
        several();
        EXPECT(pthread_create(&thread, NULL, forks, NULL) == 0 && pthread_join(thread, NULL) == 0);
        not_recovered();
        /* One that is not robust, and raises the priority of its owner in other processes, too. */
        init(mutex, type, protocol, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED);
        EXPECT(pthread_create(&thread, NULL, forks, NULL) == 0 && pthread_join(thread, NULL) == 0);
        EXPECT(pthread_mutex_lock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    }
    printf("ok\n");
    return 0;
}
