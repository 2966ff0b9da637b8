/*
 * hutch under valgrind, which knows neither clone with namespaces nor the mount API.
 *
 * Linked (by --wrap) only into a build with -Dglibc=true. What valgrind does not know is done by a
 * child that leaves valgrind: it writes its memory into an image, executes the same program, which
 * then runs on the bare processor since valgrind does not follow children, lays the memory out
 * again at the same addresses, and goes on where it was. The program is linked at a fixed address
 * for that, so its code and constants are where they were; and it goes on with a C library of its
 * own, which is right because the launcher's child makes nothing but system calls.
 *
 * Without valgrind all of this does nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/valgrind.h>

#include "io.h"
#include "banned.h"

#define IMAGE_VARIABLE "HUTCH_VALGRIND_IMAGE"
#define REGIONS_MAX    400
#define FDS_MAX        1024
#define PAGE           4096u

/* Frames of two processes with two stack guards: nothing here may compare them. */
#define UNGUARDED __attribute__((noinline, no_stack_protector))

struct region {
    uintptr_t at;
    size_t size;
    off_t offset;
};

/* The image's first pages; the memory follows. */
struct image {
    void *frame[5]; /* of __builtin_setjmp */
    size_t n_regions;
    struct region regions[REGIONS_MAX];
    bool close_on_exec[FDS_MAX];
};
#define IMAGE_HEADER ((sizeof(struct image) + PAGE - 1) / PAGE * PAGE)

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_clone(int (*run)(void *), void *stack, int flags, void *data, ...);
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *data, ...);

/* Writable memory of no file, and not of valgrind itself, which lies between the program's heap and
 * its stack. */
static void find_regions(struct image *i)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], rights[8];
    uintptr_t from, to, inode;
    off_t offset = IMAGE_HEADER;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %" SCNuPTR, &from, &to, rights,
                   &inode) != 4)
            continue;
        bool ours = from < 0x58000000 || (from >= 0x1ff0000000 && to <= 0x2000000000);
        if (!ours || inode || strncmp(rights, "rw", 2) != 0 || i->n_regions == REGIONS_MAX)
            continue;
        i->regions[i->n_regions++] = (struct region){from, to - from, offset};
        offset += (off_t)(to - from);
    }
    if (maps)
        fclose(maps);
}

static void keep_descriptors(struct image *i)
{
    for (int fd = 3; fd < FDS_MAX; fd++) {
        int flags = fcntl(fd, F_GETFD);
        i->close_on_exec[fd] = flags >= 0 && flags & FD_CLOEXEC;
        if (i->close_on_exec[fd])
            fcntl(fd, F_SETFD, 0);
    }
}

/* In the child: becomes the program again, outside of valgrind. */
_Noreturn UNGUARDED static void leave(struct image *i)
{
    char program[4096] = {0}, variable[64];
    keep_descriptors(i);
    int fd = memfd_create("image", 0);
    find_regions(i);
    if (fd < 0 || pwrite(fd, i, sizeof *i, 0) != (ssize_t)sizeof *i)
        _exit(3);
    for (size_t k = 0; k < i->n_regions; k++)
        if (pwrite(fd, (void *)i->regions[k].at, i->regions[k].size, i->regions[k].offset) < 0)
            _exit(3);
    snprintf(variable, sizeof variable, IMAGE_VARIABLE "=%d", fd);
    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        execve(program, (char *[]){program, NULL}, (char *[]){variable, NULL});
    _exit(3);
}

/* The first thing in every program that was linked with this: nothing, unless it is such a
 * child. */
__attribute__((constructor)) UNGUARDED static void arrive(void)
{
    static struct image image;
    const char *text = getenv(IMAGE_VARIABLE);
    if (!text)
        return;
    int fd = atoi(text);
    if (pread(fd, &image, sizeof image, 0) != (ssize_t)sizeof image)
        _exit(3);
    /* What this process has there itself (its own writable data) it keeps. */
    for (size_t i = 0; i < image.n_regions; i++)
        mmap((void *)image.regions[i].at, image.regions[i].size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, image.regions[i].offset);
    for (int i = 3; i < FDS_MAX; i++)
        if (image.close_on_exec[i])
            fcntl(i, F_SETFD, FD_CLOEXEC);
    close(fd);
    __builtin_longjmp(image.frame, 1);
}

/* As fork, but the child runs outside of valgrind. */
UNGUARDED static pid_t fork_natively(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct image *i = calloc(1, sizeof *i);
    if (!i)
        _exit(3);
    if (__builtin_setjmp(i->frame) == 0)
        leave(i);
    return 0;
}

struct answer {
    long value;
    int code;
};

/* One system call by a native child; a descriptor that it made comes back over a socket. */
UNGUARDED static long call_natively(long number, const long a[6], bool makes_fd)
{
    int ends[2], fd = -1;
    size_t n_fds = 0;
    struct answer answer = {.value = -1, .code = EIO};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    pid_t pid = fork_natively();
    if (pid == 0) {
        answer.value = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        answer.code = errno;
        fd = (int)answer.value;
        io_send_fds(ends[1], &answer, sizeof answer, &fd, makes_fd && fd >= 0);
        _exit(0);
    }
    close(ends[1]);
    io_recv_fds(ends[0], &answer, sizeof answer, &fd, 1, &n_fds, 0);
    close(ends[0]);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    errno = answer.code;
    return n_fds ? fd : answer.value;
}

UNGUARDED long __wrap_syscall(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (RUNNING_ON_VALGRIND && number == SYS_clone3)
        return fork_natively();
    if (RUNNING_ON_VALGRIND &&
        (number == SYS_openat2 || number == SYS_open_tree || number == SYS_pidfd_open))
        return call_natively(number, a, true);
    if (RUNNING_ON_VALGRIND && (number == SYS_mount_setattr || number == SYS_pidfd_send_signal))
        return call_natively(number, a, false);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A process that shares our memory and only waits may as well have a copy of it. */
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *data, ...)
{
    if (!RUNNING_ON_VALGRIND)
        return __real_clone(run, stack, flags, data);
    pid_t pid = (pid_t)__real_syscall(SYS_clone, flags & ~CLONE_VM, NULL, NULL, NULL, 0);
    if (pid == 0)
        _exit(run(data));
    return pid;
}
