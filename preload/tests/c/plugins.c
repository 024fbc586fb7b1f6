/*
 * A program whose plugin sends a signal to one of its threads, which waits in `poll`. It prints "ok" at the
 * end.
 */
#include "signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

static _Thread_local volatile int handled;
static atomic_int waits, over;

static void on_signal(int signal)
{
    (void)signal;
    handled = 1;
}

static void *polls(void *argument)
{
    waits = 1;
    CHECK(poll(NULL, 0, -1) == -1 && errno == EINTR);
    CHECK(handled);
    over = 1;
    return argument;
}

int main(int count, char **arguments)
{
    int (*send_to)(pthread_t thread);
    void *plugin = dlopen(count > 1 ? arguments[1] : "", RTLD_NOW);
    pthread_t thread;
    struct sigaction action;

    CHECK(plugin);
    *(void **)&send_to = dlsym(plugin, "send_to");
    CHECK(send_to);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, polls, NULL) == 0);
    while (!waits)
        rest(1000);
    /* One may come before the thread waits. */
    for (int i = 0; !over; i++) {
        CHECK(i < 1000);
        send_to(thread);
        rest(10000);
    }
    join(thread);
    puts("ok");
    return 0;
}
