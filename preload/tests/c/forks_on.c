/*
 * A thread forks, starts threads in the child, and leaves: it returns, or exits, or asks itself to end. The
 * child ends with its last thread, with 0, as any program does. A thread of the child may join it there. What
 * is known of the thread is known in the child, too, also if it has just been started.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int opened[2];
static sem_t begun;
static pthread_t forker;

static char *forkers_frame;

/* What is known of a thread, which has this address on its stack. */
static void is_known(pthread_t thread, char *address)
{
    char name[16];
    pthread_attr_t attributes;
    void *low;
    size_t size;

    if (pthread_getname_np(thread, name, sizeof name) != 0
        || pthread_getattr_np(thread, &attributes) != 0
        || pthread_attr_getstack(&attributes, &low, &size) != 0
        || address < (char *)low || address >= (char *)low + size)
        abort();
    pthread_attr_destroy(&attributes);
}

static void knows_itself(void)
{
    char here;

    is_known(pthread_self(), &here);
}

static void *joins(void *argument)
{
    void *value;

    is_known(forker, forkers_frame);
    sem_post(&begun);
    if (pthread_join(forker, &value) != 0 || value != argument)
        abort();
    printf("worked\n");
    return NULL;
}

static void *works(void *argument)
{
    char byte;

    usleep(10000);
    sem_post(&begun);
    /* Until the thread that forked has left, and a moment more. */
    if (read(opened[0], &byte, 1) != 1)
        abort();
    usleep(20000);
    printf("worked\n");
    return argument;
}

static void leaves(void *argument)
{
    (void)argument;
    for (int i = 0; i < 3; i++)
        if (write(opened[1], "x", 1) != 1)
            abort();
}

static void *forks(void *argument)
{
    pthread_key_t key;
    pthread_t thread;
    pid_t child = fork();
    int status;

    if (child != 0) {
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            abort();
        return argument;
    }
    knows_itself();
    forker = pthread_self();
    if (argument == &forker) {
        forkers_frame = (char *)&thread;
        if (pthread_create(&thread, NULL, joins, argument) != 0)
            abort();
        while (sem_wait(&begun) != 0)
            ;
        return argument;
    }
    if (pipe(opened) != 0 || pthread_key_create(&key, leaves) != 0 || pthread_setspecific(key, &key) != 0)
        abort();
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, works, NULL) != 0)
            abort();
    /* Whatever the library starts for a wait does not keep the child. */
    for (int i = 0; i < 3; i++)
        while (sem_wait(&begun) != 0)
            ;
    if (argument == &begun) {
        pthread_cancel(pthread_self());
        for (;;)
            pause();
    }
    if (argument)
        pthread_exit(argument);
    return argument;
}

static void *asks(void *argument)
{
    is_known(forker, forkers_frame);
    return argument;
}

/* Its creator may not have noted all of the thread yet. */
static void *forks_at_once(void *argument)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        pthread_t thread;

        knows_itself();
        forker = pthread_self();
        forkers_frame = (char *)&thread;
        if (pthread_create(&thread, NULL, asks, NULL) != 0 || pthread_join(thread, NULL) != 0)
            abort();
        _exit(pthread_detach(pthread_self()));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        abort();
    return argument;
}

static void at_once(void)
{
    pid_t process = fork();
    pthread_t thread;
    cpu_set_t one;
    int status;

    if (process != 0) {
        if (process < 0 || waitpid(process, &status, 0) != process || status != 0)
            abort();
        return;
    }
    /* The one that is created may run before its creator goes on. */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        abort();
    for (int i = 0; i < 100; i++)
        if (pthread_create(&thread, NULL, forks_at_once, NULL) != 0 || pthread_join(thread, NULL) != 0)
            abort();
    _exit(0);
}

int main(void)
{
    pthread_t thread;
    void *ways[] = { NULL, &thread, &begun, &forker };

    setvbuf(stdout, NULL, _IONBF, 0);
    sem_init(&begun, 0, 0);
    at_once();
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread, NULL, forks, ways[i]) != 0 || pthread_join(thread, NULL) != 0)
            abort();
    return 0;
}
