/*
 * What isolation this host can give: every ingredient is tried for real, by a small plan carried
 * out by the same code that starts a box. A failed probe says what to do about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "cause.h"
#include "cgroup.h"
#include "clock.h"
#include "host_memory.h"
#include "idmap.h"
#include "io.h"
#include "landlock.h"
#include "layout.h"
#include "outer_proc.h"
#include "probe.h"
#include "spawn.h"
#include "store.h"
#include "banned.h"

struct probing {
    struct idmap ids;
    int userns;
    const char *here; /* the current folder */
};

typedef void (*probe_fn)(struct probing *p, struct probe_result *r);

static void detail(struct probe_result *r, enum probe_state state, const char *text)
{
    r->state = state;
    snprintf(r->detail, sizeof r->detail, "%.*s", (int)sizeof r->detail - 1, text);
}

static void remedy(struct probe_result *r, const char *text)
{
    snprintf(r->remedy, sizeof r->remedy, "%s", text);
}

/* Cause and remedy of a refused step, or else the remedy that fits most hosts. */
static void explain(struct probe_result *r, enum cause_step step, int code, const char *otherwise)
{
    if (!cause_find(step, code < 0 ? -code : code, r->remedy, sizeof r->remedy))
        remedy(r, otherwise);
}

static int family_namespace(struct probing *p, struct error *err)
{
    cleanup_close(&p->userns);
    p->userns = -1;
    return idmap_family_namespace(&p->ids, &p->userns, err);
}

static int go_plain(struct probing *p, const char *why, struct error *err)
{
    int r = idmap_choose_plain(p->here, why, &p->ids, err);
    return r < 0 ? r : family_namespace(p, err);
}

static void probe_userns(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    int code = idmap_choose(p->here, &p->ids, &err);
    if (code == 0)
        code = family_namespace(p, &err);
    if (code < 0 && p->ids.mapped && idmap_is_refusal(code))
        code = go_plain(p, err.text, &err);
    if (code < 0) {
        detail(r, PROBE_NO, err.text);
        if (!strchr(err.text, ';')) /* otherwise it has its remedy already */
            explain(r, CAUSE_USER_NAMESPACE, code, "ask the administrator for user namespaces");
        return;
    }
    r->state = PROBE_YES;
    if (!p->ids.mapped && geteuid() == 0)
        snprintf(r->detail, sizeof r->detail, "agent is %s (%u)",
                 p->ids.uid ? "the owner of this folder" : "root's own id", p->ids.uid);
    else
        detail(r, PROBE_YES,
               p->ids.mapped ? "agent is an unused user id" : "agent is your own user id");
}

/* Carries out the operations already in the plan; the process that did ends by itself. */
static int try_plan(const struct probing *p, const struct plan *plan, int namespaces,
                    struct error *err)
{
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct spawn s = {.plan = plan,
                      .userns = p->userns,
                      .mntns = -1,
                      .namespaces = namespaces,
                      .outer_proc = p->ids.clones && outer_proc_is_masked(),
                      .birthplace = -1,
                      .control = null};
    pid_t pid = -1;
    int r = spawn(&s, &pid, err);
    if (r == 0)
        waitpid(pid, NULL, __WALL);
    return r;
}

static void judge(struct probe_result *r, enum cause_step step, int code, const struct error *err,
                  const char *good, const char *otherwise)
{
    static const char PREFIX[] = "the box did not start: ";
    if (code == 0)
        return detail(r, PROBE_YES, good);
    size_t skip = strncmp(err->text, PREFIX, strlen(PREFIX)) == 0 ? strlen(PREFIX) : 0;
    detail(r, PROBE_NO, err->text + skip);
    explain(r, step, code, otherwise);
    char *known = strstr(r->detail, "; "); /* the same remedy, of spawn_error() */
    if (known)
        *known = 0;
}

#define ALL_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

static void run_ops(struct probing *p, struct probe_result *r, const struct op *ops, size_t n,
                    const char *good, const char *cure)
{
    struct error err = {0};
    _cleanup_(plan_free) struct plan plan;
    if (plan_init(&plan) < 0)
        return detail(r, PROBE_NO, "no memory");
    plan_rule(&plan, "/", LANDLOCK_READ);
    for (size_t i = 0; i < n; i++)
        plan_add(&plan, 2, ops[i]);
    enum cause_step step = ops[n - 1].kind == OP_PROC ? CAUSE_PROC : CAUSE_OTHER;
    judge(r, step, try_plan(p, &plan, ALL_NAMESPACES, &err), &err, good, cure);
}

static void probe_namespaces(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_NETWORK}, {.kind = OP_HOSTNAME, .text = "box"}};
    run_ops(p, r, OPS, ARRAY_SIZE(OPS), "pid, mount, net, ipc, uts, cgroup",
            "the kernel needs CONFIG_NAMESPACES with all of them");
}

static const struct op STORE_OPS[] = {
    {.kind = OP_TMPFS, .slot = SLOT_STORE, .text = "size=1048576,mode=0755"},
    {.kind = OP_ATTACH, .slot = SLOT_STORE, .to = SLOT_HOST, .path = "/proc"},
    {.kind = OP_MKDIR, .to = SLOT_STORE, .path = "base", .flags = 0755},
    {.kind = OP_MKDIR, .to = SLOT_STORE, .path = "base/d", .flags = 0755},
    {.kind = OP_MKDIR, .to = SLOT_STORE, .path = "w", .flags = 0755},
    {.kind = OP_MKDIR, .to = SLOT_STORE, .path = "w/u", .flags = 0755},
    {.kind = OP_MKDIR, .to = SLOT_STORE, .path = "w/k", .flags = 0755},
    {.kind = OP_CHDIR, .slot = SLOT_STORE},
    {.kind = OP_OVERLAY, .slot = SLOT_ROOT, .path = "w", .text = "base"},
    {.kind = OP_ATTACH, .slot = SLOT_ROOT, .to = SLOT_HOST, .path = "/"},
    {.kind = OP_FILE, .to = SLOT_ROOT, .path = "d/new", .text = "x", .flags = 0644},
    {.kind = OP_MARK, .to = SLOT_STORE, .path = "w/u/d"},
};

static void probe_tmpfs(struct probing *p, struct probe_result *r)
{
    run_ops(p, r, STORE_OPS, 2, "the new mount API, and a sized tmpfs",
            "needs Linux 5.12 or newer");
}

/* The last operation is what a kernel before 6.6 cannot do: there are no user xattrs on a tmpfs. */
static void probe_overlay(struct probing *p, struct probe_result *r)
{
    size_t n = ARRAY_SIZE(STORE_OPS);
    run_ops(p, r, STORE_OPS, n, "copy on write over any folder", "");
    if (r->state == PROBE_YES)
        return;
    uint64_t room;
    struct error ignored;
    bool on_disk = store_check(&room, &ignored) == 0;
    run_ops(p, r, STORE_OPS, n - 1,
            on_disk
                ? "copy on write, with all files on disk: this kernel's tmpfs has no user xattrs"
                : "a folder that was deleted in the box cannot be made again there (EIO)",
            "needs Linux 5.11 or newer with overlayfs");
    if (r->state == PROBE_YES && !on_disk) {
        r->state = PROBE_DEGRADED;
        remedy(
            r,
            "set HUTCH_STORE to a folder on ext4, xfs or btrfs; or Linux 6.6: Debian 12 has one in "
            "bookworm-backports (linux-image-amd64)");
    }
}

static void probe_proc(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_PROC, .slot = SLOT_PROC}};
    run_ops(p, r, OPS, 1, "a /proc of the box's own",
            "a procfs must be mounted and visible as a whole");
    if (r->state == PROBE_YES && p->ids.clones && outer_proc_is_masked())
        detail(r, PROBE_YES,
               "a /proc of the box's own, mounted by root since the one here is masked");
}

static void probe_confine(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}};
    run_ops(p, r, OPS, 2, "no capability in any set, no_new_privs",
            "nested user namespaces must be allowed");
}

static void probe_seccomp(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {
        {.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}, {.kind = OP_SECCOMP}};
    run_ops(p, r, OPS, ARRAY_SIZE(OPS), "the system call filter",
            "the kernel needs CONFIG_SECCOMP_FILTER");
}

static void probe_landlock(struct probing *p, struct probe_result *r)
{
    int abi = landlock_abi();
    if (abi >= LANDLOCK_OLDEST) {
        static const struct op OPS[] = {
            {.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}, {.kind = OP_LANDLOCK}};
        run_ops(p, r, OPS, ARRAY_SIZE(OPS), "", "");
        if (r->state == PROBE_YES)
            snprintf(r->detail, sizeof r->detail, "version %d", abi);
        return;
    }
    bool refused = abi < 0 && abi != -ENOSYS && abi != -EOPNOTSUPP;
    detail(
        r, PROBE_DEGRADED,
        refused
            ? "refused by the system call filter (seccomp) here; the other layers work without it"
            : "not in this kernel; the other layers work without it");
    remedy(r, refused ? "allow the landlock_* system calls in the container's filter"
                      : "Linux 5.19 or newer with landlock in the kernel's lsm= list");
}

/* Root that cannot show folders with other owners still starts boxes, with a weaker id. */
static void probe_idmap(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    _cleanup_fd_ int fd = -1;
    if (geteuid() != 0)
        return detail(r, PROBE_YES, "not needed for an ordinary user");
    if (p->ids.mapped) {
        int code = idmap_folder(p->here ? p->here : "/", &p->ids, false, &fd, &err);
        if (code == 0)
            return detail(r, PROBE_YES, "the folder's owner appears as agent");
        if (!idmap_is_refusal(code) ||
            go_plain(p,
                     code == -EPERM ? "root here may not map the ids of this filesystem"
                                    : "this folder's filesystem has none",
                     &err) < 0)
            return detail(r, PROBE_NO, err.text);
        remedy(
            r,
            "use a folder on ext4, xfs or btrfs (in a container: a volume), or start hutch as an "
            "ordinary user");
    } else {
        remedy(
            r,
            "give the container this right (--cap-add), or start hutch as an ordinary user (--user "
            "1000:1000)");
    }
    r->state = PROBE_DEGRADED;
    snprintf(r->detail, sizeof r->detail, "%s: boxes have %s", p->ids.plain,
             p->ids.uid ? "the id of the folder's owner"
                        : "root's own id, though no right of root's");
}

/* The kernel counts some things per user id, for all that the id runs. */
static void probe_counters(struct probing *p, struct probe_result *r)
{
    if (p->ids.own)
        return detail(r, PROBE_YES,
                      "each box has a user id of its own, and the kernel's counters of that id");
    r->state = PROBE_DEGRADED;
    snprintf(r->detail, sizeof r->detail,
             "%s: epoll watches, pages of pipes, descriptors in flight",
             p->ids.mapped     ? "all boxes share one user id"
             : geteuid() != 0  ? "boxes count as you"
             : p->ids.uid == 0 ? "boxes count as root"
                               : "boxes count as the folder's owner");
    if (p->ids.mapped)
        remedy(r, "map the ids from 0x71000000 to 0x71ffffff into the container");
    else if (geteuid() != 0)
        remedy(r, "one box can use these up for your other programs; started by root it cannot");
    else
        remedy(r,
               "one box can use these up for other programs of the same id; see id-mapped mounts");
}

static void probe_cgroup(struct probing *p, struct probe_result *r)
{
    char why[200] = "";
    struct box_options o;
    box_options_default(&o);
    struct cgroup *g = NULL;
    struct error err = {0};
    int version = cgroup_version(why, sizeof why);
    bool works = version && cgroup_acquire(&o.limits, false, &g, &err) == 0 && g &&
                 cgroup_begin(g, &o.limits, &err) == 0;
    cgroup_release(g);
    if (works) {
        snprintf(r->detail, sizeof r->detail, "version %d", version);
        r->state = PROBE_YES;
        return;
    }
    snprintf(r->detail, sizeof r->detail,
             "%.120s; memory, processes and CPU time are limited by rlimits and sampling, the "
             "kernel's memory for "
             "pipes and local sockets is not",
             version ? err.text : why);
    r->state = PROBE_DEGRADED;
    if (p->ids.uid == 0 && !layout_has_own_pid_max())
        remedy(r, "the kernel does not limit the processes of root (before Linux 6.14): give the "
                  "container a "
                  "limit (--pids-limit), or start hutch as an ordinary user");
    else if (strstr(why, "read-only"))
        remedy(
            r,
            "start the container with its control groups writable (a volume on /sys/fs/cgroup, or "
            "--privileged)");
    else if (geteuid() == 0)
        remedy(r, "mount control groups writable");
    else
        remedy(r, "systemd-run --user --scope -p Delegate=yes hutch …, or start hutch as root");
}

static void probe_disk(struct probing *p, struct probe_result *r)
{
    (void)p;
    struct error err = {0};
    uint64_t room = 0;
    const uint64_t half = host_memory(NULL) / 2;
    if (store_check(&room, &err) == 0) {
        snprintf(r->detail, sizeof r->detail,
                 "up to 1 GiB in memory, more on disk: room for %llu MiB",
                 (unsigned long long)(room >> 20));
        r->state = PROBE_YES;
        return;
    }
    snprintf(r->detail, sizeof r->detail, "in memory, at most %llu MiB; not on disk: %.120s",
             (unsigned long long)(half >> 20), err.text);
    r->state = PROBE_DEGRADED;
    remedy(r, "set HUTCH_STORE to a folder of yours on ext4, xfs or btrfs, with mode 700");
}

static void probe_box(struct probing *p, struct probe_result *r)
{
    (void)p;
    struct box_options o;
    struct box *b = NULL;
    struct error err = {0};
    box_options_default(&o);
    int64_t begin = clock_now();
    int code = box_open(&o, &b, &err);
    char *argv[] = {(char *)"true", NULL};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    struct box_result result = {0};
    if (code == 0)
        code = box_exec(b, &c, &result, &err);
    box_result_free(&result);
    box_close(b);
    snprintf(r->detail, sizeof r->detail, "started, ran 'true' and ended in %.1f ms",
             (double)(clock_now() - begin) / NS_PER_MS);
    r->state = code == 0 && result.exit_code == 0 ? PROBE_YES : PROBE_NO;
    if (code < 0)
        detail(r, PROBE_NO, err.text);
}

static const struct {
    const char *name;
    const char *needs; /* another probe, or "" for all that are required */
    bool required;
    probe_fn fn;
} PROBES[] = {
    {"user namespaces", NULL, true, probe_userns},
    {"id-mapped mounts", "user namespaces", true, probe_idmap},
    {"namespaces", "user namespaces", true, probe_namespaces},
    {"mounts", "namespaces", true, probe_tmpfs},
    {"overlay", "mounts", true, probe_overlay},
    {"proc", "namespaces", true, probe_proc},
    {"privileges", "proc", true, probe_confine},
    {"seccomp", "privileges", true, probe_seccomp},
    {"landlock", "privileges", false, probe_landlock},
    {"control groups", NULL, false, probe_cgroup},
    {"counters", "user namespaces", false, probe_counters},
    {"disk limit", NULL, false, probe_disk},
    {"a whole box", "", true, probe_box},
};

/* The probe that failed and without which this one would only fail too; NULL: none. */
static const char *failed_need(const char *needs, const struct probe_result *before, size_t n)
{
    for (size_t i = 0; needs && i < n; i++) {
        bool meant = *needs ? strcmp(before[i].name, needs) == 0 : before[i].required;
        if (meant && (before[i].state == PROBE_NO || before[i].state == PROBE_NOT_TRIED))
            return before[i].name;
    }
    return NULL;
}

size_t probe_all(struct probe_result *results, size_t max)
{
    char here[PATH_MAX];
    struct probing p = {.userns = -1, .here = getcwd(here, sizeof here)};
    size_t n = 0;
    for (; n < ARRAY_SIZE(PROBES) && n < max; n++) {
        struct probe_result *r = &results[n];
        *r = (struct probe_result){.name = PROBES[n].name, .required = PROBES[n].required};
        const char *need = failed_need(PROBES[n].needs, results, n);
        if (need) {
            r->state = PROBE_NOT_TRIED;
            snprintf(r->detail, sizeof r->detail, "it needs: %s", need);
            continue;
        }
        PROBES[n].fn(&p, r);
    }
    cleanup_close(&p.userns);
    return n;
}
