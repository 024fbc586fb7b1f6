/*
 * The main thread leaves by pthread_exit. The program ends with its last thread, with 0. The others need
 * what the main thread gives up in its cleanup. What the program calls at its end can get signals.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void gives_up(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

static void *works(void *argument)
{
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    usleep(20000);
    printf("worked\n");
    return argument;
}

static void asks_for_mask(void)
{
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    printf(sigismember(&mask, SIGUSR1) ? "deaf\n" : "hears\n");
}

int main(void)
{
    pthread_t thread;

    atexit(asks_for_mask);
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_mutex_lock(&held);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, works, NULL) != 0)
            abort();
    pthread_cleanup_push(gives_up, &held);
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
}
