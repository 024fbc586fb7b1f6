// The first process of a machine that has nothing but test programs. Mounts what they need, runs the commands
// in `/commands`, one a line, and switches the machine off.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void mounted(const char *kind, const char *at) {
    mkdir(at, 0777);
    if (mount(kind, at, kind, 0, NULL))
        perror(at);
}

static void run(char *line) {
    char *words[32] = {0};
    int status = -1;
    size_t count = 0;
    for (char *word = strtok(line, " \n"); word && count < 31; word = strtok(NULL, " \n"))
        words[count++] = word;
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("%s has ended with %d\n", words[0], status);
}

int main(void) {
    char line[1000];
    mounted("proc", "/proc");
    mounted("sysfs", "/sys");
    mounted("devtmpfs", "/dev");
    mounted("tmpfs", "/tmp");
    mounted("tmpfs", "/dev/shm");
    setvbuf(stdout, NULL, _IONBF, 0);
    setenv("RUST_BACKTRACE", "0", 1);
    FILE *commands = fopen("/commands", "r");
    while (commands && fgets(line, sizeof line, commands))
        run(line);
    reboot(RB_POWER_OFF);
}
