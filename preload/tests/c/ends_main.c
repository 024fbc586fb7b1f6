/*
 * A thread ends the main thread, as its argument says in which wait. The cleanup of that waits for a
 * semaphore, which no request ends any more. The program ends with its last thread, with 0.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_t main_thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty, cleans;
static int quiet[2];

/* In the table of names, the name of the C library's function is the end of this one. */
int its_pthread_cancel(pthread_t thread)
{
    return pthread_cancel(thread);
}

static void waits_for_post(void *post)
{
    if (sem_wait(post) != 0)
        perror("sem_wait");
    printf("cleaned\n");
}

static void *ends_main(void *argument)
{
    usleep(20000);
    if (its_pthread_cancel(main_thread) != 0)
        abort();
    usleep(20000);
    printf("posts\n");
    sem_post(&cleans);
    return argument;
}

static void says(void)
{
    printf("ended\n");
}

int main(int count, char **arguments)
{
    pthread_t thread;
    char byte;

    alarm(150);
    setvbuf(stdout, NULL, _IONBF, 0);
    atexit(says);
    main_thread = pthread_self();
    if (count != 2 || pipe(quiet) != 0 || sem_init(&empty, 0, 0) != 0 || sem_init(&cleans, 0, 0) != 0)
        abort();
    pthread_cleanup_push(waits_for_post, &cleans);
    if (pthread_create(&thread, NULL, ends_main, NULL) != 0)
        abort();
    switch (atoi(arguments[1])) {
    case 0:
        read(quiet[0], &byte, 1);
        break;
    case 1:
        sem_wait(&empty);
        break;
    default:
        pthread_mutex_lock(&mutex);
        for (;;)
            pthread_cond_wait(&never, &mutex);
    }
    pthread_cleanup_pop(0);
    return 1;
}
