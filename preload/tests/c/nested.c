/* Functions within functions. Their addresses are those of code that the compiler puts on the stack, so
   stacks must allow code. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int of_ten(const int *list, int (*weight)(int))
{
    int sum = 0;
    for (int at = 0; at < 10; at++)
        sum += weight(list[at]);
    return sum;
}

static void *add(void *argument)
{
    int factor = *(int *)argument, list[10];
    int weight(int value) { return factor * value; }
    for (int at = 0; at < 10; at++)
        list[at] = at;
    *(int *)argument = of_ten(list, weight);
    return argument;
}

int main(void)
{
    for (int round = 0; round < 100; round++) {
        pthread_t threads[4];
        int values[4];
        for (int at = 0; at < 4; at++) {
            values[at] = at + 1;
            if (pthread_create(&threads[at], NULL, add, &values[at]) != 0)
                abort();
        }
        for (int at = 0; at < 4; at++) {
            pthread_join(threads[at], NULL);
            if (values[at] != 45 * (at + 1))
                abort();
        }
    }
    puts("right");
    return 0;
}
