/*
 * A handler of a signal stays on its kernel thread, and has that to itself, also where it sleeps. The program
 * is compiled for standard C (`-std=c99`): `signal` is System V's then. With an argument, the handler lets
 * its own signal through, or it runs in `sigsuspend`. It prints "ok" at the end.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not in the headers for that standard. */
extern long syscall(long number, ...);

enum { OTHERS = 4, SIGNALS = 30 };

static sigset_t own;
static volatile sig_atomic_t moved, handled;
/* The kernel thread on which the handler is, or 0. */
static volatile long home;
static volatile int over, guests, unblocks, suspends;

static long kernel_thread(void)
{
    return syscall(SYS_gettid);
}

static void rest(long nanos)
{
    struct timespec time = { 0, nanos };

    nanosleep(&time, NULL);
}

static void on_signal(int number)
{
    if (unblocks)
        pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    else if (!suspends)
        /* It was reset to the default. */
        signal(number, on_signal);
    home = kernel_thread();
    rest(1000000);
    if (home != kernel_thread())
        moved++;
    home = 0;
    handled++;
}

static void *raises(void *argument)
{
    sigset_t none;

    sigemptyset(&none);
    if (suspends)
        pthread_sigmask(SIG_BLOCK, &own, NULL);
    for (int i = 0; i < SIGNALS; i++) {
        raise(SIGUSR1);
        /* What the handler blocks is what its thread blocks as a rule. */
        if (suspends)
            sigsuspend(&none);
    }
    over = 1;
    return argument;
}

static void *rests(void *argument)
{
    while (!over) {
        if (home == kernel_thread())
            guests++;
        rest(100000);
    }
    return argument;
}

int main(int count, char **arguments)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    pthread_t threads[1 + OTHERS];

    unblocks = count > 1 && strcmp(arguments[1], "unblocks") == 0;
    suspends = count > 1 && !unblocks;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    if (unblocks || suspends)
        sigaction(SIGUSR1, &action, NULL);
    else
        signal(SIGUSR1, on_signal);
    for (int i = 0; i < 1 + OTHERS; i++)
        if (pthread_create(&threads[i], NULL, i == 0 ? raises : rests, NULL) != 0)
            return 1;
    for (int i = 0; i < 1 + OTHERS; i++)
        pthread_join(threads[i], NULL);
    if (moved || guests || handled != SIGNALS) {
        printf("%d signals were handled; moved: %d, guests: %d\n", (int)handled, (int)moved, guests);
        return 1;
    }
    printf("ok\n");
    return 0;
}
