/*
 * Ping-Pong: pairs of threads take turns by four mutexes.
 *
 * After the benchmark of the same name in "Multithreading in the Solaris Operating Environment" (Harman,
 * 2002), appendix C: its options, its rules, its output. It uses POSIX threads alone, and knows nothing of
 * the library that they come from.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A player has two doors. The opponent shuts one, and opens it when it is this player's turn. */
struct player {
    pthread_mutex_t door[2];
    struct player *opponent;
    pthread_t thread;
    int serves;
    int turns;
};

/* All threads wait until all have come. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    int missing;
};

static int turns = 1000000, games = 1, pause_ms, concurrency, verbose;
static size_t stack_size;
static int shared = PTHREAD_PROCESS_PRIVATE, scope = PTHREAD_SCOPE_PROCESS;
static struct gate ready, begin, end;
static pthread_mutex_t bottleneck;
static pthread_mutexattr_t mutex_attributes;
static pthread_condattr_t cond_attributes;

static void check(int code, const char *what)
{
    if (code != 0) {
        fprintf(stderr, "pingpong: %s: %s\n", what, strerror(code));
        exit(1);
    }
}

static void gate_init(struct gate *gate)
{
    check(pthread_mutex_init(&gate->lock, &mutex_attributes), "pthread_mutex_init");
    check(pthread_cond_init(&gate->open, &cond_attributes), "pthread_cond_init");
    gate->missing = 2 * games + 1;
}

static void gate_pass(struct gate *gate)
{
    check(pthread_mutex_lock(&gate->lock), "pthread_mutex_lock");
    if (--gate->missing == 0)
        check(pthread_cond_broadcast(&gate->open), "pthread_cond_broadcast");
    while (gate->missing > 0)
        check(pthread_cond_wait(&gate->open, &gate->lock), "pthread_cond_wait");
    check(pthread_mutex_unlock(&gate->lock), "pthread_mutex_unlock");
}

static void lock(pthread_mutex_t *mutex)
{
    check(pthread_mutex_lock(mutex), "pthread_mutex_lock");
}

static void unlock(pthread_mutex_t *mutex)
{
    check(pthread_mutex_unlock(mutex), "pthread_mutex_unlock");
}

static void *play(void *argument)
{
    struct player *me = argument, *other = me->opponent;
    /* The server shuts both doors of the other, and opens the first when the game begins. */
    int behind = me->serves ? 0 : 1;

    gate_pass(&ready);
    lock(&other->door[0]);
    if (me->serves)
        lock(&other->door[1]);
    gate_pass(&begin);
    if (me->serves)
        unlock(&other->door[0]);
    for (me->turns = 0; me->turns < turns; me->turns++) {
        int own = me->turns % 2, next = (me->turns + behind) % 2;

        lock(&me->door[own]);
        lock(&other->door[next]);
        unlock(&me->door[own]);
        unlock(&other->door[1 - next]);
        if (pause_ms < 0) {
            lock(&bottleneck);
            unlock(&bottleneck);
        } else if (pause_ms > 0) {
            struct timespec pause = { pause_ms / 1000, pause_ms % 1000 * 1000000L };

            nanosleep(&pause, NULL);
        }
    }
    gate_pass(&end);
    return me;
}

static double milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void usage(void)
{
    fprintf(stderr, "usage: pingpong [-v] [-i turns] [-n games] [-z pause in ms, or -1]\n"
                    "                [-p private|shared] [-s process|system] [-c concurrency] [-S stack]\n");
    exit(2);
}

static void options(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "vi:n:z:p:s:c:S:")) != -1) {
        switch (option) {
        case 'v': verbose = 1; break;
        case 'i': turns = atoi(optarg); break;
        case 'n': games = atoi(optarg); break;
        case 'z': pause_ms = atoi(optarg); break;
        case 'c': concurrency = atoi(optarg); break;
        case 'S': stack_size = strtoul(optarg, NULL, 10); break;
        case 'p': shared = strcmp(optarg, "shared") ? PTHREAD_PROCESS_PRIVATE : PTHREAD_PROCESS_SHARED; break;
        case 's': scope = strcmp(optarg, "system") ? PTHREAD_SCOPE_PROCESS : PTHREAD_SCOPE_SYSTEM; break;
        default: usage();
        }
    }
    if (turns < 1 || games < 1 || optind < argc)
        usage();
}

int main(int argc, char **argv)
{
    struct player *players;
    pthread_attr_t attributes;
    double start;
    long sum = 0;

    options(argc, argv);
    pthread_mutexattr_init(&mutex_attributes);
    pthread_mutexattr_setpshared(&mutex_attributes, shared);
    pthread_condattr_init(&cond_attributes);
    pthread_condattr_setpshared(&cond_attributes, shared);
    pthread_attr_init(&attributes);
    /* Linux knows only one scope, and says so. */
    pthread_attr_setscope(&attributes, scope);
    if (stack_size > 0)
        check(pthread_attr_setstacksize(&attributes, stack_size), "pthread_attr_setstacksize");
    if (concurrency > 0)
        pthread_setconcurrency(concurrency);
    check(pthread_mutex_init(&bottleneck, &mutex_attributes), "pthread_mutex_init");
    gate_init(&ready);
    gate_init(&begin);
    gate_init(&end);

    start = milliseconds();
    players = calloc(2 * games, sizeof *players);
    for (int i = 0; i < 2 * games; i++) {
        struct player *player = &players[i];

        player->serves = i % 2 == 0;
        player->opponent = player->serves ? player + 1 : player - 1;
        check(pthread_mutex_init(&player->door[0], &mutex_attributes), "pthread_mutex_init");
        check(pthread_mutex_init(&player->door[1], &mutex_attributes), "pthread_mutex_init");
    }
    for (int i = 0; i < 2 * games; i++)
        check(pthread_create(&players[i].thread, &attributes, play, &players[i]), "pthread_create");
    gate_pass(&ready);
    if (verbose)
        printf("%d threads initialised in %.1fms\n", 2 * games, milliseconds() - start);
    start = milliseconds();
    gate_pass(&begin);
    gate_pass(&end);
    if (verbose)
        printf("%d games completed in %.1fms\n", games, milliseconds() - start);
    for (int i = 0; i < 2 * games; i++) {
        void *value;

        check(pthread_join(players[i].thread, &value), "pthread_join");
        sum += ((struct player *)value)->turns;
    }
    printf("%ld turns\n", sum);
    return 0;
}
