/*
 * Masks of signals: each thread has its own, which its children begin with, and a signal that all threads
 * block waits until one asks for it. It prints "ok" at the end.
 */
#include "signals.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/* What the kernel thread blocks. */
static unsigned long kernel_mask(void)
{
    unsigned long mask = 0;

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    return mask;
}

static unsigned long bit(int signal)
{
    return signal ? 1ul << (signal - 1) : 0;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void *nothing(void *argument)
{
    return argument;
}

static void *waits_for(void *argument)
{
    sigset_t set = set_of((int)(long)argument, 0);
    int signal = 0;

    CHECK(sigwait(&set, &signal) == 0);
    return (void *)(long)signal;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int over, ready;

static void *sleeps(void *argument)
{
    pthread_mutex_lock(&lock);
    ready++;
    pthread_cond_broadcast(&changed);
    while (!over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return argument;
}

static void until_ready(int wanted)
{
    pthread_mutex_lock(&lock);
    while (ready < wanted)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void end_sleeps(void)
{
    pthread_mutex_lock(&lock);
    over = 1;
    ready = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* A library starts a thread, and joins it. After that, the program blocks a signal. */
static void late(void)
{
    enum { OTHERS = 4, TIMES = 20 };
    pthread_t others[OTHERS], waiter;
    sigset_t term = set_of(SIGTERM, 0);
    struct timespec now = { 0, 0 };
    void *signal;

    for (int i = 0; i < TIMES; i++) {
        set_mask(SIG_UNBLOCK, SIGTERM, 0);
        pthread_join(start(nothing, NULL), NULL);
        set_mask(SIG_BLOCK, SIGTERM, 0);
        /* No other thread is there. */
        kill(getpid(), SIGTERM);
        CHECK(sigtimedwait(&term, NULL, &now) == SIGTERM);
        over = ready = 0;
        for (int k = 0; k < OTHERS; k++)
            others[k] = start(sleeps, NULL);
        waiter = start(waits_for, (void *)SIGTERM);
        until_ready(i % (OTHERS + 1));
        kill(getpid(), SIGTERM);
        pthread_join(waiter, &signal);
        CHECK((long)signal == SIGTERM);
        end_sleeps();
        for (int k = 0; k < OTHERS; k++)
            pthread_join(others[k], NULL);
    }
    set_mask(SIG_UNBLOCK, SIGTERM, 0);
}

static void *blocks_term_and_sleeps(void *argument)
{
    set_mask(SIG_BLOCK, SIGTERM, 0);
    return sleeps(argument);
}

/* All threads block a signal after they have started. */
static void later(void)
{
    enum { OTHERS = 4 };
    pthread_t others[OTHERS], waiter;
    void *signal;

    over = ready = 0;
    for (int i = 0; i < OTHERS; i++)
        others[i] = start(blocks_term_and_sleeps, NULL);
    until_ready(OTHERS);
    set_mask(SIG_BLOCK, SIGTERM, 0);
    waiter = start(waits_for, (void *)SIGTERM);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGTERM);
        pthread_join(waiter, &signal);
        CHECK((long)signal == SIGTERM);
        if (i < 2)
            waiter = start(waits_for, (void *)SIGTERM);
    }
    end_sleeps();
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    set_mask(SIG_UNBLOCK, SIGTERM, 0);
}

static void *has_mask(void *argument)
{
    sigset_t mask, wanted = *(sigset_t *)argument;

    for (int round = 0; round < 10; round++) {
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
        for (int signal = 1; signal < NSIG; signal++)
            CHECK(sigismember(&mask, signal) == sigismember(&wanted, signal));
        sched_yield();
        rest(50);
    }
    return NULL;
}

static void *has_mask_and_child(void *argument)
{
    has_mask(argument);
    pthread_join(start(has_mask, argument), NULL);
    return NULL;
}

/* A thread begins with the mask of its creator, or with that of its attributes. */
static void inherited(void)
{
    const int pairs[][2] = { { SIGUSR1, 0 }, { 0, 0 }, { SIGUSR2, SIGALRM }, { SIGRTMIN, SIGFPE } };
    enum { PAIRS = sizeof pairs / sizeof *pairs, EACH = 5 };
    pthread_t threads[PAIRS][EACH];
    sigset_t masks[PAIRS];
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    for (int i = 0; i < PAIRS; i++) {
        masks[i] = set_of(pairs[i][0], pairs[i][1]);
        for (int k = 0; k < EACH; k++) {
            CHECK(pthread_sigmask(SIG_SETMASK, &masks[i], NULL) == 0);
            threads[i][k] = start(has_mask_and_child, &masks[i]);
        }
    }
    set_mask(SIG_SETMASK, 0, 0);
    for (int i = 0; i < PAIRS; i++)
        for (int k = 0; k < EACH; k++) {
            pthread_join(threads[i][k], NULL);
            CHECK(pthread_attr_setsigmask_np(&attributes, &masks[i]) == 0);
            CHECK(pthread_create(&threads[i][k], &attributes, has_mask_and_child, &masks[i]) == 0);
        }
    for (int i = 0; i < PAIRS; i++)
        for (int k = 0; k < EACH; k++)
            pthread_join(threads[i][k], NULL);
    pthread_attr_destroy(&attributes);
}

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static void *unblocks_and_sleeps(void *argument)
{
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    return sleeps(argument);
}

/* The only thread that does not block a signal sleeps. */
static void wanted_by_a_sleeper(void)
{
    pthread_t others[3];

    signal(SIGUSR1, on_signal);
    over = handled = 0;
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    for (int i = 0; i < 2; i++)
        others[i] = start(sleeps, NULL);
    others[2] = start(unblocks_and_sleeps, NULL);
    until_ready(3);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR1);
        while (handled <= i)
            rest(100);
    }
    end_sleeps();
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    /* Now all block it. */
    kill(getpid(), SIGUSR1);
    rest(1000);
    CHECK(handled == 20);
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    CHECK(handled == 21);
}

static void *computes(void *argument)
{
    __atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
    while (!handled)
        ;
    return argument;
}

/* The same, while all others compute, as many as there are processors, until it has handled the signal. */
static void wanted_while_all_compute(void)
{
    const char *slots = getenv("SELVEDGE_CONCURRENCY");
    int count = slots ? atoi(slots) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t sleeper, others[count];

    signal(SIGUSR1, on_signal);
    over = handled = 0;
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    sleeper = start(unblocks_and_sleeps, NULL);
    until_ready(1);
    for (int i = 0; i < count; i++)
        others[i] = start(computes, NULL);
    while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < 1 + count)
        rest(100);
    rest(5000);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < count; i++)
        pthread_join(others[i], NULL);
    end_sleeps();
    pthread_join(sleeper, NULL);
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
}

static void *holds_none(void *argument)
{
    for (int i = 0; i < 20; i++) {
        CHECK(kernel_mask() == 0);
        rest(40);
    }
    return argument;
}

/* What the child of a vfork blocks is no concern of the thread that waits for it. */
static void *forks(void *argument)
{
    set_mask(SIG_SETMASK, SIGALRM, 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();

        if (child == 0) {
            sigset_t all;

            sigfillset(&all);
            sigprocmask(SIG_SETMASK, &all, NULL);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
        rest(100);
        CHECK(kernel_mask() == bit(SIGALRM));
    }
    return argument;
}

static void forked(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        threads[i] = start(i % 2 ? forks : holds_none, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* The functions of System V. */
static void *holds(void *argument)
{
    sighold(SIGALRM);
    for (int i = 0; i < 10; i++) {
        CHECK(kernel_mask() == bit(SIGALRM));
        rest(50);
    }
    sigrelse(SIGALRM);
    for (int i = 0; i < 10; i++) {
        CHECK(kernel_mask() == 0);
        rest(50);
    }
    return argument;
}

static void held(void)
{
    pthread_t threads[6];

    for (int i = 0; i < 6; i++)
        threads[i] = start(i % 2 ? holds : holds_none, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}

/* The only thread blocks a signal for short times, which the main thread blocks always. */
static void *toggles(void *argument)
{
    for (int i = 0; i < 2000; i++) {
        set_mask(SIG_UNBLOCK, SIGUSR1, 0);
        set_mask(SIG_BLOCK, SIGUSR1, 0);
        if (i % 100 == 0)
            rest(50);
    }
    return argument;
}

static void toggled(void)
{
    set_mask(SIG_BLOCK, SIGUSR1, 0);
    pthread_join(start(toggles, NULL), NULL);
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
}

static void blocks_hup(int number)
{
    set_mask(SIG_BLOCK, SIGHUP, 0);
    on_signal(number);
}

/* A handler changes the mask, while the thread that it interrupts changes it, too. */
static void interrupted(void)
{
    struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
    pthread_t other;

    signal(SIGALRM, blocks_hup);
    over = handled = 0;
    other = start(sleeps, NULL);
    until_ready(1);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 2000) {
        set_mask(SIG_BLOCK, SIGUSR2, 0);
        set_mask(SIG_UNBLOCK, SIGUSR2, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    end_sleeps();
    pthread_join(other, NULL);
    CHECK(kernel_mask() == 0);
}

static void *spins(void *argument)
{
    CHECK(kernel_mask() == 0);
    __atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < 4)
        ;
    return argument;
}

/* A signal is handled as soon as it is unblocked. What its handler blocks, it blocks until it returns. */
static void *unblocks(void *argument)
{
    pthread_t others[4];

    set_mask(SIG_BLOCK, SIGALRM, 0);
    syscall(SYS_tgkill, getpid(), gettid(), SIGALRM);
    handled = ready = 0;
    set_mask(SIG_UNBLOCK, SIGALRM, 0);
    CHECK(handled == 1);
    for (int i = 0; i < 4; i++)
        others[i] = start(spins, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(others[i], NULL);
    return argument;
}

static void pending(void)
{
    signal(SIGALRM, blocks_hup);
    pthread_join(start(unblocks, NULL), NULL);
    ready = 0;
}

static void unblocks_usr1(int number)
{
    set_mask(SIG_UNBLOCK, SIGUSR1, 0);
    on_signal(number);
}

static void *suspends(void *argument)
{
    sigset_t none = set_of(0, 0), usual = set_of(SIGUSR1, 0);

    set_mask(SIG_BLOCK, SIGUSR1, 0);
    handled = 0;
    raise(SIGUSR1);
    CHECK(sigsuspend(&none) == -1 && handled == 1);
    pthread_join(start(has_mask, &usual), NULL);
    has_mask(&usual);
    return argument;
}

/* A handler in sigsuspend may block what its thread blocks. If it changes that, the thread's mask stays. */
static void suspended(void)
{
    signal(SIGUSR1, unblocks_usr1);
    pthread_join(start(suspends, NULL), NULL);
}

enum { TURNS = 20000 };

/* Handlers run wherever a signal is unblocked, also between two threads. What they block is not noted. */
static void *takes_turns(void *argument)
{
    unsigned long own = kernel_mask();
    unsigned seed = (unsigned)(long)argument;

    for (int i = 0; i < TURNS; i++) {
        int blocks = rand_r(&seed) % 2;

        set_mask(blocks ? SIG_BLOCK : SIG_UNBLOCK, SIGALRM, 0);
        own = blocks ? own | bit(SIGALRM) : own & ~bit(SIGALRM);
        if (i % 16 == 0)
            sched_yield();
        if (kernel_mask() != own)
            fail("thread %ld, turn %d: %lx, not %lx", (long)argument, i, kernel_mask(), own);
    }
    __atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
    return argument;
}

static void switched(void)
{
    pthread_t threads[8];

    signal(SIGALRM, blocks_hup);
    ready = 0;
    set_mask(SIG_BLOCK, SIGALRM, 0);
    for (long i = 0; i < 8; i++)
        threads[i] = start(takes_turns, (void *)(i + 1));
    while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < 8) {
        kill(getpid(), SIGALRM);
        rest(50);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    set_mask(SIG_UNBLOCK, SIGALRM, 0);
    set_mask(SIG_SETMASK, 0, 0);
    ready = 0;
}

enum { CHANGERS = 8, ROUNDS = 300 };

static int done;

/* Changes its mask, and waits in many ways. No other thread sees anything of that. */
static void *changes(void *argument)
{
    const int signals[] = { SIGUSR1, SIGALRM, SIGHUP, SIGRTMIN + 1 };
    unsigned seed = (unsigned)(long)argument;
    unsigned long own = bit(SIGTERM);

    CHECK(kernel_mask() == own);
    for (int round = 0; round < ROUNDS; round++) {
        int signal = signals[rand_r(&seed) % 4];
        int how = rand_r(&seed) % 2 ? SIG_BLOCK : SIG_UNBLOCK;

        set_mask(how, signal, 0);
        own = how == SIG_BLOCK ? own | bit(signal) : own & ~bit(signal);
        switch (rand_r(&seed) % 4) {
        case 0:
            sched_yield();
            break;
        case 1:
            rest(rand_r(&seed) % 100);
            break;
        case 2:
            pthread_mutex_lock(&lock);
            sched_yield();
            pthread_mutex_unlock(&lock);
            break;
        default:
            pthread_join(start(nothing, NULL), NULL);
        }
        if (kernel_mask() != own)
            fail("thread %ld, round %d: %lx, not %lx", (long)argument, round, kernel_mask(), own);
        if (own & bit(SIGUSR1))
            continue;
        int before = handled;
        raise(SIGUSR1);
        CHECK(handled > before);
    }
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
    return NULL;
}

static int terms;

static void *counts(void *argument)
{
    sigset_t set = set_of(SIGTERM, 0);
    struct timespec soon = { 0, 1000000 };

    while (!over)
        if (sigtimedwait(&set, NULL, &soon) == SIGTERM)
            __atomic_add_fetch(&terms, 1, __ATOMIC_RELAXED);
    return argument;
}

/* Threads that change their masks, while signals come. */
static void stress(void)
{
    static const int handled_ones[] = { SIGUSR1, SIGALRM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    pthread_t threads[CHANGERS], counter;
    int sent = 0;

    for (int i = 0; i < 3; i++)
        sigaction(handled_ones[i], &action, NULL);
    sigaction(SIGRTMIN + 1, &action, NULL);
    over = done = 0;
    set_mask(SIG_SETMASK, SIGTERM, 0);
    counter = start(counts, NULL);
    for (long i = 0; i < CHANGERS; i++)
        threads[i] = start(changes, (void *)(i + 1));
    set_mask(SIG_BLOCK, SIGALRM, 0);
    while (__atomic_load_n(&done, __ATOMIC_RELAXED) < CHANGERS) {
        int before = __atomic_load_n(&terms, __ATOMIC_RELAXED);

        kill(getpid(), handled_ones[sent % 3]);
        kill(getpid(), SIGTERM);
        sent++;
        while (__atomic_load_n(&terms, __ATOMIC_RELAXED) == before)
            rest(50);
    }
    for (int i = 0; i < CHANGERS; i++)
        pthread_join(threads[i], NULL);
    over = 1;
    pthread_join(counter, NULL);
    CHECK(terms == sent);
}

static void *raises(void *argument)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_kill(pthread_self(), SIGVTALRM);
    raise(SIGVTALRM);
    return argument;
}

/* What a thread has raised, and blocks, ends with it. Signals for the process stay. */
static void raised(void)
{
    sigset_t term = set_of(SIGTERM, 0);
    struct timespec now = { 0, 0 };

    set_mask(SIG_BLOCK, SIGTERM, 0);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGTERM);
        pthread_join(start(raises, NULL), NULL);
        CHECK(sigtimedwait(&term, NULL, &now) == SIGTERM);
    }
    set_mask(SIG_UNBLOCK, SIGTERM, 0);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = { { "late", late }, { "later", later }, { "inherited", inherited },
                   { "wanted", wanted_by_a_sleeper }, { "compute", wanted_while_all_compute },
                   { "held", held }, { "forked", forked }, { "toggled", toggled },
                   { "interrupted", interrupted }, { "pending", pending },
                   { "suspended", suspended }, { "switched", switched }, { "raised", raised },
                   { "stress", stress } };

    for (int i = 0; i < (int)(sizeof scenes / sizeof *scenes); i++)
        if (count < 2 || strcmp(arguments[1], scenes[i].name) == 0)
            scenes[i].run();
    printf("ok\n");
    return 0;
}
