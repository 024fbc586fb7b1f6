/*
 * Two threads, of which one is the main thread, leave values under keys. The program ends when both are
 * destroyed, though that takes long.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void is_destroyed(void *value)
{
    usleep(50000);
    printf("destroyed\n");
}

static void leaves_a_value(void)
{
    pthread_key_t key;

    if (pthread_key_create(&key, is_destroyed) != 0 || pthread_setspecific(key, "a value") != 0)
        abort();
}

static void *works(void *argument)
{
    leaves_a_value();
    usleep(20000);
    return argument;
}

int main(void)
{
    pthread_t thread;

    setvbuf(stdout, NULL, _IONBF, 0);
    if (pthread_create(&thread, NULL, works, NULL) != 0)
        abort();
    leaves_a_value();
    pthread_exit(NULL);
}
