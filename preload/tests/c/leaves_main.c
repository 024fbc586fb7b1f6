/*
 * The main thread leaves by pthread_exit. The program ends with its last thread, with 0.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *works(void *argument)
{
    usleep(20000);
    printf("worked\n");
    return argument;
}

int main(void)
{
    pthread_t thread;

    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, works, NULL) != 0)
            abort();
    pthread_exit(NULL);
}
