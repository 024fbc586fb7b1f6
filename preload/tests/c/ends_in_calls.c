/*
 * Threads that other threads end in calls that block their kernel thread, in the C library's streams, and
 * while they compute. Prints "ok".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno);          \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static int quiet[2], file, empty_queue, full_queue;
static char folder[] = "/tmp/selvedge-ends-XXXXXX", fifo[64], path[64];
static FILE *stream;
static pthread_t main_thread;
static sigset_t all, waited;
static atomic_int cleaned, arrived;

struct message {
    long kind;
    char text[1024];
};

static void waits_pause(void) { pause(); }

static void waits_sigsuspend(void) { sigsuspend(&all); }

static void waits_sigwait(void)
{
    int signal;

    sigwait(&waited, &signal);
}

static void waits_sigwaitinfo(void) { sigwaitinfo(&waited, NULL); }

static void waits_sigtimedwait(void)
{
    struct timespec hour = { 3600, 0 };

    sigtimedwait(&waited, NULL, &hour);
}

static void waits_msgrcv(void)
{
    struct message message;

    msgrcv(empty_queue, &message, sizeof message.text, 0, 0);
}

static void waits_msgsnd(void)
{
    struct message message = { 1, "" };

    for (;;)
        msgsnd(full_queue, &message, sizeof message.text, 0);
}

static void waits_lockf(void) { lockf(file, F_LOCK, 0); }

static void waits_fcntl(void)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    fcntl(file, F_SETLKW, &lock);
}

static void waits_open(void) { open(fifo, O_RDONLY); }

static void waits_wait(void) { wait(NULL); }

static void waits_waitpid(void) { waitpid(-1, NULL, 0); }

static void waits_ppoll(void)
{
    struct pollfd polled = { quiet[0], POLLIN, 0 };
    sigset_t none;

    sigemptyset(&none);
    ppoll(&polled, 1, NULL, &none);
}

static void computes(void)
{
    volatile unsigned long sum = 0;

    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    for (;;)
        sum++;
}

static void computes_alone(void)
{
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    computes();
}

static void waits_unseen(void)
{
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
}

/* These have a part that the C library marks. */
static void waits_fgets(void)
{
    char line[16];

    fgets(line, sizeof line, stream);
}

static void waits_fread(void)
{
    char bytes[16];

    fread(bytes, 1, sizeof bytes, stream);
}

static void waits_system(void) { system("exec sleep 3600"); }

static void waits_join_main(void) { pthread_join(main_thread, NULL); }

static const struct {
    const char *name;
    void (*waits)(void);
    int is_marked;
} waits[] = {
    { "pause", waits_pause, 0 },
    { "sigsuspend", waits_sigsuspend, 0 },
    { "sigwait", waits_sigwait, 0 },
    { "sigwaitinfo", waits_sigwaitinfo, 0 },
    { "sigtimedwait", waits_sigtimedwait, 0 },
    { "msgrcv", waits_msgrcv, 0 },
    { "msgsnd", waits_msgsnd, 0 },
    { "lockf", waits_lockf, 0 },
    { "fcntl", waits_fcntl, 0 },
    { "open", waits_open, 0 },
    { "wait", waits_wait, 0 },
    { "waitpid", waits_waitpid, 0 },
    { "ppoll", waits_ppoll, 0 },
    { "computing", computes, 0 },
    { "computing with signals blocked", computes_alone, 0 },
    { "a system call", waits_unseen, 0 },
    { "fgets", waits_fgets, 1 },
    { "fread", waits_fread, 1 },
    { "pthread_join", waits_join_main, 1 },
    { "system", waits_system, 1 },
};
#define KINDS (sizeof waits / sizeof *waits)

static void cleans(void *argument)
{
    (void)argument;
    /* Calls that wait are none of the thread's last any more. */
    usleep(1);
    close(-1);
    atomic_fetch_add(&cleaned, 1);
}

static void *waiter(void *argument)
{
    size_t kind = (size_t)argument;

    pthread_cleanup_push(cleans, NULL);
    atomic_fetch_add(&arrived, 1);
    waits[kind].waits();
    printf("%s returned (errno %d)\n", waits[kind].name, errno);
    exit(1);
    pthread_cleanup_pop(0);
    return NULL;
}

static pthread_t start(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void *joined(pthread_t thread)
{
    void *value;

    CHECK(pthread_join(thread, &value) == 0);
    return value;
}

/* The C library has the mark up to 2.40, but for two versions. Kernel threads do without. */
static int has_marks(void)
{
    const char *model = getenv("SELVEDGE_RUNTIME"), *version = gnu_get_libc_version();
    int minor = atoi(strchr(version, '.') + 1);

    return model == NULL || strcmp(model, "mxn") != 0 || (minor <= 40 && minor != 34 && minor != 35);
}

static void ends(pthread_t thread)
{
    CHECK(pthread_cancel(thread) == 0);
    CHECK(joined(thread) == PTHREAD_CANCELED);
}

static void *looks_at_its_mask(void *argument)
{
    unsigned long long mask = 0;

    (void)argument;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask) == 0);
    CHECK((mask & 1ULL << (SIGCHLD - 1)) == 0);
    return NULL;
}

/* One thread in each call: at once, or `delay` microseconds after it has begun. */
static void each_ends(useconds_t delay)
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        int before = atomic_load(&cleaned), begun = atomic_load(&arrived);

        if (waits[kind].is_marked && !has_marks())
            continue;
        pthread_t thread = start(waiter, (void *)kind);
        while (delay != 0 && atomic_load(&arrived) == begun)
            usleep(100);
        usleep(delay);
        ends(thread);
        CHECK(delay == 0 || atomic_load(&cleaned) == before + 1);
        /* No lock of the C library is left, and no mask of signals. */
        CHECK(ftrylockfile(stream) == 0);
        funlockfile(stream);
        for (int i = 0; i < 4; i++)
            CHECK(joined(start(looks_at_its_mask, NULL)) == NULL);
    }
    CHECK(system("true") == 0);
}

static void all_end_together(void)
{
    pthread_t threads[2 * KINDS];
    int n = 0, before = atomic_load(&cleaned);

    atomic_store(&arrived, 0);
    for (size_t i = 0; i < 2 * KINDS; i++)
        if (!waits[i % KINDS].is_marked)
            threads[n++] = start(waiter, (void *)(i % KINDS));
    while (atomic_load(&arrived) < n)
        usleep(100);
    for (int i = 0; i < n; i++)
        CHECK(pthread_cancel(threads[i]) == 0);
    for (int i = 0; i < n; i++)
        CHECK(joined(threads[i]) == PTHREAD_CANCELED);
    CHECK(atomic_load(&cleaned) == before + n);
}

/* A thread that refuses is not disturbed. */
static void *refuses(void *argument)
{
    struct timespec time = { 0, 20 * 1000 * 1000 };

    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    atomic_store(&arrived, 1);
    CHECK(sigtimedwait(&waited, NULL, &time) < 0 && errno == EAGAIN);
    return argument;
}

static void *creates(void *argument)
{
    pthread_attr_t detached;
    pthread_t thread;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    atomic_store(&arrived, 1);
    for (;;)
        CHECK(pthread_create(&thread, &detached, looks_at_its_mask, NULL) == 0);
    return argument;
}

/* A green thread that may be ended anywhere does not end in a call that makes others. */
static void a_thread_that_creates_others_ends(void)
{
    const char *model = getenv("SELVEDGE_RUNTIME");

    if (model == NULL || strcmp(model, "mxn") != 0)
        return;
    for (int i = 0; i < 100; i++) {
        atomic_store(&arrived, 0);
        pthread_t thread = start(creates, NULL);
        while (atomic_load(&arrived) == 0)
            usleep(100);
        ends(thread);
    }
}

/* The C library refuses for the thread, in a call that has a lock. */
static void *says_an_error(void *argument)
{
    static char text[100000];

    memset(text, 'x', sizeof text - 1);
    error(0, 0, "%s", text);
    atomic_store(&arrived, 1);
    pthread_testcancel();
    return argument;
}

static void an_error_is_said_to_the_end(void)
{
    static char bytes[1 << 16];
    int ends[2], held = 0, errors = dup(STDERR_FILENO);

    CHECK(pipe(ends) == 0 && errors >= 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    atomic_store(&arrived, 0);
    pthread_t thread = start(says_an_error, NULL);
    while (held < 50000) {
        usleep(1000);
        CHECK(ioctl(ends[0], FIONREAD, &held) == 0);
    }
    CHECK(pthread_cancel(thread) == 0);
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    void *value;
    while (pthread_tryjoin_np(thread, &value) == EBUSY) {
        while (read(ends[0], bytes, sizeof bytes) > 0)
            ;
        usleep(1000);
    }
    CHECK(value == PTHREAD_CANCELED && atomic_load(&arrived) == 1);
    CHECK(dup2(errors, STDERR_FILENO) == STDERR_FILENO);
    CHECK(ftrylockfile(stderr) == 0);
    funlockfile(stderr);
    close(errors);
    close(ends[0]);
    close(ends[1]);
}

/* One that waits for nothing of this library is not ended by the signal for another thread of its LWP. */
static void *lasts(void *argument)
{
    volatile unsigned long sum = 0;

    while (atomic_load(&arrived) >= 0)
        sum++;
    return argument;
}

int main(void)
{
    struct message message = { 1, "" };
    pthread_t others[3];
    pid_t child;

    setvbuf(stdout, NULL, _IONBF, 0);
    alarm(150);
    main_thread = pthread_self();
    sigfillset(&all);
    sigemptyset(&waited);
    sigaddset(&waited, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &waited, NULL) == 0);
    CHECK(pipe(quiet) == 0 && (stream = fdopen(dup(quiet[0]), "r")) != NULL);
    CHECK(mkdtemp(folder) != NULL);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK(mkfifo(fifo, 0600) == 0 && (file = open(path, O_RDWR | O_CREAT, 0600)) >= 0);
    CHECK((empty_queue = msgget(IPC_PRIVATE, 0600)) >= 0 && (full_queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    while (msgsnd(full_queue, &message, sizeof message.text, IPC_NOWAIT) == 0)
        ;
    int locked[2];
    CHECK(pipe(locked) == 0);
    child = fork();
    if (child == 0) {
        alarm(200);
        if (lockf(file, F_LOCK, 0) == 0)
            write(locked[1], "", 1);
        pause();
        _exit(0);
    }
    char byte;
    CHECK(child > 0 && read(locked[0], &byte, 1) == 1);

    for (int i = 0; i < 3; i++)
        others[i] = start(lasts, &others[i]);
    for (int i = 0; i < 5; i++)
        each_ends(0);
    each_ends(3000);
    all_end_together();
    an_error_is_said_to_the_end();
    a_thread_that_creates_others_ends();

    atomic_store(&arrived, 0);
    pthread_t thread = start(refuses, &child);
    while (atomic_load(&arrived) == 0)
        usleep(100);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(joined(thread) == &child);
    atomic_store(&arrived, -1);
    for (int i = 0; i < 3; i++)
        CHECK(joined(others[i]) == &others[i]);

    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    msgctl(empty_queue, IPC_RMID, NULL);
    msgctl(full_queue, IPC_RMID, NULL);
    unlink(fifo);
    unlink(path);
    rmdir(folder);
    puts("ok");
    return 0;
}
