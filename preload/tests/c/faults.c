/*
 * Signals that faults raise, sent to one thread as messages. Handlers also jump. It prints "ok" at the end.
 */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <string.h>
#include <sys/wait.h>

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
enum { FAULTS = sizeof faults / sizeof *faults, JUMPS = 50 };

static pthread_t target;
static sem_t begun, handled, may_go_on;
static volatile int over, last, jumps;
static __thread int own;
static __thread sigjmp_buf back;

static void handle_faults(void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    for (int i = 0; i < FAULTS; i++)
        CHECK(sigaction(faults[i], &action, NULL) == 0);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    int error = errno;

    (void)context;
    CHECK(pthread_equal(pthread_self(), target) && own == 7 && info->si_code == SI_TKILL);
    last = signal;
    sem_post(&handled);
    errno = error;
}

static void on_jump(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    CHECK(pthread_equal(pthread_self(), target) && own == 7);
    jumps++;
    sem_post(&handled);
    siglongjmp(back, 1);
}

static void begin(void *(*function)(void *), void *argument)
{
    over = jumps = 0;
    CHECK(pthread_create(&target, NULL, function, argument) == 0);
    take(&begun);
}

static void end(void)
{
    join(target);
    while (sem_trywait(&handled) == 0)
        ;
}

static void send_each(int times)
{
    for (int i = 0; i < times * FAULTS; i++) {
        if (i % 3 == 0)
            rest(300);
        CHECK(pthread_kill(target, faults[i % FAULTS]) == 0);
        take(&handled);
        CHECK(last == faults[i % FAULTS]);
    }
}

static void *computes(void *argument)
{
    own = 7;
    sem_post(&begun);
    while (!over)
        ;
    return argument;
}

static void *waits(void *argument)
{
    own = 7;
    sem_post(&begun);
    while (!over)
        take(&may_go_on);
    return argument;
}

static void *sleeps(void *argument)
{
    own = 7;
    sem_post(&begun);
    while (!over)
        poll(NULL, 0, 100);
    return argument;
}

static int is_pending(int signal)
{
    sigset_t set;

    CHECK(sigpending(&set) == 0);
    return sigismember(&set, signal);
}

static void *blocks(void *argument)
{
    own = 7;
    for (int i = 0; i < FAULTS; i++)
        set_mask(SIG_BLOCK, faults[i], 0);
    sem_post(&begun);
    take(&may_go_on);
    for (int i = 0; i < FAULTS; i++) {
        sigset_t one = set_of(faults[i], 0);
        int found;

        CHECK(is_pending(faults[i]));
        last = 0;
        if (i % 2) {
            CHECK(sigwait(&one, &found) == 0 && found == faults[i] && last == 0);
        } else {
            set_mask(SIG_UNBLOCK, faults[i], 0);
            CHECK(last == faults[i]);
        }
        CHECK(!is_pending(faults[i]));
    }
    return argument;
}

static void *jumps_back(void *argument)
{
    own = 7;
    sigsetjmp(back, 1);
    if (jumps == 0)
        sem_post(&begun);
    while (jumps < JUMPS)
        if (argument)
            rest(1000000);
    return argument;
}

static void *sends_itself(void *argument)
{
    own = 7;
    target = pthread_self();
    for (int i = 0; i < FAULTS; i++) {
        last = 0;
        CHECK(pthread_kill(pthread_self(), faults[i]) == 0 && last == faults[i]);
    }
    sem_post(&begun);
    return argument;
}

static void handled_with(int flags)
{
    handle_faults(on_fault, flags | SA_RESTART);
    begin(computes, NULL);
    send_each(5);
    over = 1;
    end();
    begin(sleeps, NULL);
    send_each(5);
    over = 1;
    end();
    begin(waits, NULL);
    send_each(5);
    over = 1;
    sem_post(&may_go_on);
    end();
    begin(blocks, NULL);
    for (int i = 0; i < FAULTS; i++)
        CHECK(pthread_kill(target, faults[i]) == 0);
    sem_post(&may_go_on);
    end();
    begin(sends_itself, NULL);
    end();
    handle_faults(on_jump, flags);
    for (int i = 0; i < 2 * JUMPS; i++) {
        if (i % JUMPS == 0)
            begin(jumps_back, i ? &begun : NULL);
        CHECK(pthread_kill(target, faults[i % FAULTS]) == 0);
        take(&handled);
        if (i % JUMPS == JUMPS - 1)
            end();
    }
}

static void *rests(void *argument)
{
    sem_post(&begun);
    for (;;)
        rest(1000000);
    return argument;
}

/* Without a handler, such a signal ends the process. */
static void unhandled(int fault)
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        signal(fault, SIG_DFL);
        begin(rests, NULL);
        CHECK(pthread_kill(target, fault) == 0);
        for (;;)
            rest(1000000);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == fault);
}

int main(void)
{
    alarm(150);
    sem_init(&begun, 0, 0);
    sem_init(&handled, 0, 0);
    sem_init(&may_go_on, 0, 0);
    handled_with(0);
    handled_with(SA_ONSTACK);
    for (int i = 0; i < FAULTS; i++)
        unhandled(faults[i]);
    printf("ok\n");
    return 0;
}
