/*
 * What signals for one thread promise where the kernel may keep few that are queued, or none
 * (RLIMIT_SIGPENDING). It prints "ok" at the end.
 */
#include "signals.h"

#include <stdlib.h>
#include <sys/resource.h>

static sem_t waits, may_go_on;
static volatile int counted, over;

static pthread_t start(void *(*function)(void *))
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
    take(&waits);
    return thread;
}

static void let_kernel_keep(rlim_t most)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_SIGPENDING, &limit) == 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
}

static void on_count(int signal)
{
    (void)signal;
    counted++;
}

static void *computes(void *argument)
{
    CHECK(pthread_kill(pthread_self(), SIGRTMIN) == EAGAIN);
    sem_post(&waits);
    while (!over)
        ;
    return argument;
}

static void *waits_long(void *argument)
{
    sem_post(&waits);
    take(&may_go_on);
    return argument;
}

/* The kernel keeps one of each number, also without memory, and says that it keeps no others. */
static void none(void *(*function)(void *))
{
    union sigval value = { .sival_int = 1 };
    pthread_t thread = start(function);
    int i, before;

    for (i = 0; i < 10; i++) {
        before = counted;
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (counted == before)
            rest(100);
        CHECK(pthread_kill(thread, SIGRTMIN) == EAGAIN);
        CHECK(pthread_sigqueue(thread, SIGRTMIN, value) == EAGAIN);
    }
    over = 1;
    sem_post(&may_go_on);
    join(thread);
    over = 0;
    while (sem_trywait(&may_go_on) == 0)
        ;
}

enum { FEW = 8, MANY = 40 };

static int seen[MANY], sent;

static void on_value(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    seen[counted++] = info->si_value.sival_int;
}

static void *unblocks(void *argument)
{
    int i;

    set_mask(SIG_BLOCK, SIGRTMIN, 0);
    sem_post(&waits);
    take(&may_go_on);
    set_mask(SIG_UNBLOCK, SIGRTMIN, 0);
    /* Other processes of this user may have the memory. */
    while (counted < sent)
        rest(100);
    for (i = 0; i < sent; i++)
        CHECK(seen[i] == i);
    return argument;
}

/* Returns how many signals the kernel keeps for this user. */
static long kept(void)
{
    char line[128];
    long number = -1;
    FILE *status = fopen("/proc/self/status", "r");

    CHECK(status != NULL);
    while (number < 0 && fgets(line, sizeof line, status))
        (void)!sscanf(line, "SigQ: %ld/", &number);
    fclose(status);
    return number;
}

/* Those that were not refused come, in their order. */
static void few(void)
{
    union sigval value = { .sival_int = 0 };
    struct sigaction action;
    pthread_t thread = start(unblocks);

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_value;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
    counted = 0;
    let_kernel_keep(kept() + FEW);
    while (sent < MANY && pthread_sigqueue(thread, SIGRTMIN, value) == 0)
        value.sival_int = ++sent;
    sem_post(&may_go_on);
    join(thread);
}

int main(void)
{
    sem_init(&waits, 0, 0);
    sem_init(&may_go_on, 0, 0);
    handle_by(SIGUSR1, on_count, SA_RESTART);
    let_kernel_keep(0);
    none(computes);
    none(waits_long);
    few();
    printf("ok\n");
    return 0;
}
