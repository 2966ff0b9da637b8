/*
 * Types into the terminal that it was started from: TIOCSTI and TIOCLINUX, also with bits set above
 * the 32 that the kernel looks at, and by the 32-bit entry.
 *
 *     terminal TEXT
 */
#include "hostile.h"

#define HIGH (1UL << 32)

static long ioctl_int80(int fd, unsigned cmd, void *arg)
{
    long r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(54), "b"(fd), "c"(cmd), "d"(arg)
                     : "memory", "r8", "r9", "r10", "r11");
    if ((int)r < 0)
        errno = -(int)r;
    return (int)r < 0 ? -1 : 0;
}

static char byte[2];

static void type(int fd, const char *text)
{
    static const unsigned long commands[] = {0x5412, 0x5412 | HIGH, 0x5412 | (HIGH << 31), 0x541C,
                                             0x541C | HIGH};

    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
        for (const char *p = text; *p; p++) {
            byte[0] = *p;
            attempt(syscall(SYS_ioctl, fd, commands[i], byte), "ioctl %d %#lx", fd, commands[i]);
        }
}

static void type_int80(int fd, const char *text)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        byte[0] = *text;
        attempt(ioctl_int80(fd, 0x5412, byte), "int80 ioctl %d TIOCSTI", fd);
        _exit(breaches);
    }
    waitpid(pid, &status, 0);
    breaches += WIFEXITED(status) && WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int tty = open("/dev/tty", O_RDWR);

    setbuf(stdout, NULL);
    if (!isatty(0))
        printf("NOTE standard input is no terminal\n");
    type(0, argv[1]);
    type_int80(0, argv[1]);
    if (tty >= 0)
        type(tty, argv[1]);
    return verdict();
}
