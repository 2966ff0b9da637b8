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
 *
 * Removal. A box filled the store with whatever it likes: folders of mode 000, nested deeper than
 * any path, a million files. Folders inside are moved up to the top of the store before they are
 * emptied. So the process holds two folders open at any time, needs no recursion, and never walks
 * up by "..", which a live process could turn into a way out. Every name is looked up relative to
 * an open folder, and no link is followed. This is the one exception to the rule that the host
 * opens nothing that a box could write: folders are opened to list and unlink what they hold, files
 * never.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "encoding.h"
#include "guest.h"
#include "io.h"
#include "sys.h"
#include "thread.h"
#include "wire.h"
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
#define FOLDER        (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define RETRIES       600 /* processes of the box may need a moment to die after their owner */

/* Gives its owner all rights to a folder. Not by name, which could have become a link. */
static void removal_unlock(int dir, const char *name)
{
    struct stat st;
    char self[64];
    _cleanup_fd_ int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0700) == 0700)
        return;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    chmod(self, 0700);
}

static int removal_open_folder(int dir, const char *name)
{
    removal_unlock(dir, name);
    int fd = openat(dir, name, FOLDER);
    return fd < 0 ? -errno : fd;
}

struct removal {
    int top;
    uint64_t moved, removed; /* a pass that does nothing waits for the box to end */
};

static void removal_empty_folder(struct removal *r, int dir)
{
    _Alignas(struct dirent64) char space[16384];
    ssize_t got;
    while ((got = sys_getdents64(dir, space, sizeof space)) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct dirent64 *e = (const struct dirent64 *)(space + at);
            const char *name = e->d_name;
            at += e->d_reclen;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                continue;
            if ((e->d_type != DT_DIR && unlinkat(dir, name, 0) == 0) ||
                unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
                r->removed++;
            } else if (dir == r->top) {
                /* Emptied where it is. What it holds comes to the top, for the next pass. */
                _cleanup_fd_ int child = removal_open_folder(dir, name);
                if (child >= 0)
                    removal_empty_folder(r, child);
                if (child >= 0 && unlinkat(dir, name, AT_REMOVEDIR) == 0)
                    r->removed++;
            } else {
                /* To the top of the store, under a name that is free there. */
                char to[32];
                removal_unlock(dir, name); /* moving a folder changes its ".." */
                do
                    snprintf(to, sizeof to, ".%llx", (unsigned long long)++r->moved);
                while (sys_renameat2(dir, name, r->top, to, RENAME_NOREPLACE) < 0 &&
                       errno == EEXIST);
            }
        }
}

/* Removes the folder `name` of `parent` with everything in it. */
static int store_remove(int parent, const char *name)
{
    _cleanup_fd_ int top = removal_open_folder(parent, name);
    if (top < 0)
        return top == -ENOENT ? 0 : top;
    struct removal r = {.top = top};
    for (int idle = 0; idle < RETRIES;) {
        uint64_t before = r.moved + r.removed;
        if (lseek(top, 0, SEEK_SET) < 0)
            return -errno;
        removal_empty_folder(&r, top);
        if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (r.moved + r.removed == before)
            usleep(++idle < 20 ? 1000 : 100000);
    }
    return -ENOTEMPTY;
}

/* Removes every store in `parent` that no process has locked, left by a crash: each in a child,
 * which holds its lock. */
static void store_sweep(int parent)
{
    int list = openat(parent, ".", FOLDER);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    if (!d) {
        cleanup_close(&list);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, STORE_PREFIX, strlen(STORE_PREFIX)) != 0)
            continue;
        _cleanup_fd_ int fd = removal_open_folder(parent, e->d_name);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fork() == 0) {
            store_remove(parent, e->d_name);
            _exit(0);
        }
    }
    closedir(d);
}

struct store_usage {
    uint64_t bytes, inodes;
};

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
    struct store_usage sum = {0};
    uint64_t hash = DIGEST_BEGIN;
    struct rlimit files;
    size_t n = 0, max = 1; /* as many levels as descriptors can be open */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > SPARE_FDS)
        max = files.rlim_cur - SPARE_FDS < DEPTH_MAX ? files.rlim_cur - SPARE_FDS : DEPTH_MAX;
    DIR **levels = malloc(max * sizeof *levels);
    int r = levels ? 0 : -ENOMEM, parent = folder;
    const char *enter = name; /* a folder of `parent` to go into */
    while (r == 0 && (n || enter)) {
        struct stat st;
        if (enter) {
            int fd = n == max ? -1 : openat(parent, TAKE_PTR(enter), FOLDER);
            if (n == max || (fd < 0 && (errno == EMFILE || errno == ENFILE)))
                r = -EMFILE;
            if (fd < 0) /* one that vanished or is a folder no more is no error: the box runs */
                continue;
            levels[n] = fdopendir(fd);
            if (levels[n]) {
                n++;
            } else {
                close(fd);
                r = -ENOMEM;
            }
            continue;
        }
        DIR *d = levels[n - 1];
        const struct dirent *e = readdir(d);
        if (!e) {
            /* An opaque folder may have the inode number of the one that it replaced. */
            if (ret_hash && fstat(dirfd(d), &st) == 0)
                hash = digest(hash, &st.st_ctim, sizeof st.st_ctim);
            closedir(d);
            n--;
            continue;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        bool is_folder = e->d_type == DT_DIR;
        if (ret_hash) {
            hash = digest(digest(hash, &e->d_ino, sizeof e->d_ino), &e->d_type, sizeof e->d_type);
            hash = digest(hash, e->d_name, strlen(e->d_name) + 1);
        }
        if (ret_usage) {
            if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            is_folder = S_ISDIR(st.st_mode);
            bool once = is_folder || !st.st_nlink;
            sum.bytes += (uint64_t)st.st_blocks * 512 / (once ? 1 : st.st_nlink);
            sum.inodes++;
        }
        parent = dirfd(d);
        enter = is_folder ? e->d_name : NULL;
    }
    while (n)
        closedir(levels[--n]);
    free(levels);
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
    struct store_usage counted_free; /* what the user could have taken at the last count */
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

/* Counts a store if it may be full, and ends a box that goes on writing although it is. */
static void watched_look(struct watched *w, const struct store_usage *now_free, bool host_full)
{
    struct store_state *state = w->state;
    int64_t begin = clock_now(), since = begin - w->counted_at;
    bool rested = since > REST * w->count_ns;
    bool changed =
        now_free->bytes != w->counted_free.bytes || now_free->inodes != w->counted_free.inodes;
    /* The free space fell by so much since the last count that the store may be near its limit; or
     * by more than a sixteenth over it, and no rest between counts is worth that. */
    uint64_t bytes = minus(w->bytes_max, state->bytes);
    uint64_t inodes = minus(w->inodes_max, state->inodes);
    uint64_t bytes_fell = minus(w->counted_free.bytes, now_free->bytes);
    uint64_t inodes_fell = minus(w->counted_free.inodes, now_free->inodes);
    bool near = bytes_fell >= (bytes / 2 > STEP_MIN ? bytes / 2 : STEP_MIN) ||
                inodes_fell >= (inodes / 2 > STEP_MIN >> 12 ? inodes / 2 : STEP_MIN >> 12);
    bool over_far =
        bytes_fell > bytes + w->bytes_max / 16 || inodes_fell > inodes + w->inodes_max / 16;
    if (!w->counted_at || over_far ||
        (rested && (near || (changed && (since > RECOUNT_NS || state->full))))) {
        struct store_usage used = {0};
        int r = store_walk(w->folder, ".", &used, NULL);
        if (r == -EMFILE) /* too deep to count: hostile, and treated as full */
            used = (struct store_usage){w->bytes_max + 1, w->inodes_max + 1};
        if (r == 0 || r == -EMFILE) {
            state->bytes = used.bytes;
            state->inodes = used.inodes;
            w->counted_free = *now_free;
            w->counted_at = clock_now();
            w->count_ns = w->counted_at - begin;
        }
    }

    /* The owner sees `full` and ends the command. What goes on writing without one is ended
     * here. */
    bool over = state->bytes > w->bytes_max || state->inodes > w->inodes_max;
    state->full = host_full ? STORE_HOST_FULL : over ? STORE_OVER_LIMIT : STORE_HAS_ROOM;
    int64_t now = clock_now();
    if (state->full == STORE_HAS_ROOM || !w->full_since) {
        w->full_since = state->full == STORE_HAS_ROOM ? 0 : now;
        w->full_bytes = state->bytes;
    } else if ((host_full || state->bytes > w->full_bytes + w->bytes_max / 16) &&
               now - w->full_since > KILL_AFTER_NS && w->process >= 0) {
        syscall(SYS_pidfd_send_signal, w->process, SIGKILL, NULL, 0);
    }
    state->looks++;
}

/* Returns how long nothing can happen, in milliseconds. */
static int stores_look(struct stores *s)
{
    struct statfs fs;
    if (!s->list || fstatfs(s->parent, &fs) < 0)
        return LOOK_MAX_MS;
    uint64_t unit = (uint64_t)fs.f_bsize, total = fs.f_blocks * unit;
    const struct store_usage now = {fs.f_bavail * unit, fs.f_files ? fs.f_ffree : UINT64_MAX};
    uint64_t floor = total / 20 < FLOOR_BYTES ? total / 20 : FLOOR_BYTES;
    bool host_full = now.bytes < floor ||
                     now.inodes < (fs.f_files / 20 < FLOOR_INODES ? fs.f_files / 20 : FLOOR_INODES);
    uint64_t least = minus(now.bytes, floor);
    for (struct watched *w = s->list; w; w = w->next) {
        watched_look(w, &now, host_full);
        uint64_t room = minus(w->bytes_max, w->state->bytes);
        least = room < least ? room : least;
    }
    uint64_t ms = least / GROWTH_PER_MS;
    return ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms > LOOK_MAX_MS ? LOOK_MAX_MS : (int)ms;
}

static void stores_serve(struct stores *s, struct store_message *m, int fds[2])
{
    m->name[STORE_NAME_SIZE - 1] = 0;
    struct watched **at = &s->list;
    while (*at && strcmp((*at)->name, m->name) != 0)
        at = &(*at)->next;
    struct watched *w = *at;
    if (m->op == STORE_SETUP && s->parent < 0) {
        /* Enters the family's user namespace, if there is one, and keeps only the rights that the
         * work needs. */
        s->parent = TAKE_FD(fds[0]);
        const uint64_t keep = 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |
                              1ULL << CAP_FOWNER | 1ULL << CAP_KILL;
        struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct data[2] = {
            {.effective = (uint32_t)keep, .permitted = (uint32_t)keep}};
        if ((fds[1] >= 0 && setns(fds[1], CLONE_NEWUSER) < 0) ||
            syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            exit(1);
        store_sweep(s->parent);
    } else if (m->op == STORE_ADD) {
        w = calloc(1, sizeof *w);
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
    } else if (m->op == STORE_REMOVE && w) {
        /* In a child: removing a million files takes seconds, in which the other stores must be
         * watched. */
        *at = w->next;
        pid_t pid = fork();
        if (pid <= 0)
            store_remove(s->parent, w->name);
        if (pid == 0)
            _exit(0);
        munmap(w->state, sizeof *w->state);
        cleanup_close(&w->folder);
        cleanup_close(&w->process);
        free(w);
    } else if (m->op == STORE_PROCESS && w) {
        w->process = TAKE_FD(fds[0]);
    } else if (m->op == STORE_NAMES && w) {
        /* The names in the layer that the box writes its workspace to: the hash changes when it
         * touches another file of the user's folder, not when it writes to one again. */
        uint64_t hash;
        if (store_walk(w->folder, "w/u", NULL, &hash) == 0)
            io_write_all(fds[0], &hash, sizeof hash); /* fails if the owner stopped waiting */
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
