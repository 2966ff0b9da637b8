/*
 * Processes of the box: starting one, finding those of a command, stopping them all.
 *
 * Start. vfork is fast: the child borrows our memory until it executes its program, so nothing is
 * copied. But it suspends us, and hostile code in the box could stop the child and with it us. So
 * the guest uses vfork only while no other process exists, and fork otherwise. Either way the child
 * reports what failed in memory that both share; the guest reads it when the child has ended.
 *
 * Tags. The processes of a command carry its tag: the hard limit RLIMIT_RTTIME, set before the
 * program is executed. It passes through fork, exec, setsid and the loss of all parents, and it
 * means nothing to processes without real-time scheduling, which is all of them. A process can only
 * lower it, and tags grow, so a process can only join the tree of an older command, with which it
 * then ends. The guest kills a process whose tag belongs to no command.
 *
 * Freeze. The FREEZE request stops every process but this one until the connection closes, so that
 * a copy of the box's files is consistent. Freezes nest; the processes continue when the last one
 * closes. A process that its owner had stopped before stays stopped. Nothing starts during a
 * freeze.
 *
 * What /proc shows is hostile: names hold any bytes, and a process may end between any two calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "thread.h"
#include "command.h"
#include "file.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

#define TAG_FIRST       ((rlim_t)1 << 40)
#define SAMPLES_AT_PIDS 5
#define SOCKET_SIZE     4096 /* about what the kernel needs for the socket itself */

#define FREEZE_LOOK_EACH   (1 * NS_PER_MS)
#define FREEZE_VFORK_GRACE (20 * NS_PER_MS)
#define FREEZE_GIVE_UP     (2 * NS_PER_S)
#define FREEZE_PIDS_BYTES  (1u << 20)
#define FREEZE_WAITING_MAX 64

void spawn_close(struct spawn *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->fds); i++)
        cleanup_close(&s->fds[i]);
}

/* Finds and executes the program as execvp does: a name with a slash is a path; any other is tried
 * in each folder of PATH. Returns only on failure, with the errno that a person should see: a
 * denied candidate says more than a missing one. */
static int spawn_exec(struct spawn *s)
{
    char *name = s->argv[0];
    size_t name_len = strlen(name);
    bool is_path = strchr(name, '/');
    const char *rest = SEARCH_PATH_DEFAULT;
    int code = ENOENT;
    char *const *env = s->envp;
    while (*env && strncmp(*env, "PATH=", 5) != 0)
        env++;
    if (*env)
        rest = *env + 5;
    while (rest && name_len > 0) {
        const char *folder = rest, *path = is_path ? name : s->candidate;
        size_t len = strcspn(folder, ":");
        rest = folder[len] && !is_path ? folder + len + 1 : NULL;
        if (!is_path) {
            if (len + 1 + name_len + 1 > sizeof s->candidate)
                continue;
            char *at = mempcpy(s->candidate, folder, len);
            if (len > 0) /* an empty folder is the current one */
                *at++ = '/';
            memcpy(at, name, name_len + 1);
        }
        execve(path, s->argv, s->envp);
        if (errno == ENOEXEC) { /* a script without #! is given to the shell, as execvp does */
            char **argv = s->argv - 1;
            argv[0] = (char *)"sh";
            argv[1] = (char *)path;
            execve("/bin/sh", argv, s->envp);
            argv[1] = name;
        }
        if (errno == EACCES)
            code = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG && errno != ELOOP)
            return errno;
    }
    return code;
}

/* In the child: all that comes before its program. Only system calls: its memory may be the
 * parent's. Returns the errno of what failed. */
static int spawn_child(struct spawn *s)
{
    struct spawn_report *report = s->report;
    report->call = "setsid";
    if (setsid() < 0)
        return errno;
    report->call = "setrlimit(RLIMIT_RTTIME)";
    const struct rlimit tag = {.rlim_cur = s->tag, .rlim_max = s->tag};
    if (setrlimit(RLIMIT_RTTIME, &tag) < 0)
        return errno;

    report->call = "dup2";
    for (int i = 0; i < 3; i++)
        if (s->fds[i] >= 0 && dup2(s->fds[i], i) < 0)
            return errno;
    report->call = "ioctl(TIOCSCTTY)";
    if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
        return errno;
    /* The further descriptors move to 3 and on, where others of them may be: aside first. */
    report->call = "dup2";
    int away[SPAWN_MORE_MAX];
    for (size_t i = 0; i < s->n_more; i++)
        if ((away[i] = fcntl(s->more[i], F_DUPFD, 3 + SPAWN_MORE_MAX)) < 0)
            return errno;
    for (size_t i = 0; i < s->n_more; i++)
        if (dup2(away[i], 3 + (int)i) < 0)
            return errno;
    if (!weakened("fds") && sys_close_range(3 + (unsigned)s->n_more, ~0U, 0) < 0)
        return errno;
    if (s->anchor && dup2(0, s->anchor) < 0)
        return errno;

    /* Only the soft limit: programs that need more (ulimit -n, JVMs, servers) raise it up to the
     * guest's own. */
    report->call = "setrlimit(RLIMIT_NOFILE)";
    struct rlimit files = {0};
    if (s->files && getrlimit(RLIMIT_NOFILE, &files) < 0)
        return errno;
    files.rlim_cur = s->files < files.rlim_max ? s->files : files.rlim_max;
    if (s->files && setrlimit(RLIMIT_NOFILE, &files) < 0)
        return errno;

    report->step = SPAWN_CWD;
    if (chdir(s->cwd) < 0 && !(s->or_cwd && (chdir(s->or_cwd) == 0 || chdir("/") == 0)))
        return errno;
    report->step = SPAWN_EXEC;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return spawn_exec(s);
}

pid_t spawn_start(struct spawn *s)
{
    /* No process can stop a child that is alone with us, and it writes only to the report. */
    pid_t pid = s->alone ? vfork() : fork(); /* NOLINT(clang-analyzer-*) */
    if (pid == 0) {
        s->report->error = spawn_child(s);
        _exit(127);
    }
    return pid < 0 ? -errno : pid;
}

/* A name that is a number above 0, else 0. */
static pid_t proc_number(const char *name)
{
    char *end;
    if (*name < '1' || *name > '9')
        return 0;
    long v = strtol(name, &end, 10);
    return *end ? 0 : (pid_t)v;
}

/* Walks all processes but process 1: proc_first, then proc_next until it returns 0. */
static pid_t proc_next(struct guest *g)
{
    for (struct dirent *e; (e = readdir(g->proc));) {
        pid_t pid = proc_number(e->d_name);
        if (pid > 1)
            return pid;
    }
    return 0;
}

static pid_t proc_first(struct guest *g)
{
    if (g->proc)
        rewinddir(g->proc);
    else
        g->proc = opendir("/proc");
    return g->proc ? proc_next(g) : 0;
}

int proc_parse_stat(const char *text, size_t n, uint64_t ticks_per_second, struct proc_stat *ret)
{
    /* Positions of the numbers after "pid (name) state", counted from the parent's. */
    enum { PARENT = 0, UTIME = 10, STIME = 11, CUTIME = 12, CSTIME = 13, THREADS = 16, NUMBERS };
    uint64_t v[NUMBERS];
    const char *name_end = memrchr(text, ')', n);
    if (!name_end || text + n - name_end < 4 || name_end[1] != ' ' || name_end[3] != ' ')
        return -EINVAL;
    const char *at = name_end + 4;
    for (size_t i = 0; i < NUMBERS; i++) {
        char *end;
        v[i] = strtoull(at, &end, 10);
        if (end == at)
            return -EINVAL;
        at = end;
    }
    uint64_t ticks = v[UTIME] + v[STIME] + v[CUTIME] + v[CSTIME];
    *ret = (struct proc_stat){.state = name_end[2],
                              .parent = (pid_t)v[PARENT],
                              .cpu_us = ticks * (1000000 / ticks_per_second),
                              .threads = v[THREADS]};
    return 0;
}

static ssize_t proc_read_file(int dir, const char *path, char *text, size_t size)
{
    _cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (n < 0)
        return -errno;
    text[n] = 0;
    return n;
}

/* Of a process in /proc, or of a thread in its task folder. */
static int proc_read_stat(DIR *dir, pid_t pid, struct proc_stat *ret)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    ssize_t n = proc_read_file(dirfd(dir), path, text, sizeof text);
    return n < 0 ? (int)n : proc_parse_stat(text, (size_t)n, (uint64_t)sysconf(_SC_CLK_TCK), ret);
}

/* Whether a process can write to a file through its memory: a shared, writable mapping. True if
 * that is unknown. */
static bool proc_maps_files(struct guest *g, pid_t pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "%d/maps", (int)pid);
    int fd = openat(dirfd(g->proc), path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT && errno != ESRCH;
    _cleanup_fclose_ FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return true;
    }
    /* Lines are "address perms offset dev inode path"; device 00:01 is shared memory without a
     * file. */
    for (bool begins = true; fgets(line, sizeof line, f); begins = strchr(line, '\n') != NULL) {
        char perms[8] = "", dev[16] = "";
        unsigned long long inode = 0;
        if (begins && sscanf(line, "%*s %7s %*s %15s %llu", perms, dev, &inode) == 3 &&
            perms[1] == 'w' && perms[3] == 's' && inode != 0 && strcmp(dev, "00:01") != 0)
            return true;
    }
    return false;
}

bool proc_stat_is_dead(const struct proc_stat *s)
{
    return memchr("ZXx", s->state, 3) && s->threads <= 1;
}

/* Every thread of it has stopped or died. */
static bool proc_is_stopped(struct guest *g, pid_t pid, const struct proc_stat *s)
{
    static const char STILL[] = "TtZXx";
    bool still = memchr(STILL, s->state, sizeof STILL - 1);
    if (!still || s->threads <= 1)
        return still;
    /* The leader may have stopped while another thread is still on its way out of a system call. */
    char path[32];
    snprintf(path, sizeof path, "%d/task", (int)pid);
    int fd = openat(dirfd(g->proc), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (!tasks) {
        cleanup_close(&fd);
        return fd < 0;
    }
    for (struct dirent *e; still && (e = readdir(tasks));) {
        struct proc_stat thread;
        pid_t tid = proc_number(e->d_name);
        if (tid && proc_read_stat(tasks, tid, &thread) >= 0)
            still = memchr(STILL, thread.state, sizeof STILL - 1);
    }
    closedir(tasks);
    return still;
}

/* Where the limit is already set, tags begin halfway below it: fewer, but they work the same. */
void ptree_init(struct guest *g)
{
    struct rlimit limit;
    g->next_tag = TAG_FIRST;
    g->tags_end = RLIM_INFINITY;
    if (getrlimit(RLIMIT_RTTIME, &limit) < 0)
        return;
    g->tags_end = limit.rlim_max;
    if (limit.rlim_max < 2 * TAG_FIRST)
        g->next_tag = limit.rlim_max / 2 + 1;
}

rlim_t ptree_tag_of(pid_t pid)
{
    struct rlimit limit;
    return prlimit(pid, RLIMIT_RTTIME, NULL, &limit) < 0 ? 0 : limit.rlim_max;
}

struct command *ptree_command(struct guest *g, rlim_t tag)
{
    struct command *c;
    LIST_FOREACH(c, &g->commands, link)
    if (c->tag == tag)
        return c;
    return NULL;
}

/*
 * The tag of a process as it counts here: 0 for one that is gone or is a worker of ours. A stray is
 * killed, and counts as part of every tree, since it may have come from any.
 */
static rlim_t ptree_tag_in_walk(struct guest *g, pid_t pid, rlim_t wanted)
{
    rlim_t tag = ptree_tag_of(pid);
    if (tag == 0 || worker_is(g, pid))
        return 0;
    const struct command *owner = ptree_command(g, tag);
    bool impostor = owner && owner->idle && owner->pid != pid;
    if ((tag == wanted || owner) && !impostor)
        return tag;
    bool awaits = false;
    for (const struct command *c = LIST_FIRST(&g->commands); c; c = LIST_NEXT(c, link)) {
        if (c->pid == pid) /* forked, but it has not set its tag yet */
            return c->tag;
        awaits |= c->arrival.fd >= 0;
    }
    /* A process that enters from outside (ADOPT) has no tag on its way; all that commands start
     * has, and cannot raise it. */
    if (tag >= g->tags_end && awaits)
        return 0;
    if (weakened("pid"))
        return 0;
    kill(pid, SIGKILL);
    return wanted;
}

unsigned ptree_signal(struct guest *g, rlim_t tag, int sig)
{
    unsigned count = 0;
    for (pid_t pid = proc_first(g); pid; pid = proc_next(g)) {
        struct proc_stat s;
        if (ptree_tag_in_walk(g, pid, tag) == tag && proc_read_stat(g->proc, pid, &s) >= 0 &&
            !proc_stat_is_dead(&s) && kill(pid, sig) == 0)
            count++;
    }
    return count;
}

unsigned ptree_kill(struct guest *g, const struct command *c)
{
    if (!g->has_children || weakened("tree-kill"))
        return 0;
    /* If no other command and no worker has processes, one system call, which no fork escapes,
     * replaces the walk. */
    if (!weakened("pid") && g->n_workers == 0 && LIST_FIRST(&g->commands) == c &&
        !LIST_NEXT(c, link))
        return kill(-1, SIGKILL) == 0;
    return ptree_signal(g, c->tag, SIGKILL);
}

/* Bytes of all TCP and UDP sockets of the box's network namespace. Counting stops above `enough`; 0
 * if they are not more than that. */
static uint64_t sockets_memory(uint64_t enough)
{
    static const char *const lists[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6",
                                        "/proc/self/net/udp", "/proc/self/net/udp6"};
    char line[512];
    unsigned long long sent, received, pages;
    uint64_t sum = 0;

    /* The kernel keeps the sum over all namespaces. It is mostly so small that no list need be
     * read. */
    _cleanup_fclose_ FILE *all = fopen("/proc/self/net/sockstat", "re");
    while (all && fgets(line, sizeof line, all)) {
        const char *at = strstr(line, " mem ");
        if (at && sscanf(at, " mem %llu", &pages) == 1)
            sum += pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    if (sum <= enough)
        return 0;

    /* Lines are "sl local remote state tx_queue:rx_queue …", numbers in hexadecimal. */
    sum = 0;
    for (size_t i = 0; sum <= enough && i < ARRAY_SIZE(lists); i++) {
        _cleanup_fclose_ FILE *f = fopen(lists[i], "re");
        while (sum <= enough && f && fgets(line, sizeof line, f))
            if (sscanf(line, " %*[0-9]: %*s %*s %*s %llx:%llx", &sent, &received) == 2)
                sum += SOCKET_SIZE + sent + received;
    }
    return sum;
}

enum wire_limit ptree_exceeds(struct guest *g, struct command *c)
{
    const struct command_limits *l = &c->limits;
    uint64_t cpu_us = c->cpu_us, pages = 0, tasks = 0, box_tasks = 1; /* threads; one is ours */
    for (pid_t pid = proc_first(g); pid; pid = proc_next(g)) {
        struct proc_stat s;
        rlim_t tag = ptree_tag_in_walk(g, pid, c->tag);
        if (proc_read_stat(g->proc, pid, &s) < 0)
            continue;
        box_tasks += s.threads;
        if (tag != c->tag)
            continue;
        tasks += s.threads;
        cpu_us += s.cpu_us;
        /* Resident memory that is its own: neither of files nor shared. */
        char path[32], text[256];
        unsigned long long resident, shared;
        snprintf(path, sizeof path, "%d/statm", (int)pid);
        if (proc_read_file(dirfd(g->proc), path, text, sizeof text) >= 0 &&
            sscanf(text, "%*u %llu %llu", &resident, &shared) == 2 && resident > shared)
            pages += resident - shared;
    }
    if (l->cpu_us && cpu_us > l->cpu_us)
        return WIRE_LIMIT_CPU;
    if (l->memory && pages * (uint64_t)sysconf(_SC_PAGESIZE) > l->memory)
        return WIRE_LIMIT_MEMORY;
    if (l->sockets && sockets_memory(l->sockets) > l->sockets)
        return WIRE_LIMIT_MEMORY;
    /* The limit on processes is the box's, so all are counted; a command answers for it if it holds
     * a good part of them. Only one that stays at the limit is a fork bomb. */
    bool at_limit = l->pids && box_tasks >= l->pids && tasks >= box_tasks / 4;
    c->samples_at_pids = at_limit ? c->samples_at_pids + 1 : 0;
    return c->samples_at_pids >= SAMPLES_AT_PIDS ? WIRE_LIMIT_PIDS : WIRE_LIMIT_NONE;
}

static void freeze_end(struct guest *g)
{
    struct freeze *z = &g->freeze;
    loop_timer_set(&g->loop, &z->timer, 0);
    /* The youngest first: a shell that continued before its child would see the child stopped, and
     * take it for a job that its user stopped. */
    _cleanup_buf_ struct buf pids = BUF_INIT(FREEZE_PIDS_BYTES);
    for (pid_t pid = g->has_children ? proc_first(g) : 0; pid; pid = proc_next(g)) {
        bool was_stopped = false;
        for (size_t at = 0; !was_stopped && at < z->stopped_before.len; at += sizeof pid)
            was_stopped = memcmp(z->stopped_before.data + at, &pid, sizeof pid) == 0;
        if (!was_stopped)
            buf_append(&pids, &pid, sizeof pid);
    }
    for (size_t at = pids.len; at > 0; at -= sizeof(pid_t)) {
        pid_t pid;
        memcpy(&pid, pids.data + at - sizeof pid, sizeof pid);
        kill(pid, SIGCONT);
    }
    buf_free(&z->stopped_before);
    z->state = FREEZE_OFF;
    z->count = 0;
    struct command *c;
    LIST_FOREACH(c, &g->commands, link) /* logs are written again */
    if (c->log.pipe.fd >= 0 && loop_watch(&g->loop, &c->log.pipe, POLLIN) < 0)
        loop_close(&g->loop, &c->log.pipe);
    worker_kill_stopped(g);
}

/* Whether no process moves any more; counts those that live. */
static bool freeze_all_stopped(struct guest *g)
{
    struct proc_stat s;
    pid_t waiting[FREEZE_WAITING_MAX]; /* they sleep without taking signals */
    size_t n_waiting = 0;
    unsigned moving = 0;
    g->freeze.count = 0;
    for (pid_t pid = proc_first(g); pid; pid = proc_next(g)) {
        if (proc_read_stat(g->proc, pid, &s) < 0 || proc_stat_is_dead(&s))
            continue;
        g->freeze.count++;
        if (proc_is_stopped(g, pid, &s))
            continue;
        if (s.state == 'D' && s.threads == 1 && n_waiting < FREEZE_WAITING_MAX)
            waiting[n_waiting++] = pid;
        else
            moving++;
    }
    if (moving || !n_waiting)
        return moving == 0;

    /* The caller of vfork takes no signal until its child executes or ends, and that child has
     * stopped: neither moves. So one that waits like that and has a stopped child counts as
     * stopped, after a grace for those that wait for a disk. */
    if (clock_now() - g->freeze.began <= FREEZE_VFORK_GRACE)
        return false;
    size_t left = n_waiting;
    for (pid_t pid = proc_first(g); left && pid; pid = proc_next(g)) {
        if (proc_read_stat(g->proc, pid, &s) < 0 || s.state != 'T')
            continue;
        for (size_t i = 0; i < n_waiting; i++)
            if (waiting[i] == s.parent) {
                waiting[i] = 0;
                left--;
                break;
            }
    }
    return left == 0;
}

static void freeze_answer(struct guest *g)
{
    struct freeze *z = &g->freeze;
    for (size_t i = 0; i < z->n_holders; i++) {
        struct conn *conn = z->holders[i];
        if (conn->data) /* already answered */
            continue;
        struct buf *b = &conn->out;
        size_t at = wire_begin(b, WIRE_RESULT);
        wire_put_u64(b, WIRE_K_COUNT, z->count);
        wire_put_u64(b, WIRE_K_MAPPED, z->mapped);
        wire_end(b, at);
        conn->data = g;
        conn_push(conn);
    }
}

static void freeze_timer_fire(struct loop_timer *t)
{
    struct guest *g = CONTAINER_OF(t, struct guest, freeze.timer);
    struct freeze *z = &g->freeze;
    int64_t now = clock_now();
    if (g->notify.busy) /* a folder is being moved, which has its own time limit */
        z->began = now;
    if ((!g->has_children || freeze_all_stopped(g)) && !g->notify.busy) {
        z->state = FREEZE_ON;
        /* Writes to a mapped file may leave no trace in its times (diff/copy.c). */
        z->mapped = false;
        for (pid_t pid = g->has_children ? proc_first(g) : 0; pid && !z->mapped; pid = proc_next(g))
            z->mapped = proc_maps_files(g, pid);
        freeze_answer(g);
    } else if (now - z->began > FREEZE_GIVE_UP) {
        freeze_end(g);
        while (z->n_holders)
            conn_error(z->holders[--z->n_holders], ETIMEDOUT,
                       "could not stop all processes of the box within 2 seconds");
    } else {
        kill(-1, SIGSTOP);
        loop_timer_set(&g->loop, t, now + FREEZE_LOOK_EACH);
    }
}

static void freeze_closed(struct conn *conn)
{
    struct freeze *z = &conn->guest->freeze;
    for (size_t i = 0; i < z->n_holders; i++)
        if (z->holders[i] == conn) {
            z->holders[i] = z->holders[--z->n_holders];
            break;
        }
    if (z->n_holders == 0)
        freeze_end(conn->guest);
}

void freeze_request(struct conn *conn, const struct wire_frame *f)
{
    static const struct conn_user user = {.closed = freeze_closed};
    struct guest *g = conn->guest;
    struct freeze *z = &g->freeze;
    if (z->n_holders == FREEZE_HOLDERS_MAX) {
        conn_error(conn, EAGAIN, "too many snapshots of the box are being taken");
        return;
    }
    pid_t pid = proc_first(g);
    if (!g->proc) { /* without it nothing shows whether processes have stopped */
        conn_error(conn, errno, "cannot read /proc: %s", strerror(errno));
        return;
    }
    conn->user = &user;
    z->holders[z->n_holders++] = conn;
    if (z->state == FREEZE_ON)
        freeze_answer(g);
    if (z->state != FREEZE_OFF)
        return;
    z->state = FREEZE_STOPPING;
    z->began = clock_now();
    z->stopped_before = BUF_INIT(FREEZE_PIDS_BYTES);
    z->timer.fire = freeze_timer_fire;
    struct proc_stat s;
    for (; g->has_children && pid; pid = proc_next(g))
        if (proc_read_stat(g->proc, pid, &s) >= 0 && s.state == 'T')
            buf_append(&z->stopped_before, &pid, sizeof pid);
    if (g->has_children)
        kill(-1, SIGSTOP);
    freeze_timer_fire(&z->timer);
}
