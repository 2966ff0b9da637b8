/*
 * Everything in the lists below is looked up on the host when the plan is made: what is not there is left
 * out, a symbolic link is made again as it is, a small file is copied, anything else gets a mount of its own.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "io.h"
#include "selection.h"
#include "weaken.h"
#include "banned.h"

#define SMALL_FILE 4096

/* On a merged-/usr system all but the first are links into it. */
static const char *const TOP[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

/* What programs need of /etc to start: the loader's cache, certificates, time, names of services,
 * alternatives; and the configuration without which some languages do not start at all. Each entry costs
 * every box 15 µs. */
static const char *const ETC[] = {
    "/etc/alternatives",    "/etc/crypto-policies", "/etc/fonts",      "/etc/java-17-openjdk",
    "/etc/java-21-openjdk", "/etc/ld.so.cache",     "/etc/localtime",  "/etc/maven",
    "/etc/mime.types",      "/etc/os-release",      "/etc/pki",        "/etc/protocols",
    "/etc/python3.11",      "/etc/python3.12",      "/etc/python3.13", "/etc/services",
    "/etc/ssl/certs",       "/etc/ssl/openssl.cnf",
};

static const char PASSWD[] = "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                             "agent:x:1000:1000:agent:/home/agent:/bin/bash\n"
                             "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
static const char GROUP[] = "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n";
static const char HOSTS[] = "127.0.0.1 localhost box\n::1 localhost ip6-localhost ip6-loopback\n";
static const char NSSWITCH[] =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/* What of /proc tells about or reaches the whole machine, and is not the host's root's alone anyway. */
static const char *const PROC[] = {
    "/proc/kcore",         "/proc/keys",          "/proc/key-users", "/proc/timer_list",
    "/proc/kmsg",          "/proc/sysrq-trigger", "/proc/kallsyms",  "/proc/sched_debug",
    "/proc/latency_stats", "/proc/acpi",          "/proc/asound",    "/proc/scsi",
};

/* What to do with a path of the lists. */
enum kind { KIND_NONE, KIND_LINK, KIND_COPY, KIND_FILE, KIND_DIR };

static enum kind kind_of(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return KIND_NONE;
    if (S_ISLNK(st.st_mode))
        return KIND_LINK;
    if (S_ISDIR(st.st_mode))
        return KIND_DIR;
    if (!S_ISREG(st.st_mode))
        return KIND_NONE;
    return st.st_size <= SMALL_FILE ? KIND_COPY : KIND_FILE;
}

/* A box's user owns nothing of /proc but its own processes, and has no capability to go past a mode. */
static void scan_proc(uint8_t *ret_kinds)
{
    struct stat st;
    for (size_t i = 0; i < ARRAY_SIZE(PROC); i++)
        if (lstat(PROC[i], &st) < 0 || !(st.st_mode & S_IRWXO))
            ret_kinds[i] = KIND_NONE;
        else
            ret_kinds[i] = S_ISDIR(st.st_mode) ? KIND_DIR : KIND_FILE;
}

static void scan(const char *const *paths, size_t n, uint8_t *ret_kinds)
{
    for (size_t i = 0; i < n; i++)
        ret_kinds[i] = kind_of(paths[i]);
}

void selection_scan(struct selection *s)
{
    _Static_assert(ARRAY_SIZE(TOP) <= sizeof s->top, "");
    _Static_assert(ARRAY_SIZE(ETC) <= sizeof s->etc, "");
    _Static_assert(ARRAY_SIZE(PROC) <= sizeof s->proc, "");
    scan(TOP, ARRAY_SIZE(TOP), s->top);
    scan(ETC, ARRAY_SIZE(ETC), s->etc);
    scan_proc(s->proc);
}

static void add_dir(struct plan *p, const char *path, mode_t mode)
{
    plan_add(p, 2, (struct op){.kind = OP_MKDIR, .to = SLOT_STORE, .path = path, .flags = mode});
}

static void add_link(struct plan *p, const char *path, const char *target)
{
    plan_add(p, 2, (struct op){.kind = OP_SYMLINK, .to = SLOT_STORE, .path = path, .text = target});
}

static void add_file(struct plan *p, const char *path, const char *text)
{
    plan_add(p, 2, (struct op){.kind = OP_FILE, .to = SLOT_STORE, .path = path, .text = text, .flags = 0644});
}

static void copy_link(struct plan *p, const char *from, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(from, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = 0;
    add_link(p, path, plan_text(p, "%s", target));
}

static void copy_file(struct plan *p, const char *from, const char *path)
{
    _cleanup_buf_ struct buf b = BUF_INIT(SMALL_FILE * 4);
    if (io_read_file(AT_FDCWD, from, &b) == 0 && buf_cstr(&b))
        add_file(p, path, plan_text(p, "%s", (char *)b.data));
}

/* The place in the skeleton for one listed path. */
static void add_place(struct plan *p, const char *from, enum kind kind)
{
    const char *path = plan_text(p, "k%s", from);
    switch (kind) {
    case KIND_NONE:
        return;
    case KIND_LINK:
        copy_link(p, from, path);
        return;
    case KIND_COPY:
        copy_file(p, from, path);
        return;
    case KIND_FILE:
        add_file(p, path, NULL);
        return;
    case KIND_DIR:
        add_dir(p, path, 0755);
        return;
    }
}

static void add_devices(struct plan *p)
{
    static const char *const NODES[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const LINKS[][2] = {{"k/dev/ptmx", "pts/ptmx"},
                                           {"k/dev/fd", "/proc/self/fd"},
                                           {"k/dev/stdin", "/proc/self/fd/0"},
                                           {"k/dev/stdout", "/proc/self/fd/1"},
                                           {"k/dev/stderr", "/proc/self/fd/2"}};
    for (size_t i = 0; i < ARRAY_SIZE(NODES); i++)
        add_file(p, plan_text(p, "k/dev/%s", NODES[i]), NULL);
    for (size_t i = 0; i < ARRAY_SIZE(LINKS); i++)
        add_link(p, LINKS[i][0], LINKS[i][1]);
}

static void add_made_up(struct plan *p, const struct layout *l)
{
    add_file(p, "k/etc/passwd", PASSWD);
    add_file(p, "k/etc/group", GROUP);
    add_file(p, "k/etc/hosts", HOSTS);
    add_file(p, "k/etc/hostname", "box\n");
    add_file(p, "k/etc/nsswitch.conf", NSSWITCH);
    if (l->net == BOX_NET_HOST)
        copy_file(p, "/etc/resolv.conf", "k/etc/resolv.conf");
}

/* Every folder on the way to a share, and a place for the share itself. */
static void add_share_places(struct plan *p, const struct layout *l)
{
    for (size_t i = 0; i < l->n_shares; i++) {
        const char *at = l->shares[i].at;
        for (const char *slash = strchr(at + 1, '/'); slash; slash = strchr(slash + 1, '/'))
            add_dir(p, plan_text(p, "k%.*s", (int)(slash - at), at), 0755);
        add_dir(p, plan_text(p, "k%s", at), 0755);
    }
}

void selection_skeleton(struct plan *p, const struct layout *l)
{
    static const char *const DIRS[] = {"k/dev",        "k/dev/pts",   "k/proc", "k/etc", "k/home",
                                       "k/home/agent", "k/workspace", "k/run",  "k/var", "k/etc/ssl"};
    for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++)
        add_dir(p, DIRS[i], 0755);
    add_dir(p, "k/tmp", 01777);
    add_dir(p, "k/dev/shm", 01777);
    add_link(p, "k/var/tmp", "../tmp");
    add_link(p, "k/var/run", "../run");
    add_devices(p);
    add_made_up(p, l);
    if (!l->has_image) {
        for (size_t i = 0; i < ARRAY_SIZE(TOP); i++)
            add_place(p, TOP[i], l->selection.top[i]);
        for (size_t i = 0; i < ARRAY_SIZE(ETC); i++)
            add_place(p, ETC[i], l->selection.etc[i]);
    }
    add_share_places(p, l);
}

static void show(struct plan *p, const char *path)
{
    int slot = plan_slot(p);
    uint64_t flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = SLOT_HOST,
                         .path = path,
                         .flags = flags,
                         .recursive = true,
                         .optional = true});
    plan_add(
        p, 2,
        (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = path + 1, .optional = true});
}

static void show_all(struct plan *p, const char *const *paths, size_t n, const uint8_t *kinds)
{
    for (size_t i = 0; i < n; i++)
        if (kinds[i] == KIND_DIR || kinds[i] == KIND_FILE)
            show(p, paths[i]);
}

void selection_show(struct plan *p, const struct selection *s)
{
    show_all(p, TOP, ARRAY_SIZE(TOP), s->top);
    show_all(p, ETC, ARRAY_SIZE(ETC), s->etc);
}

/* A device that reads as empty over a file, an empty folder over a folder. */
static void mask(struct plan *p, int from, const char *empty, const char *at)
{
    int slot = plan_slot(p);
    plan_add(p, 2,
             (struct op){.kind = OP_CLONE,
                         .slot = slot,
                         .from = from,
                         .path = empty,
                         .flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC});
    plan_add(p, 2, (struct op){.kind = OP_ATTACH, .slot = slot, .to = SLOT_ROOT, .path = at});
}

void selection_mask_proc(struct plan *p, const struct selection *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(PROC); i++)
        if (s->proc[i] == KIND_DIR)
            mask(p, SLOT_STORE, "e", PROC[i] + 1);
        else if (s->proc[i] != KIND_NONE)
            mask(p, SLOT_HOST, "/dev/null", PROC[i] + 1);
}
