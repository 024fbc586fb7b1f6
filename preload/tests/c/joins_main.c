/*
 * Threads wait for the end of the main thread. Another ends their waits, or a deadline does, or the main
 * thread ends. Then the last one has its value.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(that)                                                                               \
    do {                                                                                           \
        if (!(that)) {                                                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #that);                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static pthread_t main_thread;
static sem_t begun;

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec then;

    clock_gettime(clock, &then);
    then.tv_nsec += ms % 1000 * 1000000;
    then.tv_sec += ms / 1000 + then.tv_nsec / 1000000000;
    then.tv_nsec %= 1000000000;
    return then;
}

static int join_in(int how, long ms, void **value)
{
    struct timespec then = in_ms(how == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, ms);

    if (how == 0)
        return pthread_join(main_thread, value);
    if (how == 1)
        return pthread_timedjoin_np(main_thread, value, &then);
    return pthread_clockjoin_np(main_thread, value, CLOCK_MONOTONIC, &then);
}

static void *is_ended(void *how)
{
    sem_post(&begun);
    join_in((int)(intptr_t)how, 1000000, NULL);
    EXPECT(!"it returns");
    return NULL;
}

static void *gives_up(void *argument)
{
    EXPECT(join_in(1, 5, NULL) == ETIMEDOUT && join_in(2, 5, NULL) == ETIMEDOUT);
    EXPECT(pthread_tryjoin_np(main_thread, NULL) == EBUSY);
    return argument;
}

static void *has_the_value(void *how)
{
    void *value = NULL;

    sem_post(&begun);
    EXPECT(join_in((int)(intptr_t)how, 1000000, &value) == 0 && value == &main_thread);
    printf("joined\n");
    fflush(stdout);
    return NULL;
}

static void cleans(void *argument)
{
    (void)argument;
    usleep(2000);
    printf("cleaned\n");
    fflush(stdout);
}

int main(int count, char **arguments)
{
    pthread_t thread;
    void *value;
    int how = count > 1 ? atoi(arguments[1]) : 0;

    alarm(150);
    main_thread = pthread_self();
    EXPECT(sem_init(&begun, 0, 0) == 0);
    for (int at = 0; at < 6; at++) {
        EXPECT(pthread_create(&thread, NULL, is_ended, (void *)(intptr_t)how) == 0);
        if (at % 2) {
            sem_wait(&begun);
            usleep(2000);
        }
        EXPECT(pthread_cancel(thread) == 0);
        EXPECT(pthread_join(thread, &value) == 0 && value == PTHREAD_CANCELED);
    }
    EXPECT(pthread_create(&thread, NULL, gives_up, NULL) == 0 && pthread_join(thread, NULL) == 0);
    while (sem_trywait(&begun) == 0)
        ;
    EXPECT(pthread_create(&thread, NULL, has_the_value, (void *)(intptr_t)how) == 0);
    EXPECT(pthread_detach(thread) == 0);
    sem_wait(&begun);
    usleep(2000);
    pthread_cleanup_push(cleans, NULL);
    pthread_exit(&main_thread);
    pthread_cleanup_pop(0);
}
