/*
 * A handler of a signal leaves a cancellation point by a jump. A request to end the thread then waits for the
 * next one, and does not end the thread where it is. The call has left nothing. It prints "ok" at the end.
 */
#include "signals.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/wait.h>

static __thread sigjmp_buf out;
static volatile int jumped, asked, survived;
/* A thread has somewhere to jump to. */
static sem_t waits;
static int queue, ends[2];

static void on_signal(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void in_message(void)
{
    struct { long kind; char text[8]; } message;

    msgrcv(queue, &message, sizeof message.text, 0, 0);
}

static void in_pause(void)
{
    pause();
}

static void in_read(void)
{
    char byte;

    (void)!read(ends[0], &byte, 1);
}

static void *jumps(void *call)
{
    char *text;

    if (sigsetjmp(out, 1) == 0) {
        sem_post(&waits);
        for (;;)
            (*(void (**)(void))call)();
    }
    jumped = 1;
    while (!asked) {
        text = malloc(1 << 16);
        memset(text, 1, 1 << 16);
        free(text);
    }
    survived = 1;
    for (;;)
        pthread_testcancel();
    return NULL;
}

static int others[2];

static void in_poll(void)
{
    struct pollfd two[] = { { ends[0], POLLIN, 0 }, { others[0], POLLIN, 0 } };

    poll(two, 2, -1);
}

static pid_t child;

static void in_waitpid(void)
{
    waitpid(child, NULL, 0);
}

enum { JUMPS = 50 };

static void *jumps_often(void *call)
{
    volatile int i;

    for (i = 0; i < JUMPS; i++)
        if (sigsetjmp(out, 1) == 0) {
            sem_post(&waits);
            for (;;)
                (*(void (**)(void))call)();
        }
    return NULL;
}

static int entries(const char *folder)
{
    DIR *all = opendir(folder);
    int number = 0;

    CHECK(all != NULL);
    while (readdir(all))
        number++;
    closedir(all);
    return number;
}

static void leaves_nothing(void (*call)(void))
{
    int i, before = entries("/proc/self/fd");
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, jumps_often, &call) == 0);
    for (i = 0; i < JUMPS; i++) {
        take(&waits);
        /* It waits by then, as a rule. */
        rest(5000);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
    }
    join(thread);
    CHECK(entries("/proc/self/fd") < before + JUMPS / 2);
}

static sem_t may_end;

static void *jumps_once(void *argument)
{
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    if (sigsetjmp(out, 1) == 0) {
        sem_post(&waits);
        set_mask(SIG_UNBLOCK, SIGUSR1, 0);
        for (;;)
            in_poll();
    }
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    return argument;
}

static void *waits_alone(void *argument)
{
    take(&may_end);
    return argument;
}

/* Where a slot's kernel thread was kept from its CPU, there are up to 64 others for a while. */
enum { WAITERS = 200, RESERVE = 64 };

/* A jump restores a mask, and the thread changes that. It is no handler that lets signals through. */
static void goes_on(void)
{
    int i, before = entries("/proc/self/task");
    pthread_t threads[WAITERS];

    CHECK(pthread_create(threads, NULL, jumps_once, NULL) == 0);
    take(&waits);
    rest(5000);
    CHECK(pthread_kill(threads[0], SIGUSR1) == 0);
    join(threads[0]);
    for (i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, waits_alone, NULL) == 0);
    rest(50000);
    CHECK(entries("/proc/self/task") < before + RESERVE + WAITERS / 2);
    for (i = 0; i < WAITERS; i++)
        sem_post(&may_end);
    for (i = 0; i < WAITERS; i++)
        join(threads[i]);
}

static void (*const calls[])(void) = { in_message, in_pause, in_read, in_poll };

int main(void)
{
    pthread_t thread;
    void *value;
    size_t n;

    CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0 && pipe(ends) == 0 && pipe(others) == 0);
    sem_init(&waits, 0, 0);
    sem_init(&may_end, 0, 0);
    signal(SIGUSR1, on_signal);
    for (n = 0; n < sizeof calls / sizeof calls[0]; n++) {
        jumped = asked = survived = 0;
        CHECK(pthread_create(&thread, NULL, jumps, (void *)&calls[n]) == 0);
        take(&waits);
        /* It waits by then, as a rule. */
        usleep(20000);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (!jumped)
            usleep(1000);
        CHECK(pthread_cancel(thread) == 0);
        usleep(20000);
        asked = 1;
        CHECK(pthread_join(thread, &value) == 0 && value == PTHREAD_CANCELED && survived);
    }
    msgctl(queue, IPC_RMID, NULL);
    leaves_nothing(in_poll);
    CHECK((child = fork()) >= 0);
    if (child == 0)
        for (;;)
            pause();
    leaves_nothing(in_waitpid);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    goes_on();
    printf("ok\n");
    return 0;
}
