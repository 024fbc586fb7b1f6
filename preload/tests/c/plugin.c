/* A plugin that sends signals to single threads. Nothing else of the program does (`plugins.c`). */
#include <pthread.h>
#include <signal.h>

int send_to(pthread_t thread);

int send_to(pthread_t thread)
{
    return pthread_kill(thread, SIGUSR1);
}
