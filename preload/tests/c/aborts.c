/*
 * A handler of SIGABRT calls the one that was there before, as those do that are installed one over another.
 * Says how often it runs, and ends by the signal.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static struct sigaction before;
static int runs;

static void handler(int signal, siginfo_t *info, void *context)
{
    if (write(STDOUT_FILENO, "handled\n", 8) != 8 || ++runs > 1)
        _exit(1);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
}

static void *nothing(void *argument) { return argument; }

int main(void)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
    pthread_t thread;

    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    sigaction(SIGABRT, &action, &before);
    abort();
}
