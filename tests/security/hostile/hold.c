/*
 * Reaches for a file of the host that it may read: holds locks on it, and watches who opens it.
 * Says "ready", waits for a line on stdin, and says what it saw. The locks end with it; the test
 * made the file.
 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "hostile.h"

int main(int argc, char **argv)
{
    char line[16], events[4096];
    int fd = open(argv[1], O_RDONLY);
    int watch = inotify_init1(IN_NONBLOCK);
    struct flock all = {.l_type = F_RDLCK};
    if (fd < 0 || watch < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fcntl(fd, F_SETLK, &all) < 0) {
        perror(argv[1]);
        return 1;
    }
    if (inotify_add_watch(watch, argv[1], IN_ALL_EVENTS) < 0) {
        perror("inotify_add_watch");
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    if (read(watch, events, sizeof events) > 0)
        printf("BREACH it saw the host open %s\n", argv[1]);
    return 0;
}
