/*
 * A forked child has threads of its own, and one that has passed a barrier destroys it, makes it anew, and
 * goes on. The others may not have left it by then. Prints "ok".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 20
#define ROUNDS 200

static pthread_barrier_t barriers[2];

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static void *passes(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_t *barrier = &barriers[round % 2];

        if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            check(pthread_barrier_destroy(barrier) == 0, "pthread_barrier_destroy");
            check(pthread_barrier_init(barrier, NULL, THREADS) == 0, "pthread_barrier_init");
        }
    }
    return argument;
}

int main(void)
{
    int status;
    pid_t child = fork();

    check(child >= 0, "fork");
    if (child == 0) {
        pthread_t threads[THREADS];

        for (int i = 0; i < 2; i++)
            check(pthread_barrier_init(&barriers[i], NULL, THREADS) == 0, "pthread_barrier_init");
        for (int i = 0; i < THREADS; i++)
            check(pthread_create(&threads[i], NULL, passes, NULL) == 0, "pthread_create");
        for (int i = 0; i < THREADS; i++)
            check(pthread_join(threads[i], NULL) == 0, "pthread_join");
        return 0;
    }
    check(waitpid(child, &status, 0) == child && status == 0, "the child");
    printf("ok\n");
    return 0;
}
