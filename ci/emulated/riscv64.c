// A `sigaction` for programs under the emulator. On this architecture, the kernel's structure has no restorer
// before the mask. qemu-user 7.2 expects one, and so takes a handler's mask from the word behind it. Here,
// both words have the mask. The control is `a_handler_has_the_mask_that_was_asked_for` in tests/emulator.rs.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct action {
    void (*handler)(int);
    unsigned long flags, mask, again;
};

// Weak: with the feature `interpose`, programs have one of their own.
__attribute__((weak)) int sigaction(int signal, const struct sigaction *new, struct sigaction *old) {
    struct action from = {0}, to = {0};
    if (signal == 32 || signal == 33) { // the C library's own
        errno = EINVAL;
        return -1;
    }
    if (new) {
        from.handler = new->sa_handler;
        from.flags = (unsigned int)new->sa_flags;
        memcpy(&from.mask, &new->sa_mask, sizeof from.mask);
        from.again = from.mask;
    }
    if (syscall(SYS_rt_sigaction, signal, new ? &from : NULL, old ? &to : NULL, sizeof from.mask))
        return -1;
    if (old) {
        old->sa_handler = to.handler;
        old->sa_flags = (int)to.flags;
        sigemptyset(&old->sa_mask);
        memcpy(&old->sa_mask, &to.mask, sizeof to.mask);
    }
    return 0;
}
