/*
 * Leaves programs with a set-user-id or set-group-id bit in the current folder, by every call that
 * sets a mode. Whose they are is the host's to say: in direct mode they belong to the owner of the
 * folder. Each has content before its mode is set where that can be, since writing takes the bits
 * away.
 *
 *     suid
 */
#include <linux/openat2.h>

#include "hostile.h"

#define MODE 06755

static int program(const char *name, mode_t mode)
{
    int fd = open(name, O_RDWR | O_CREAT, mode);

    if (fd >= 0 && write(fd, "#!/bin/sh\n", 10) == 10)
        printf("NOTE made %s\n", name);
    return fd;
}

/* Made with the bits, filled through a mapping: no write() takes them away. */
static void program_by_mapping(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT, MODE);
    char *p;

    posix_fallocate(fd, 0, 4096);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        memcpy(p, "#!/bin/sh\n", 10);
}

static long chmod_int80(const char *name, int mode)
{
    static char low[64]; /* not on the stack: the 32-bit entry takes addresses below 4 GB */
    pid_t pid = fork();
    long r;

    strcpy(low, name);
    if (pid == 0) {
        __asm__ volatile("int $0x80"
                         : "=a"(r)
                         : "a"(15), "b"(low), "c"(mode)
                         : "memory", "r8", "r9", "r10", "r11");
        _exit(0);
    }
    return waitpid(pid, NULL, 0);
}

int main(void)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = MODE};

    umask(0);
    program("by-chmod", 0755);
    chmod("by-chmod", MODE);
    fchmod(program("by-fchmod", 0755), MODE);
    program("by-fchmodat", 0755);
    fchmodat(AT_FDCWD, "by-fchmodat", MODE, 0);
    program("by-fchmodat2", 0755);
    syscall(452, AT_FDCWD, "by-fchmodat2", MODE, 0);
    program("by-int80", 0755);
    chmod_int80("by-int80", MODE);
    program("by-high-bits", 0755);
    syscall(SYS_chmod, "by-high-bits", MODE | 1UL << 40);
    program("by-open", MODE);
    openat(AT_FDCWD, "by-openat", O_WRONLY | O_CREAT, MODE);
    creat("by-creat", MODE);
    mknod("by-mknod", S_IFREG | MODE, 0);
    syscall(SYS_openat2, AT_FDCWD, "by-openat2", &how, sizeof(how));
    program_by_mapping("by-mapping");
    return verdict();
}
