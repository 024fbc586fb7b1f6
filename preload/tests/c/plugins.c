/*
 * A program whose plugin sends a signal to one of its threads, which waits in `poll`. With a second argument,
 * it loads the plugin late, after it has asked a thread to end. Another thread waits for a lock then, and any
 * may handle the signal. It prints "ok" at the end.
 */
#include "signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

static _Thread_local volatile int handled;
static atomic_int waits, over, ends;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int signal)
{
    (void)signal;
    handled = 1;
}

static void on_any(int signal)
{
    (void)signal;
    over = 1;
}

static void *computes(void *argument)
{
    waits = 1;
    while (!ends)
        ;
    pthread_testcancel();
    return argument;
}

static void *locks(void *argument)
{
    waits = 1;
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return argument;
}

/* Starts a thread, and returns once it runs. */
static pthread_t begin(void *(*function)(void *))
{
    pthread_t thread;

    waits = 0;
    CHECK(pthread_create(&thread, NULL, function, NULL) == 0);
    while (!waits)
        rest(1000);
    return thread;
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
    int is_late = count > 2;
    void *plugin;
    pthread_t thread;
    struct sigaction action;

    if (is_late) {
        thread = begin(computes);
        CHECK(pthread_cancel(thread) == 0);
        ends = 1;
        join(thread);
    }
    plugin = dlopen(count > 1 ? arguments[1] : "", RTLD_NOW);
    CHECK(plugin);
    *(void **)&send_to = dlsym(plugin, "send_to");
    CHECK(send_to);
    memset(&action, 0, sizeof action);
    action.sa_handler = is_late ? on_any : on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_mutex_lock(&lock) == 0);
    thread = begin(is_late ? locks : polls);
    /* One may come before the thread waits. */
    for (int i = 0; !over; i++) {
        CHECK(i < 1000);
        send_to(thread);
        rest(10000);
    }
    CHECK(pthread_mutex_unlock(&lock) == 0);
    join(thread);
    puts("ok");
    return 0;
}
