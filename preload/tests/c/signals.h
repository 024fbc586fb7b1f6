/*
 * What programs about signals share: a check that names its line, masks, and rests that no signal shortens.
 * Included first, since it asks for all that the C library has.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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
