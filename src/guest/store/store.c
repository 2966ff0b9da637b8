/*
 * The store process: watches how much the disk stores of one family of boxes hold, and removes
 * them.
 *
 * It is a process of its own for two reasons. It outlives the owner of the boxes by the moment that
 * removing their files takes, however the owner ended. And it enters the family's user namespace,
 * where it may look into folders that the box made unreadable (an ordinary user could not).
 *
 * Counting every file takes a tenth of a second for 100,000 of them. So the free space of the
 * filesystem decides when to count: a store cannot have grown by more than the free space fell
 * since the last count, unless others freed space; so it also counts again from time to time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "store.h"
#include "store_wire.h"
#include "thread.h"
#include "banned.h"

#define LOOK_MIN_MS   20
#define LOOK_MAX_MS   250
#define GROWTH_PER_MS (4ULL << 20) /* 4 GB/s: faster than a box fills the page cache */
#define STEP_MIN      (32ULL << 20)
#define REST          10             /* time between two counts, in durations of one */
#define RECOUNT_NS    (5 * NS_PER_S) /* others may have freed what the box took */
/* Free space that boxes leave to the host: this, or 5 % if less. */
#define FLOOR_BYTES  (1ULL << 30)
#define FLOOR_INODES 20000ULL
/* The owner stops the command first, which is the kinder way. */
#define KILL_AFTER_NS (4 * NS_PER_S)
#define DEPTH_MAX     16384
#define SPARE_FDS     64
#define FNV_OFFSET    0xcbf29ce484222325 /* of the 64-bit hash FNV-1a */
#define FNV_PRIME     0x100000001b3

struct store_usage {
    uint64_t bytes, inodes;
};

struct store_levels {
    DIR **dirs;
    size_t n, room;
};

/* A folder that vanished or is a folder no more is no error: the box is running. */
static int store_levels_enter(struct store_levels *l, int parent, const char *name)
{
    struct rlimit files;
    size_t max = 1; /* as many levels as descriptors can be open */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > SPARE_FDS)
        max = files.rlim_cur - SPARE_FDS < DEPTH_MAX ? files.rlim_cur - SPARE_FDS : DEPTH_MAX;
    if (l->n == max)
        return -EMFILE;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        DIR **dirs = realloc(l->dirs, room * sizeof *dirs);
        if (!dirs)
            return -ENOMEM;
        l->dirs = dirs;
        l->room = room;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? -EMFILE : 0;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return -ENOMEM;
    }
    l->dirs[l->n++] = d;
    return 0;
}

/*
 * Walks a store, or the folder `name` in it, while its box may be moving folders around. One open
 * folder per level: a walk back up by ".." could leave the store when a folder is moved.
 *
 * With ret_usage it counts what the store holds. A file with several names counts once, in equal
 * parts: all its names are in the store. With ret_hash it hashes all names.
 */
static int store_walk(int folder, const char *name, struct store_usage *ret_usage,
                      uint64_t *ret_hash)
{
    struct store_levels l = {0};
    struct store_usage sum = {0};
    uint64_t hash = FNV_OFFSET;
    int r = store_levels_enter(&l, folder, name);
    while (l.n && r == 0) {
        DIR *d = l.dirs[l.n - 1];
        const struct dirent *e = readdir(d);
        struct stat st;
        if (!e) {
            /* An opaque folder may have the inode number of the one that it replaced. */
            if (ret_hash && fstat(dirfd(d), &st) == 0)
                hash =
                    (hash ^ (uint64_t)st.st_ctim.tv_sec ^ (uint64_t)st.st_ctim.tv_nsec) * FNV_PRIME;
            closedir(d);
            l.n--;
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        bool is_folder = e->d_type == DT_DIR;
        if (ret_hash) {
            hash = (hash ^ e->d_ino ^ (uint64_t)e->d_type << 56) * FNV_PRIME;
            for (const char *c = e->d_name; *c; c++)
                hash = (hash ^ (unsigned char)*c) * FNV_PRIME;
        }
        if (ret_usage) {
            if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            is_folder = S_ISDIR(st.st_mode);
            bool once = is_folder || !st.st_nlink;
            sum.bytes += (uint64_t)st.st_blocks * 512 / (once ? 1 : st.st_nlink);
            sum.inodes++;
        }
        if (is_folder)
            r = store_levels_enter(&l, dirfd(d), e->d_name);
    }
    while (l.n)
        closedir(l.dirs[--l.n]);
    free(l.dirs);
    if (r == 0 && ret_usage)
        *ret_usage = sum;
    if (r == 0 && ret_hash)
        *ret_hash = hash | 1; /* never 0 */
    return r;
}

struct watched {
    struct watched *next;
    char name[STORE_NAME_SIZE];
    int folder, process;
    uint64_t bytes_max, inodes_max;
    struct store_state *state;
    struct space {
        uint64_t bytes, inodes; /* free for the user */
    } counted_free;
    int64_t counted_at, count_ns, full_since;
    uint64_t full_bytes; /* used when it was first found full */
};

struct stores {
    int parent;
    struct watched *list;
};

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Whether the free space fell by so much since the last count that the store may be near its limit;
 * or `far` above it, by more than a sixteenth. */
static bool watched_may_be_full(const struct watched *w, const struct space *now, bool far)
{
    uint64_t bytes = minus(w->bytes_max, w->state->bytes);
    uint64_t inodes = minus(w->inodes_max, w->state->inodes);
    uint64_t bytes_fell = minus(w->counted_free.bytes, now->bytes);
    uint64_t inodes_fell = minus(w->counted_free.inodes, now->inodes);
    if (far)
        return bytes_fell > bytes + w->bytes_max / 16 || inodes_fell > inodes + w->inodes_max / 16;
    return bytes_fell >= (bytes / 2 > STEP_MIN ? bytes / 2 : STEP_MIN) ||
           inodes_fell >= (inodes / 2 > STEP_MIN >> 12 ? inodes / 2 : STEP_MIN >> 12);
}

static void watched_count(struct watched *w, const struct space *now)
{
    struct store_usage used = {0};
    int64_t begin = clock_now();
    int r = store_walk(w->folder, ".", &used, NULL);
    if (r == -EMFILE) /* too deep to count: hostile, and treated as full */
        used = (struct store_usage){w->bytes_max + 1, w->inodes_max + 1};
    else if (r < 0)
        return;
    w->state->bytes = used.bytes;
    w->state->inodes = used.inodes;
    w->counted_free = *now;
    w->counted_at = clock_now();
    w->count_ns = w->counted_at - begin;
}

/* The owner sees `full` and ends the command. What goes on writing without one is ended here. */
static void watched_judge(struct watched *w, bool host_full)
{
    bool over = w->state->bytes > w->bytes_max || w->state->inodes > w->inodes_max;
    enum store_full full = host_full ? STORE_HOST_FULL : over ? STORE_OVER_LIMIT : STORE_HAS_ROOM;
    w->state->full = full;
    int64_t now = clock_now();
    if (full == STORE_HAS_ROOM || !w->full_since) {
        w->full_since = full == STORE_HAS_ROOM ? 0 : now;
        w->full_bytes = w->state->bytes;
        return;
    }
    bool grows = w->state->bytes > w->full_bytes + w->bytes_max / 16 || host_full;
    if (grows && now - w->full_since > KILL_AFTER_NS && w->process >= 0)
        syscall(SYS_pidfd_send_signal, w->process, SIGKILL, NULL, 0);
}

/* Returns how long nothing can happen, in milliseconds. */
static int stores_look(struct stores *s)
{
    struct statfs fs;
    if (!s->list || fstatfs(s->parent, &fs) < 0)
        return LOOK_MAX_MS;
    uint64_t unit = (uint64_t)fs.f_bsize, total = fs.f_blocks * unit;
    const struct space now = {fs.f_bavail * unit, fs.f_files ? fs.f_ffree : UINT64_MAX};
    const struct space floor = {total / 20 < FLOOR_BYTES ? total / 20 : FLOOR_BYTES,
                                fs.f_files / 20 < FLOOR_INODES ? fs.f_files / 20 : FLOOR_INODES};
    bool host_full = now.bytes < floor.bytes || now.inodes < floor.inodes;
    uint64_t least = minus(now.bytes, floor.bytes);
    for (struct watched *w = s->list; w; w = w->next) {
        int64_t since = clock_now() - w->counted_at;
        bool rested = since > REST * w->count_ns;
        bool changed = now.bytes != w->counted_free.bytes || now.inodes != w->counted_free.inodes;
        /* No rest between counts is worth going far over the limit. */
        if (!w->counted_at || (rested && watched_may_be_full(w, &now, false)) ||
            watched_may_be_full(w, &now, true) || (changed && rested && since > RECOUNT_NS) ||
            (rested && changed && w->state->full))
            watched_count(w, &now);
        watched_judge(w, host_full);
        w->state->looks++;
        uint64_t room = minus(w->bytes_max, w->state->bytes);
        least = room < least ? room : least;
    }
    uint64_t ms = least / GROWTH_PER_MS;
    return ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms > LOOK_MAX_MS ? LOOK_MAX_MS : (int)ms;
}

static struct watched **stores_find(struct stores *s, const char *name)
{
    struct watched **at = &s->list;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static void stores_add(struct stores *s, const struct store_message *m, int fds[2])
{
    struct watched *w = calloc(1, sizeof *w);
    void *state = mmap(NULL, sizeof *w->state, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    if (!w || state == MAP_FAILED)
        exit(1); /* the owner notices, and no box runs unwatched */
    *w = (struct watched){.next = s->list,
                          .folder = TAKE_FD(fds[0]),
                          .process = -1,
                          .bytes_max = m->bytes_max,
                          .inodes_max = m->inodes_max,
                          .state = state};
    memcpy(w->name, m->name, sizeof w->name);
    s->list = w;
}

/* In a child: removing a million files takes seconds, in which the other stores must be watched. */
static void stores_remove(struct stores *s, const char *name)
{
    struct watched **at = stores_find(s, name), *w = *at;
    if (!w)
        return;
    *at = w->next;
    pid_t pid = fork();
    if (pid <= 0)
        store_remove(s->parent, name);
    if (pid == 0)
        _exit(0);
    munmap(w->state, sizeof *w->state);
    cleanup_close(&w->folder);
    cleanup_close(&w->process);
    free(w);
}

static void stores_set_up(struct stores *s, int fds[2])
{
    s->parent = TAKE_FD(fds[0]);
    if (fds[1] >= 0 && setns(fds[1], CLONE_NEWUSER) < 0)
        exit(1);
    const uint64_t keep = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |
                          1ULL << CAP_FOWNER | 1ULL << CAP_KILL;
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)keep, .permitted = (uint32_t)keep}};
    if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        exit(1);
    store_sweep(s->parent);
}

static void stores_serve(struct stores *s, struct store_message *m, int fds[2])
{
    m->name[STORE_NAME_SIZE - 1] = 0;
    struct watched *w = *stores_find(s, m->name);
    if (m->op == STORE_SETUP && s->parent < 0) {
        stores_set_up(s, fds);
    } else if (m->op == STORE_ADD) {
        stores_add(s, m, fds);
    } else if (m->op == STORE_REMOVE) {
        stores_remove(s, m->name);
    } else if (m->op == STORE_PROCESS && w) {
        w->process = TAKE_FD(fds[0]);
    } else if (m->op == STORE_NAMES && w) {
        /* The names in the layer that the box writes its workspace to: the hash changes when it
         * touches another file of the person's folder, not when it writes to one again. */
        uint64_t hash;
        if (store_walk(w->folder, "w/u", NULL, &hash) == 0)
            io_write_all(fds[0], &hash, sizeof hash); /* who has stopped waiting has closed it */
    }
    cleanup_close(&fds[0]);
    cleanup_close(&fds[1]);
}

int store_main(int control)
{
    struct stores s = {.parent = -1};
    struct rlimit files;
    setsid(); /* what ends the owner's process group must leave this process time to remove */
    prctl(PR_SET_NAME, "box-store");
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    for (int wait_ms = LOOK_MAX_MS;;) {
        struct pollfd p = {.fd = control, .events = POLLIN};
        if (poll(&p, 1, wait_ms) > 0) {
            struct store_message m;
            int fds[2] = {-1, -1};
            size_t n = 0;
            if (io_recv_fds(control, &m, sizeof m, fds, 2, &n, 0) != sizeof m)
                break;
            stores_serve(&s, &m, fds);
        }
        wait_ms = stores_look(&s);
    }
    int r = 0;
    for (struct watched *w = s.list; w; w = w->next)
        r = store_remove(s.parent, w->name) < 0 ? 1 : r;
    return r;
}
