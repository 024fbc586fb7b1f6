/*
 * Calls that block the kernel thread, and signals for the thread that is in one: they end it, or it goes on.
 * It prints "ok" at the end.
 */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static char folder[] = "/tmp/selvedge-interrupted-XXXXXX", fifo[64], path[64];
static int file, other, queue, semaphores, ends[2], child_ends[2], listener, connected[8];
static FILE *stream;
static sem_t shared;

static long flocks(void)
{
    return flock(file, LOCK_EX);
}

static void unflocks(void)
{
    CHECK(flock(other, LOCK_UN) == 0);
}

static int locks(int fd, int kind, int command)
{
    struct flock lock = { .l_type = kind, .l_whence = SEEK_SET };

    return fcntl(fd, command, &lock);
}

static long waits_in_fcntl(void)
{
    return locks(file, F_WRLCK, F_OFD_SETLKW);
}

static void unlocks(void)
{
    CHECK(locks(other, F_UNLCK, F_OFD_SETLK) == 0);
}

static long opens(void)
{
    int opened = open(fifo, O_RDONLY);

    return opened < 0 ? -1 : close(opened);
}

static void opens_the_other_side(void)
{
    int opened = open(fifo, O_WRONLY);

    CHECK(opened >= 0 && close(opened) == 0);
}

static long waits_for_child(void)
{
    return waitpid(-1, NULL, 0);
}

static long waits_for_any(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED);
}

static void ends_child(void)
{
    CHECK(write(child_ends[1], "", 1) == 1);
}

static long reads(void)
{
    char byte;

    return syscall(SYS_read, ends[0], &byte, 1);
}

static long reads_stream(void)
{
    int read = getc(stream);

    clearerr(stream);
    return read;
}

static void writes(void)
{
    CHECK(write(ends[1], "", 1) == 1);
}

static long waits_for_semaphore(void)
{
    return sem_wait(&shared);
}

static void posts(void)
{
    CHECK(sem_post(&shared) == 0);
}

static long connects(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int connecting = socket(AF_UNIX, SOCK_STREAM, 0);
    long result;

    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    result = connect(connecting, (struct sockaddr *)&address, sizeof address);
    close(connecting);
    return result;
}

static void accepts(void)
{
    int accepted = accept(listener, NULL, NULL);

    CHECK(accepted >= 0 && close(accepted) == 0);
}

static long receives(void)
{
    struct { long kind; char byte; } message;

    return msgrcv(queue, &message, 1, 0, 0);
}

static long takes(void)
{
    struct sembuf take = { .sem_num = 0, .sem_op = -1 };

    return semop(semaphores, &take, 1);
}

/* After an error, the sets are as they were. Many programs call again without asking anew. */
static long waits_in_select(void)
{
    fd_set set;
    int found;

    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    found = select(ends[0] + 1, &set, NULL, NULL, NULL);
    if (found < 0 && !FD_ISSET(ends[0], &set))
        errno = 0;
    return found;
}

static const struct call {
    const char *name;
    long (*make)(void);
    /* Of the system call; -1: that depends on the C library. */
    long number;
    /* What lets it return; NULL: no handler lets it go on. */
    void (*release)(void);
} calls[] = {
    { "flock", flocks, SYS_flock, unflocks },
    { "fcntl", waits_in_fcntl, SYS_fcntl, unlocks },
    { "open", opens, SYS_openat, opens_the_other_side },
    { "waitpid", waits_for_child, SYS_wait4, ends_child },
    { "waitid", waits_for_any, SYS_waitid, ends_child },
    { "a system call", reads, SYS_read, writes },
    { "getc", reads_stream, SYS_read, writes },
    { "sem_wait", waits_for_semaphore, SYS_futex, posts },
    { "connect", connects, SYS_connect, accepts },
    { "msgrcv", receives, SYS_msgrcv, NULL },
    { "semop", takes, -1, NULL },
    { "select", waits_in_select, -1, NULL },
};
enum { CALLS = sizeof calls / sizeof *calls };

static sem_t begun, handled, may_end;
static volatile int over, is_in_handler;
static volatile long result, error, own_task;
static const struct call *volatile current;

static void on_signal(int signal)
{
    int before = errno;

    (void)signal;
    sem_post(&handled);
    errno = before;
}

static void make(int signal)
{
    int before = errno;

    (void)signal;
    own_task = syscall(SYS_gettid);
    sem_post(&begun);
    errno = 0;
    result = current->make();
    error = errno;
    over = 1;
    errno = before;
}

static void *makes(void *argument)
{
    if (is_in_handler)
        CHECK(pthread_kill(pthread_self(), SIGUSR2) == 0);
    else
        make(0);
    while (sem_wait(&may_end) != 0)
        ;
    /* The next one finds all as before. */
    if (current->make == flocks)
        CHECK(flock(file, LOCK_UN) == 0);
    if (current->make == waits_in_fcntl)
        CHECK(locks(file, F_UNLCK, F_OFD_SETLK) == 0);
    return argument;
}

/* Waits until the thread sleeps in the call. Returns 0 if the kernel does not say. */
static int is_seen_asleep(void)
{
    char name[64], text[64];
    long number;
    int tries;

    snprintf(name, sizeof name, "/proc/self/task/%ld/syscall", own_task);
    for (tries = 0; tries < 5000 && current->number >= 0; tries++) {
        FILE *status = fopen(name, "r");

        if (!status)
            break;
        if (!fgets(text, sizeof text, status))
            text[0] = 0;
        fclose(status);
        if (sscanf(text, "%ld ", &number) == 1 && number == current->number)
            return 1;
        rest(200);
    }
    rest(2000);
    return 0;
}

static void begin(pthread_t *thread)
{
    CHECK(flock(other, LOCK_EX) == 0 && locks(other, F_WRLCK, F_OFD_SETLK) == 0);
    over = 0;
    CHECK(pthread_create(thread, NULL, makes, NULL) == 0);
    while (sem_wait(&begun) != 0)
        ;
}

static void end(pthread_t thread)
{
    sem_post(&may_end);
    join(thread);
    CHECK(flock(other, LOCK_UN) == 0);
    unlocks();
    while (sem_trywait(&handled) == 0)
        ;
}

static void send_to(pthread_t thread)
{
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (sem_wait(&handled) != 0)
        ;
}

/* One signal is enough for a thread that sleeps in the call. */
static void ends_it(void)
{
    pthread_t thread;
    int is_seen, tries;

    begin(&thread);
    is_seen = is_seen_asleep();
    for (tries = 0; !over; tries++) {
        if (tries > 500 || (tries > 0 && is_seen))
            fail("%s: %d signals have not ended it", current->name, tries);
        send_to(thread);
        for (int i = 0; i < (is_seen ? 10000 : 10) && !over; i++)
            rest(1000);
    }
    if (result != -1 || error != EINTR)
        fail("%s: %ld, error %ld", current->name, result, error);
    end(thread);
}

static void goes_on(void)
{
    pthread_t thread;

    begin(&thread);
    is_seen_asleep();
    for (int i = 0; i < 3; i++) {
        send_to(thread);
        rest(1000);
        is_seen_asleep();
        CHECK(!over);
    }
    current->release();
    while (!over)
        rest(100);
    if (result < 0)
        fail("%s: %ld, error %ld", current->name, result, error);
    end(thread);
}

static pid_t start_child(void)
{
    char byte;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        _exit(read(child_ends[0], &byte, 1) != 1);
    return child;
}

static void all_calls(void)
{
    for (int i = 0; i < CALLS; i++) {
        current = &calls[i];
        int has_child = current->release == ends_child;
        pid_t child = has_child ? start_child() : 0;

        handle_by(SIGUSR1, on_signal, 0);
        ends_it();
        handle_by(SIGUSR1, on_signal, SA_RESTART);
        if (current->release)
            goes_on();
        else
            ends_it();
        if (has_child)
            CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    }
}

/* Calls that take a mask find signals that the thread blocks otherwise. */
static int watched[2], polled_set;

static int polls(const sigset_t *mask, int millis)
{
    struct timespec time = { millis / 1000, millis % 1000 * 1000000 };
    struct pollfd polled = { watched[0], POLLIN, 0 };

    return ppoll(&polled, 1, millis < 0 ? NULL : &time, mask);
}

static int selects(const sigset_t *mask, int millis)
{
    struct timespec time = { millis / 1000, millis % 1000 * 1000000 };
    fd_set set;

    FD_ZERO(&set);
    FD_SET(watched[0], &set);
    return pselect(watched[0] + 1, &set, NULL, NULL, millis < 0 ? NULL : &time, mask);
}

static int waits_for_events(const sigset_t *mask, int millis)
{
    struct epoll_event event;

    return epoll_pwait(polled_set, &event, 1, millis, mask);
}

static int (*const masked_calls[])(const sigset_t *, int) = { polls, selects, waits_for_events };

static __thread volatile int own_handled;
static sem_t may_go_on;

static void on_masked(int signal)
{
    (void)signal;
    own_handled++;
    sem_post(&handled);
}

static int is_pending(int signal)
{
    sigset_t set;

    CHECK(sigpending(&set) == 0);
    return sigismember(&set, signal);
}

static void *makes_masked(void *argument)
{
    int (*call)(const sigset_t *, int) = *(int (*const *)(const sigset_t *, int))argument;
    sigset_t none = set_of(0, 0), one = set_of(SIGUSR1, 0);
    char byte;

    set_mask(SIG_BLOCK, SIGUSR1, 0);
    own_handled = 0;
    /* It comes while the thread waits. */
    sem_post(&begun);
    CHECK(call(&none, -1) == -1 && errno == EINTR && own_handled == 1);
    CHECK(call(&none, 2) == 0 && call(&one, 0) == 0);
    /* It has come before. */
    sem_post(&begun);
    while (sem_wait(&may_go_on) != 0)
        ;
    CHECK(is_pending(SIGUSR1) && call(&one, 2) == 0 && own_handled == 1);
    CHECK(call(&none, -1) == -1 && errno == EINTR && own_handled == 2 && !is_pending(SIGUSR1));
    /* It does not come if there is something else to be returned. */
    CHECK(write(watched[1], "", 1) == 1 && pthread_kill(pthread_self(), SIGUSR1) == 0);
    for (int i = 0; i < 100; i++)
        CHECK(call(&none, -1) == 1 && own_handled == 2 && is_pending(SIGUSR1));
    rest(1000);
    CHECK(is_pending(SIGUSR1) && read(watched[0], &byte, 1) == 1);
    CHECK(call(&none, -1) == -1 && errno == EINTR && own_handled == 3);
    return argument;
}

static void all_masks(void)
{
    struct epoll_event event = { .events = EPOLLIN };

    handle_by(SIGUSR1, on_masked, SA_RESTART);
    CHECK(pipe(watched) == 0 && (polled_set = epoll_create1(0)) >= 0);
    CHECK(epoll_ctl(polled_set, EPOLL_CTL_ADD, watched[0], &event) == 0);
    for (size_t i = 0; i < sizeof masked_calls / sizeof *masked_calls; i++) {
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, makes_masked, (void *)&masked_calls[i]) == 0);
        while (sem_wait(&begun) != 0)
            ;
        rest(2000);
        send_to(thread);
        while (sem_wait(&begun) != 0)
            ;
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        sem_post(&may_go_on);
        join(thread);
        while (sem_trywait(&handled) == 0)
            ;
    }
}

static void prepare(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int n = 0;

    CHECK(mkdtemp(folder) != NULL);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK(mkfifo(fifo, 0600) == 0);
    CHECK((file = open(path, O_RDWR | O_CREAT, 0600)) >= 0 && (other = open(path, O_RDWR)) >= 0);
    CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0 && (semaphores = semget(IPC_PRIVATE, 1, 0600)) >= 0);
    CHECK(pipe(ends) == 0 && pipe(child_ends) == 0 && (stream = fdopen(ends[0], "r")) != NULL);
    CHECK(sem_init(&shared, 1, 0) == 0);
    /* As many connections as are not accepted, so that the next one waits. */
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    CHECK((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0);
    do {
        CHECK(n < 8 && (connected[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) >= 0);
    } while (connect(connected[n++], (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(errno == EAGAIN);
}

static void clean(void)
{
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    snprintf(path, sizeof path, "rm -r %s", folder);
    CHECK(system(path) == 0);
}

int main(void)
{
    alarm(150);
    sem_init(&begun, 0, 0);
    sem_init(&handled, 0, 0);
    sem_init(&may_end, 0, 0);
    sem_init(&may_go_on, 0, 0);
    handle_by(SIGUSR2, make, SA_RESTART);
    prepare();
    all_calls();
    is_in_handler = 1;
    all_calls();
    all_masks();
    clean();
    printf("ok\n");
    return 0;
}
