/*
 * The program's own `free` makes calls that wait. A thread is asked to end while it is there, in a `poll` that
 * takes memory. It ends when that has returned. Prints "ok".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);          \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

extern void __libc_free(void *);

/* The last two wait for bytes: for those, another thread asks. */
enum { WRITES, CLOSES, SLEEPS, READS, READS_STREAM, KINDS };

static _Thread_local int is_armed;
static int kind, quiet[2], kept[2], slow[2];
static FILE *stream;
static atomic_int begun, done, returned;

static void works(void)
{
    char byte;

    switch (kind) {
    case WRITES:
        CHECK(write(kept[1], "", 1) == 1);
        break;
    case CLOSES:
        close(-1);
        break;
    case SLEEPS:
        usleep(1);
        break;
    case READS:
        CHECK(read(slow[0], &byte, 1) == 1);
        break;
    default:
        /* The C library marks a part of this. */
        CHECK(fgetc(stream) == 0);
    }
}

void free(void *address)
{
    if (is_armed) {
        is_armed = 0;
        atomic_store(&begun, 1);
        if (kind < READS)
            CHECK(pthread_cancel(pthread_self()) == 0);
        works();
        works();
        atomic_store(&done, 1);
    }
    __libc_free(address);
}

static void *polls(void *argument)
{
    struct pollfd polled[2] = { { quiet[0], POLLIN, 0 }, { quiet[0], POLLPRI, 0 } };

    is_armed = 1;
    poll(polled, 2, 1);
    is_armed = 0;
    pthread_testcancel();
    atomic_store(&returned, 1);
    return argument;
}

int main(void)
{
    const char *model = getenv("SELVEDGE_RUNTIME");
    int is_green = model != NULL && strcmp(model, "mxn") == 0;

    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(150);
    CHECK(pipe(quiet) == 0 && pipe(kept) == 0 && pipe(slow) == 0);
    CHECK((stream = fdopen(dup(slow[0]), "r")) != NULL);
    setvbuf(stream, NULL, _IONBF, 0);
    for (kind = 0; kind < KINDS; kind++) {
        pthread_t thread;
        void *value;

        atomic_store(&begun, 0);
        atomic_store(&done, 0);
        atomic_store(&returned, 0);
        CHECK(pthread_create(&thread, NULL, polls, NULL) == 0);
        while (atomic_load(&begun) == 0 && atomic_load(&returned) == 0)
            usleep(100);
        /* Without green threads, no memory is needed there. */
        CHECK(atomic_load(&begun) == is_green);
        if (is_green && kind >= READS) {
            usleep(2000);
            CHECK(pthread_cancel(thread) == 0);
            usleep(10000);
            CHECK(write(slow[1], "\0", 2) == 2);
        }
        CHECK(pthread_join(thread, &value) == 0);
        CHECK(atomic_load(&done) == is_green);
        CHECK(value == (is_green ? PTHREAD_CANCELED : NULL) && atomic_load(&returned) == !is_green);
    }
    puts("ok");
    return 0;
}
