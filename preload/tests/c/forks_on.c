/*
 * A thread forks, starts threads in the child, and leaves: it returns, or exits, or asks itself to end. The
 * child ends with its last thread, with 0, as any program does.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int opened[2];
static sem_t begun;

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

int main(void)
{
    pthread_t thread;
    void *ways[] = { NULL, &thread, &begun };

    setvbuf(stdout, NULL, _IONBF, 0);
    sem_init(&begun, 0, 0);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, forks, ways[i]) != 0 || pthread_join(thread, NULL) != 0)
            abort();
    return 0;
}
