/*
 * A collector stops the main thread, too, which may be in a call of the library then. What signals for that
 * thread promise besides. It prints "ok" at the end.
 */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/wait.h>

enum { WORKERS = 4, STOPS = 1000 };

static pthread_t main_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t stopped, goes_on, turns[WORKERS];
static volatile long done[WORKERS];
static volatile int is_over;
static volatile long counted;

static void on_stop(int signal)
{
    (void)signal;
    stop_for_round(&stopped, &goes_on);
}

static void on_other(int signal)
{
    (void)signal;
    counted++;
}

/* Its turns come from the main thread, and from the collector. */
static void *works(void *argument)
{
    long own = (long)argument;

    while (!is_over) {
        take(&turns[own]);
        done[own]++;
    }
    return NULL;
}

/* Stops the main thread, and goes on while others use locks. */
static void *collects(void *argument)
{
    int i, k;

    for (i = 0; i < STOPS; i++) {
        CHECK(pthread_kill(main_thread, SIGUSR1) == 0);
        take(&stopped);
        for (k = 0; k < WORKERS; k++) {
            long before = done[k];

            sem_post(&turns[k]);
            while (done[k] == before)
                sched_yield();
        }
        round_of_stops++;
        CHECK(pthread_kill(main_thread, SIGUSR2) == 0);
        take(&goes_on);
    }
    is_over = 1;
    return argument;
}

/*
 * The main thread is stopped in semaphores that others use, and in a condition variable of its own. (In the C
 * library, others may wait for one that a stopped thread uses.)
 */
static void stops(void)
{
    pthread_t workers[WORKERS], collector;
    struct timespec past = { 0, 1 };
    int posted;
    long i;

    stop_by_signals(on_stop, on_other);
    for (i = 0; i < WORKERS; i++) {
        sem_init(&turns[i], 0, 0);
        CHECK(pthread_create(&workers[i], NULL, works, (void *)i) == 0);
    }
    CHECK(pthread_create(&collector, NULL, collects, NULL) == 0);
    for (i = 0; !is_over; i = (i + 1) % WORKERS) {
        CHECK(sem_getvalue(&turns[i], &posted) == 0);
        if (posted == 0)
            sem_post(&turns[i]);
        pthread_mutex_lock(&lock);
        pthread_cond_timedwait(&changed, &lock, &past);
        pthread_mutex_unlock(&lock);
    }
    join(collector);
    for (i = 0; i < WORKERS; i++) {
        sem_post(&turns[i]);
        join(workers[i]);
    }
}

static int one;
static void *const with_value = &one;

static void *sends(void *argument)
{
    union sigval sent = { .sival_int = 7 };
    int i;

    if (argument)
        CHECK(pthread_sigqueue(main_thread, SIGRTMIN, sent) == 0);
    else
        for (i = 0; i < 20; i++)
            CHECK(pthread_kill(main_thread, SIGRTMIN) == 0);
    return NULL;
}

static void send_to_main(void *how)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, sends, how) == 0);
    join(thread);
}

/* What is blocked waits in the kernel when the sender is back, and calls find it that wait for it. */
static void blocked(void)
{
    struct timespec at_once = { 0, 0 };
    sigset_t set = set_of(SIGRTMIN, 0), pending, none;
    siginfo_t info;
    int i;

    handle_by(SIGRTMIN, on_other, 0);
    set_mask(SIG_BLOCK, SIGRTMIN, 0);
    counted = 0;
    send_to_main(NULL);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGRTMIN) == 1);
    for (i = 0; i < 20; i++)
        CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN);
    CHECK(sigtimedwait(&set, &info, &at_once) == -1 && errno == EAGAIN);
    send_to_main(with_value);
    CHECK(sigtimedwait(&set, &info, &at_once) == SIGRTMIN && info.si_value.sival_int == 7);
    CHECK(info.si_code == SI_QUEUE && info.si_pid == getpid());
    CHECK(counted == 0);
    sigemptyset(&none);
    send_to_main(with_value);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR && counted == 1);
    send_to_main(with_value);
    CHECK(ppoll(NULL, 0, NULL, &none) == -1 && errno == EINTR && counted == 2);
    send_to_main(NULL);
    set_mask(SIG_UNBLOCK, SIGRTMIN, 0);
    CHECK(counted == 22);
    send_to_main(NULL);
    CHECK(counted == 42);
}

static volatile int waits;

static void *sends_later(void *argument)
{
    long before = counted;

    while (!waits)
        sched_yield();
    /* Once in a while, for it may come before the call. */
    while (counted == before || waits) {
        rest(2000);
        CHECK(pthread_kill(main_thread, SIGRTMIN) == 0);
    }
    return argument;
}

/* A handler ends the calls that wait. */
static void in_calls(void)
{
    static const char *const names[] = {
        "read", "poll", "nanosleep", "sem_wait", "sigsuspend", "sigtimedwait"
    };
    sigset_t none, other = set_of(SIGWINCH, 0);
    struct timespec minute = { 60, 0 };
    int ends[2], i, result;
    pthread_t thread;
    sem_t empty;
    char byte;

    CHECK(pipe(ends) == 0);
    sem_init(&empty, 0, 0);
    sigemptyset(&none);
    handle_by(SIGRTMIN, on_other, 0);
    for (i = 0; i < 6; i++) {
        waits = 0;
        CHECK(pthread_create(&thread, NULL, sends_later, NULL) == 0);
        waits = 1;
        errno = 0;
        switch (i) {
        case 0: result = (int)read(ends[0], &byte, 1); break;
        case 1: result = poll(NULL, 0, 60000); break;
        case 2: result = nanosleep(&minute, NULL); break;
        case 3: result = sem_wait(&empty); break;
        case 4: result = sigsuspend(&none); break;
        default: result = sigtimedwait(&other, NULL, &minute); break;
        }
        if (result != -1 || errno != EINTR)
            fail("%s: %d, %s", names[i], result, strerror(errno));
        waits = 0;
        join(thread);
    }
}

/* In a child of a process that has started no thread yet. */
static void in_child(void)
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        in_calls();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments)
{
    const char *only = count > 1 ? arguments[1] : "";

    main_thread = pthread_self();
    sem_init(&stopped, 0, 0);
    sem_init(&goes_on, 0, 0);
#define RUN(part) (*only == 0 || strcmp(only, #part) == 0 ? part() : (void)0)
    RUN(in_child);
    RUN(blocked);
    RUN(in_calls);
    RUN(stops);
    printf("ok\n");
    return 0;
}
