/*
 * What programs about signals share: a check that names its line, masks, and rests that no signal shortens.
 * Included first, since it asks for all that the C library has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail("line %d: %s", __LINE__, #condition))

/* A set of two signals, or fewer: 0 is none. */
static inline sigset_t set_of(int first, int second)
{
    sigset_t set;

    sigemptyset(&set);
    if (first)
        sigaddset(&set, first);
    if (second)
        sigaddset(&set, second);
    return set;
}

static inline void set_mask(int how, int first, int second)
{
    sigset_t set = set_of(first, second);

    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static inline void rest(long micros)
{
    struct timespec time = { micros / 1000000, micros % 1000000 * 1000 };

    while (nanosleep(&time, &time) != 0)
        ;
}

static inline void join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

static inline void take(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        CHECK(errno == EINTR);
}

static inline void handle_by(int signal, void (*handler)(int), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    CHECK(sigaction(signal, &action, NULL) == 0);
}

/* The rounds in which a collector has stopped threads. */
static volatile int round_of_stops;

/* What a collector's handler does: it stops the thread until SIGUSR2 ends the round. */
static inline void stop_for_round(sem_t *stopped, sem_t *goes_on)
{
    int error = errno, round = round_of_stops;
    sigset_t mask;

    sigfillset(&mask);
    sigdelset(&mask, SIGUSR2);
    sem_post(stopped);
    while (round_of_stops == round)
        sigsuspend(&mask);
    sem_post(goes_on);
    errno = error;
}

/* Has SIGUSR1 stop threads by `on_stop`, and SIGUSR2 let them go on, as collectors do. */
static inline void stop_by_signals(void (*on_stop)(int), void (*on_go)(int))
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_stop;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    handle_by(SIGUSR2, on_go, SA_RESTART);
}
