/*
 * Signals for one thread, wherever it is: on a processor, in a lock, asleep, or with the signal blocked.
 * It prints "ok" at the end.
 */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

/* What handlers have seen. The counts are the thread's that a signal was for. */
static __thread int own_number;
static __thread volatile sig_atomic_t own_signals;
static pthread_t wanted;
static int wanted_number;
static sem_t handled, waits, may_end;

static void on_signal(int signal)
{
    int error = errno;

    if (!pthread_equal(pthread_self(), wanted) || own_number != wanted_number)
        fail("signal %d came to another thread", signal);
    own_signals++;
    sem_post(&handled);
    errno = error;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int ends[2];
static volatile int over;

static void in_mutex(void)
{
    CHECK(pthread_mutex_lock(&lock) == 0 && pthread_mutex_unlock(&lock) == 0);
}

static void in_timed_mutex(void)
{
    struct timespec far = { time(NULL) + 1000, 0 };

    CHECK(pthread_mutex_timedlock(&lock, &far) == 0 && pthread_mutex_unlock(&lock) == 0);
}

static void in_read(void)
{
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
}

static void in_write(void)
{
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
}

static void in_condition(void)
{
    pthread_mutex_lock(&lock);
    while (!over)
        CHECK(pthread_cond_wait(&changed, &lock) == 0);
    pthread_mutex_unlock(&lock);
}

static void in_barrier(void)
{
    int code = pthread_barrier_wait(&barrier);

    CHECK(code == 0 || code == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *sleeps_in_condition(void *argument)
{
    (void)argument;
    in_condition();
    return NULL;
}

static pthread_t joined;

static void in_join(void)
{
    join(joined);
}

static void in_computation(void)
{
    while (!over)
        ;
}

static void in_yields(void)
{
    while (!over)
        sched_yield();
}

static void in_restarted_read(void)
{
    char byte;

    CHECK(read(ends[0], &byte, 1) == 1);
}

static void in_restarted_semaphore(void)
{
    CHECK(sem_wait(&semaphore) == 0);
}

struct place {
    const char *name;
    void (*wait)(void);
};

static const struct place places[] = {
    { "mutex", in_mutex },
    { "timed mutex", in_timed_mutex },
    { "read lock", in_read },
    { "write lock", in_write },
    { "condition", in_condition },
    { "barrier", in_barrier },
    { "join", in_join },
    { "computation", in_computation },
    { "yields", in_yields },
    { "read", in_restarted_read },
    { "semaphore", in_restarted_semaphore },
};

static void *waits_in(void *argument)
{
    const struct place *place = argument;

    own_number = wanted_number;
    sem_post(&waits);
    place->wait();
    CHECK(own_signals > 0);
    return NULL;
}

/* A handler runs in the thread that waits, and the wait goes on. */
static void in_all_places(void)
{
    size_t n;
    int i;

    handle_by(SIGUSR1, on_signal, SA_RESTART);
    for (n = 0; n < sizeof places / sizeof places[0]; n++) {
        over = 0;
        wanted_number = n + 1;
        pthread_mutex_lock(&lock);
        CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
        joined = start(sleeps_in_condition, NULL);
        wanted = start(waits_in, (void *)&places[n]);
        take(&waits);
        if (places[n].wait == in_condition || places[n].wait == in_join)
            pthread_mutex_unlock(&lock);
        for (i = 0; i < 20; i++) {
            if (i % 2)
                rest(500);
            CHECK(pthread_kill(wanted, SIGUSR1) == 0);
            take(&handled);
        }
        if (places[n].wait == in_condition || places[n].wait == in_join)
            pthread_mutex_lock(&lock);
        over = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        CHECK(pthread_rwlock_unlock(&rwlock) == 0);
        if (places[n].wait == in_barrier)
            in_barrier();
        if (places[n].wait == in_restarted_read)
            CHECK(write(ends[1], "", 1) == 1);
        if (places[n].wait == in_restarted_semaphore)
            sem_post(&semaphore);
        join(wanted);
        if (places[n].wait != in_join)
            join(joined);
    }
}

static pthread_key_t last;

static void waits_at_its_end(void *value)
{
    (void)value;
    sem_post(&waits);
    in_mutex();
    CHECK(own_signals == 20);
}

static void *runs_out(void *argument)
{
    own_number = wanted_number;
    CHECK(pthread_setspecific(last, &last) == 0);
    return argument;
}

/* A handler runs in a thread that waits in a destructor of a key, too. */
static void at_the_end(void)
{
    int i;

    handle_by(SIGUSR1, on_signal, SA_RESTART);
    CHECK(pthread_key_create(&last, waits_at_its_end) == 0);
    wanted_number = 50;
    pthread_mutex_lock(&lock);
    wanted = start(runs_out, NULL);
    take(&waits);
    for (i = 0; i < 20; i++) {
        if (i % 2)
            rest(500);
        CHECK(pthread_kill(wanted, SIGUSR1) == 0);
        take(&handled);
    }
    pthread_mutex_unlock(&lock);
    join(wanted);
    CHECK(pthread_key_delete(last) == 0);
}

static int ended_by_sleep(void)
{
    struct timespec time = { 1000, 0 }, left = { 0, 0 };
    int code = nanosleep(&time, &left);

    CHECK(code == 0 || left.tv_sec > 900);
    return code;
}

static int ended_by_clock(void)
{
    struct timespec time = { 1000, 0 }, left = { 0, 0 };
    int code = clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left);

    CHECK(code == 0 || left.tv_sec > 900);
    errno = code;
    return code ? -1 : 0;
}

static int ended_by_usleep(void)
{
    return usleep(999999999);
}

static int ended_by_long_sleep(void)
{
    unsigned left = sleep(1000);

    CHECK(left > 900);
    errno = EINTR;
    return -1;
}

static int ended_by_semaphore(void)
{
    return sem_wait(&semaphore);
}

static int ended_by_timed_semaphore(void)
{
    struct timespec far = { time(NULL) + 1000, 0 };

    return sem_timedwait(&semaphore, &far);
}

static int ended_by_read(void)
{
    char byte;

    return read(ends[0], &byte, 1);
}

static int ended_by_poll(void)
{
    struct pollfd polled[2] = { { ends[0], POLLIN, 0 }, { ends[0], POLLIN | POLLPRI, 0 } };

    return poll(polled, 2, -1);
}

static int ended_by_poll_of_none(void)
{
    return poll(NULL, 0, -1);
}

static int ended_by_select(void)
{
    fd_set set;

    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    return select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static int ended_by_suspension(void)
{
    sigset_t none = set_of(0, 0);

    return sigsuspend(&none);
}

static int ended_by_pause(void)
{
    return pause();
}

static int ended_by_wait_for_signals(void)
{
    sigset_t other = set_of(SIGUSR2, 0);

    return sigwaitinfo(&other, NULL);
}

static int (*const calls[])(void) = {
    ended_by_sleep, ended_by_clock, ended_by_usleep, ended_by_long_sleep, ended_by_semaphore,
    ended_by_timed_semaphore, ended_by_read, ended_by_poll, ended_by_poll_of_none, ended_by_select,
    ended_by_suspension, ended_by_pause, ended_by_wait_for_signals,
};

static void *ends_in(void *argument)
{
    own_number = wanted_number;
    set_mask(SIG_BLOCK, SIGUSR2, 0);
    sem_post(&waits);
    CHECK((*(int (*const *)(void))argument)() == -1);
    CHECK(errno == EINTR);
    over = 1;
    CHECK(own_signals > 0);
    /* Another signal may be on its way. */
    take(&may_end);
    return NULL;
}

/* A handler that does not ask for more ends the wait. */
static void in_all_calls(void)
{
    size_t n;

    handle_by(SIGUSR1, on_signal, 0);
    for (n = 0; n < sizeof calls / sizeof calls[0]; n++) {
        over = 0;
        wanted_number = n + 100;
        wanted = start(ends_in, (void *)&calls[n]);
        take(&waits);
        /* It may not wait yet. */
        while (!over) {
            CHECK(pthread_kill(wanted, SIGUSR1) == 0);
            take(&handled);
            rest(1000);
        }
        sem_post(&may_end);
        join(wanted);
    }
}

static int is_pending(int signal)
{
    sigset_t set;

    CHECK(sigpending(&set) == 0);
    return sigismember(&set, signal);
}

static void *blocks(void *argument)
{
    sigset_t set = set_of(SIGUSR1, SIGRTMIN);
    struct timespec none = { 0, 0 };
    siginfo_t info;
    int signal;

    (void)argument;
    own_number = wanted_number;
    set_mask(SIG_BLOCK, SIGUSR1, SIGRTMIN);
    CHECK(!is_pending(SIGUSR1) && sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    sem_post(&waits);
    take(&semaphore);
    CHECK(is_pending(SIGUSR1) && own_signals == 0);
    /* It comes when it is not blocked any more. */
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    CHECK(own_signals == 1 && !is_pending(SIGUSR1));
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    sem_post(&waits);
    take(&semaphore);
    CHECK(sigwait(&set, &signal) == 0 && signal == SIGUSR1 && !is_pending(SIGUSR1));
    sem_post(&waits);
    take(&semaphore);
    /* All that are queued come, in their order, with their values. */
    for (int i = 0; i < 5; i++) {
        CHECK(is_pending(SIGRTMIN) && sigwaitinfo(&set, &info) == SIGRTMIN);
        CHECK(info.si_signo == SIGRTMIN && info.si_code == SI_QUEUE && info.si_value.sival_int == i);
        CHECK(info.si_pid == getpid() && info.si_uid == getuid());
    }
    CHECK(!is_pending(SIGRTMIN));
    /* It waits before the signal comes. */
    sem_post(&waits);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_code == SI_USER && info.si_pid == getpid());
    sem_post(&waits);
    CHECK(sigwait(&set, &signal) == 0 && signal == SIGRTMIN);
    /* The thread's own waits for it, too. */
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && is_pending(SIGUSR1) && own_signals == 1);
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    CHECK(own_signals == 2);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && own_signals == 3);
    /* What it never takes ends with it. */
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0);
    sem_post(&waits);
    take(&semaphore);
    return NULL;
}

static void blocked(void)
{
    handle_by(SIGUSR1, on_signal, 0);
    handle_by(SIGRTMIN, on_signal, 0);
    wanted_number = 200;
    wanted = start(blocks, NULL);
    take(&waits);
    CHECK(pthread_kill(wanted, SIGUSR1) == 0 && pthread_kill(wanted, SIGUSR1) == 0);
    CHECK(!is_pending(SIGUSR1));
    sem_post(&semaphore);
    take(&waits);
    CHECK(pthread_kill(wanted, SIGUSR1) == 0);
    sem_post(&semaphore);
    take(&waits);
    for (int i = 0; i < 5; i++) {
        union sigval value = { .sival_int = i };

        CHECK(pthread_sigqueue(wanted, SIGRTMIN, value) == 0);
    }
    sem_post(&semaphore);
    take(&waits);
    rest(2000);
    CHECK(pthread_kill(wanted, SIGUSR1) == 0);
    take(&waits);
    CHECK(pthread_kill(wanted, SIGRTMIN) == 0);
    take(&waits);
    CHECK(pthread_kill(wanted, SIGRTMIN) == 0);
    sem_post(&semaphore);
    join(wanted);
    while (sem_trywait(&handled) == 0)
        ;
}

/* A collector: it stops all threads by a signal, and lets them go on by another. */
enum { STOPPED = 12, ROUNDS = 15 };

static sem_t stopped;
static pthread_t all[STOPPED];
static volatile int may_go_on;
static volatile long done[STOPPED];

static void on_stop(int signal)
{
    int error = errno, round = may_go_on;
    sigset_t mask;

    (void)signal;
    sigfillset(&mask);
    sigdelset(&mask, SIGXCPU);
    if (!pthread_equal(pthread_self(), all[own_number]))
        fail("another thread was stopped");
    sem_post(&stopped);
    while (may_go_on == round)
        sigsuspend(&mask);
    sem_post(&stopped);
    errno = error;
}

static void on_go(int signal)
{
    (void)signal;
}

static void *works(void *argument)
{
    own_number = (int)(long)argument;
    sem_post(&waits);
    take(&semaphore);
    while (!over) {
        done[own_number]++;
        switch (own_number % 4) {
        case 0:
            break;
        case 1:
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
            break;
        case 2:
            rest(50);
            break;
        default:
            pthread_mutex_lock(&lock);
            if (!over)
                pthread_cond_wait(&changed, &lock);
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

static void collects(void)
{
    struct sigaction action;
    long before[STOPPED];
    int i, round;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_stop;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGPWR, &action, NULL) == 0);
    action.sa_handler = on_go;
    CHECK(sigaction(SIGXCPU, &action, NULL) == 0);
    over = 0;
    for (i = 0; i < STOPPED; i++)
        all[i] = start(works, (void *)(long)i);
    for (i = 0; i < STOPPED; i++)
        take(&waits);
    for (i = 0; i < STOPPED; i++)
        sem_post(&semaphore);
    for (round = 0; round < ROUNDS; round++) {
        rest(300);
        for (i = 0; i < STOPPED; i++)
            CHECK(pthread_kill(all[i], SIGPWR) == 0);
        for (i = 0; i < STOPPED; i++)
            take(&stopped);
        memcpy(before, (void *)done, sizeof before);
        rest(300);
        CHECK(memcmp(before, (void *)done, sizeof before) == 0);
        may_go_on++;
        for (i = 0; i < STOPPED; i++)
            CHECK(pthread_kill(all[i], SIGXCPU) == 0);
        for (i = 0; i < STOPPED; i++)
            take(&stopped);
    }
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (i = 0; i < STOPPED; i++)
        join(all[i]);
}

/* A handler sends a signal to the next thread, and so on. */
enum { RING = 8, LAPS = 50 };

static pthread_t ring[RING];
static volatile int passes;

static void on_pass(int signal)
{
    int error = errno;

    if (!pthread_equal(pthread_self(), ring[own_number]))
        fail("another thread passes on");
    if (++passes < RING * LAPS)
        CHECK(pthread_kill(ring[(own_number + 1) % RING], signal) == 0);
    else
        sem_post(&handled);
    errno = error;
}

static void *passes_on(void *argument)
{
    own_number = (int)(long)argument;
    sem_post(&waits);
    in_condition();
    return NULL;
}

static void pass_on(void)
{
    int i;

    handle_by(SIGUSR2, on_pass, SA_RESTART);
    over = passes = 0;
    for (i = 0; i < RING; i++)
        ring[i] = start(passes_on, (void *)(long)i);
    for (i = 0; i < RING; i++)
        take(&waits);
    CHECK(pthread_kill(ring[0], SIGUSR2) == 0);
    take(&handled);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (i = 0; i < RING; i++)
        join(ring[i]);
}

static void *forks(void *argument)
{
    int status;
    pid_t child;

    (void)argument;
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    CHECK(pthread_kill(pthread_self(), SIGUSR1) == 0 && is_pending(SIGUSR1));
    child = fork();
    if (child == 0) {
        CHECK(!is_pending(SIGUSR1) && pthread_kill(pthread_self(), SIGUSR1) == 0 && is_pending(SIGUSR1));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0 && is_pending(SIGUSR1));
    return NULL;
}

static void *nothing(void *argument)
{
    return argument;
}

/* What the numbers say. */
static void codes(void)
{
    union sigval value = { .sival_int = 1 };
    pthread_t thread = start(sleeps_in_condition, NULL);

    over = 0;
    CHECK(pthread_kill(thread, 0) == 0 && pthread_kill(pthread_self(), 0) == 0);
    CHECK(pthread_kill(thread, -1) == EINVAL && pthread_kill(thread, SIGRTMAX + 1) == EINVAL);
    CHECK(pthread_kill(thread, 32) == EINVAL && pthread_sigqueue(thread, 33, value) == EINVAL);
    signal(SIGUSR1, SIG_IGN);
    CHECK(pthread_kill(thread, SIGUSR1) == 0 && pthread_kill(thread, SIGCHLD) == 0);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    join(thread);
    thread = start(nothing, NULL);
    rest(2000);
    CHECK(pthread_kill(thread, 0) == 0 && pthread_kill(thread, SIGUSR1) == 0);
    join(thread);
}

/* A signal without a handler ends the process. */
static void ends_all(void)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        over = 0;
        CHECK(pthread_kill(start(sleeps_in_condition, NULL), SIGALRM) == 0);
        for (;;)
            rest(1000000);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

static void on_nothing(int signal)
{
    (void)signal;
}

static void *sleeps_long(void *argument)
{
    sem_post(&waits);
    for (;;)
        rest(1000000);
    return argument;
}

/* A signal is on its way to a thread that is asked to end. */
static void before_the_end(void)
{
    pthread_t thread;
    void *value;
    int i;

    handle_by(SIGUSR2, on_nothing, SA_RESTART);
    for (i = 0; i < 100; i++) {
        thread = start(sleeps_long, NULL);
        take(&waits);
        if (i % 2)
            rest(200);
        CHECK(pthread_kill(thread, SIGUSR2) == 0 && pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &value) == 0 && value == PTHREAD_CANCELED);
    }
}

static __thread volatile long came;
static volatile int pauses_end;

static void on_pause(int signal)
{
    (void)signal;
    came++;
}

static void *pauses(void *argument)
{
    long paused = 0;

    while (!pauses_end) {
        CHECK(pause() == -1 && errno == EINTR);
        CHECK(++paused <= came);
    }
    return argument;
}

/* pause ends when a handler has run, and for nothing else. */
static void ends_pauses(void)
{
    enum { THREADS = 4, SIGNALS = 4000 };
    pthread_t threads[THREADS];
    int i;

    handle_by(SIGUSR2, on_pause, 0);
    for (i = 0; i < THREADS; i++)
        threads[i] = start(pauses, NULL);
    for (i = 0; i < SIGNALS; i++) {
        CHECK(pthread_kill(threads[i * 7 / 3 % THREADS], SIGUSR2) == 0);
        if (i % 4 == 0)
            rest(50);
    }
    pauses_end = 1;
    for (i = 0; i < THREADS; i++)
        while (pthread_tryjoin_np(threads[i], NULL) == EBUSY) {
            CHECK(pthread_kill(threads[i], SIGUSR2) == 0);
            rest(100);
        }
}

int main(int count, char **arguments)
{
    const char *only = count > 1 ? arguments[1] : "";

    sem_init(&handled, 0, 0);
    sem_init(&waits, 0, 0);
    sem_init(&may_end, 0, 0);
    sem_init(&semaphore, 0, 0);
    sem_init(&stopped, 0, 0);
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK(pipe(ends) == 0);
#define RUN(part) (*only == 0 || strcmp(only, #part) == 0 ? part() : (void)0)
    RUN(codes);
    RUN(in_all_places);
    RUN(at_the_end);
    RUN(in_all_calls);
    RUN(blocked);
    RUN(collects);
    RUN(pass_on);
    RUN(before_the_end);
    RUN(ends_pauses);
    join(start(forks, NULL));
    RUN(ends_all);
    printf("ok\n");
    return 0;
}
