/*
 * Uses up what a host has. Every bomb stops at a ceiling that is far above the limit under test and
 * harmless to a host, says BREACH there, and says on the way how far it got.
 *
 *     bomb KIND CEILING [FOLDER]
 */
#include <netinet/in.h>
#include <pty.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>

#include "hostile.h"

static long ceiling;
static const char *folder = "/tmp";

static int reached(const char *unit, long n)
{
    printf("REACHED %ld %s (%s)\n", n, unit, strerrorname_np(errno));
    if (n >= ceiling)
        breach("%ld %s", n, unit);
    return verdict();
}

/* Children that stay: counted through a pipe that they all hold. */
static int forks(void)
{
    long n = 0;

    while (n < ceiling) {
        pid_t pid = fork();

        if (pid < 0)
            break;
        if (pid == 0)
            for (;;)
                pause();
        n++;
    }
    reached("processes", n);
    sleep(1);
    return verdict();
}

/* Each child forks as well, without end; the ceiling is one shared counter. */
static int forks_deep(void)
{
    long *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    while (__atomic_load_n(made, __ATOMIC_SEQ_CST) < ceiling) {
        if (fork() == 0)
            __atomic_add_fetch(made, 1, __ATOMIC_SEQ_CST);
        else
            usleep(500);
    }
    write(1, "BREACH endless forking\n", 23);
    return 1;
}

static long eat(long megabytes, long *eaten)
{
    long n;

    for (n = 0; n < megabytes; n++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
            break;
        memset(p, 1, 1 << 20);
        __atomic_add_fetch(eaten, 1, __ATOMIC_SEQ_CST);
    }
    return n;
}

static long *shared_counter(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Holds all of it for a moment at the ceiling: a limit that samples must have seen it by then. */
static int memory(void)
{
    long *eaten = shared_counter();

    eat(ceiling, eaten);
    if (*eaten >= ceiling)
        sleep(2);
    return reached("megabytes", *eaten);
}

/* The same in eight processes, none of which is large. */
static int memory_split(void)
{
    long *eaten = shared_counter();

    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            eat(ceiling / 8, eaten);
            for (;;)
                pause();
        }
    for (int i = 0; i < 60 && *eaten < ceiling / 8 * 8; i++)
        usleep(100000);
    if (*eaten >= ceiling / 8 * 8)
        sleep(2);
    ceiling = ceiling / 8 * 8;
    return reached("megabytes", *eaten);
}

/* Memory that no process maps: files in memory, and shared memory that is detached again. */
static int memory_files(void)
{
    static char block[1 << 20];
    long n = 0;

    memset(block, 1, sizeof(block));
    while (n < ceiling) {
        int fd = memfd_create("bomb", 0);

        if (fd < 0 || write(fd, block, sizeof(block)) != sizeof(block))
            break;
        n++;
    }
    return reached("megabytes in memory files", n);
}

static int memory_segments(void)
{
    long n = 0;

    for (; n < ceiling; n += 8) {
        int id = shmget(IPC_PRIVATE, 8 << 20, IPC_CREAT | 0600);
        void *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

        if (p == (void *)-1)
            break;
        memset(p, 1, 8 << 20);
        shmdt(p);
    }
    return reached("megabytes in shared memory", n);
}

static int fill(void)
{
    static char block[1 << 20];
    char path[PATH_MAX];
    long n = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/bomb", folder);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) {
        perror(path);
        return 2;
    }
    memset(block, 'b', sizeof(block));
    while (n < ceiling && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
        n++;
    return reached("megabytes of file", n);
}

static int inodes(void)
{
    char path[PATH_MAX];
    long n;

    for (n = 0; n < ceiling; n++) {
        int fd;

        snprintf(path, sizeof(path), "%s/inode-%ld", folder, n);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    return reached("files made", n);
}

static int descriptors(void)
{
    long n = 0;

    while (n < ceiling && dup(0) >= 0)
        n++;
    return reached("descriptors", n + 3);
}

static void hold(void)
{
    char byte;

    while (read(0, &byte, 1) > 0)
        ;
}

/* Terminals, held by as many processes as it takes. */
static int terminals(void)
{
    long *made = shared_counter();
    int pipes[2];
    char byte;

    pipe(pipes);
    for (int i = 0; i < 16; i++)
        if (fork() == 0) {
            close(pipes[0]);
            while (*made < ceiling && posix_openpt(O_RDWR | O_NOCTTY) >= 0)
                __atomic_add_fetch(made, 1, __ATOMIC_SEQ_CST);
            write(pipes[1], "x", 1);
            for (;;)
                pause();
        }
    for (int i = 0; i < 16; i++)
        read(pipes[0], &byte, 1);
    reached("terminals", *made);
    hold();
    return verdict();
}

/* What the kernel counts per user, across boxes: held until the input ends. */
static int watches(void)
{
    long n = 0;

    while (n < ceiling && inotify_init1(0) >= 0)
        n++;
    reached("inotify instances", n);
    hold();
    return verdict();
}

/* Descriptors on their way through sockets: they are in no process's table. */
static bool send_descriptors(int sock)
{
    char control[CMSG_SPACE(250 * sizeof(int))] = "", byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(250 * sizeof(int));
    memset(CMSG_DATA(c), 0, 250 * sizeof(int)); /* standard input, 250 times */
    return sendmsg(sock, &msg, MSG_DONTWAIT) == 1;
}

static int in_flight(void)
{
    int ends[2];
    long n = 0;

    while (n < ceiling && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 &&
           send_descriptors(ends[0]))
        n += 250;
    reached("descriptors in flight", n);
    hold();
    return verdict();
}

/* What the kernel counts per user: message queues of the usual size, timers (a pending signal
 * each), and the pages that pipes may have, full or not. */
static int timers(void)
{
    timer_t timer;
    long n = 0;

    while (n < ceiling && timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0)
        n++;
    reached("timers", n);
    hold();
    return verdict();
}

static int pipe_pages(void)
{
    int ends[2];
    long n = 0;

    while (n < ceiling && pipe(ends) == 0 && fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) > 0)
        n++;
    reached("large pipes", n);
    hold();
    return verdict();
}

/* Bytes that the kernel holds for a socket. */
static long held_by(int sock)
{
    uint32_t info[9] = {0}; /* SK_MEMINFO_… */
    socklen_t size = sizeof(info);

    getsockopt(sock, SOL_SOCKET, SO_MEMINFO, info, &size);
    return (long)info[0] + info[2] + info[5];
}

/* Two ends of a connection through lo, with buffers as large as the host lets them be. */
static bool connect_ends(int type, int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int most = 1 << 30, listener = socket(AF_INET, type, 0);

    ends[0] = socket(AF_INET, type, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &most, sizeof(most));
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof(most));
    if (bind(listener, (struct sockaddr *)&at, size) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) < 0 ||
        (type == SOCK_STREAM && listen(listener, 1) < 0) ||
        connect(ends[0], (struct sockaddr *)&at, size) < 0)
        return false;
    ends[1] = type == SOCK_STREAM ? accept(listener, NULL, NULL) : dup(listener);
    close(listener);
    return ends[1] >= 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

/* Socket buffers through lo that nobody reads, in MB; not faster than a sampler can follow. */
static int sockets(int type)
{
    static char block[60000];
    long bytes = 0, last = -1;
    int ends[2], idle = 0;

    while (bytes >> 20 < ceiling && idle < 8 && connect_ends(type, ends)) {
        for (int i = 0; i < 400 && send(ends[0], block, sizeof(block), 0) > 0; i++)
            if (i % 16 == 15)
                usleep(4000);
        bytes += held_by(ends[0]) + held_by(ends[1]);
        idle = bytes - last < 65536 ? idle + 1 : 0;
        last = bytes;
    }
    printf("REACHED %ld MB of socket buffers\n", bytes >> 20);
    sleep(2);
    if (bytes >> 20 >= ceiling)
        breach("%ld MB of socket buffers", bytes >> 20);
    return verdict();
}

static int tcp(void)
{
    return sockets(SOCK_STREAM);
}

static int udp(void)
{
    return sockets(SOCK_DGRAM);
}

/* Pipes, each as large as it may be and full. */
static int pipes(void)
{
    static char block[1 << 20];
    long *made = shared_counter();

    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            int ends[2];

            while (*made < ceiling && pipe2(ends, O_NONBLOCK) == 0) {
                long n;

                fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
                n = write(ends[1], block, sizeof(block));
                __atomic_add_fetch(made, n > 0 ? n >> 10 : 0, __ATOMIC_SEQ_CST);
            }
            for (;;)
                pause();
        }
    sleep(2);
    return reached("kilobytes in pipes", *made);
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {{"forks", forks},
             {"forks-deep", forks_deep},
             {"memory", memory},
             {"fill", fill},
             {"inodes", inodes},
             {"descriptors", descriptors},
             {"terminals", terminals},
             {"pipes", pipes},
             {"memory-split", memory_split},
             {"memory-files", memory_files},
             {"watches", watches},
             {"in-flight", in_flight},
             {"timers", timers},
             {"pipe-pages", pipe_pages},
             {"tcp", tcp},
             {"udp", udp},
             {"memory-segments", memory_segments}};

int main(int argc, char **argv)
{
    setbuf(stdout, NULL);
    ceiling = atol(argv[2]);
    if (argc > 3)
        folder = argv[3];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(argv[1], kinds[i].name))
            return kinds[i].run();
    return 2;
}
