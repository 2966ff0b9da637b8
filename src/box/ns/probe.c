/*
 * What isolation this host can give: every ingredient is tried for real, by a small plan that the
 * same code executes which starts a box. A failed probe says what to do about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "box_host.h"
#include "cause.h"
#include "cgroup.h"
#include "idmap.h"
#include "layout.h"
#include "plan.h"
#include "probe.h"
#include "spawn.h"
#include "store.h"
#include "thread.h"
#include "banned.h"

#define ALL_NAMESPACES                                                                             \
    (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

struct probing {
    struct idmap ids;
    int userns;
    const char *here; /* the current folder */
};

PRINTF(3, 4)
static void probe_set(struct probe_result *r, enum probe_state state, const char *fmt, ...)
{
    va_list args;
    r->state = state;
    va_start(args, fmt);
    vsnprintf(r->detail, sizeof r->detail, fmt, args);
    va_end(args);
}

static void probe_remedy(struct probe_result *r, const char *text)
{
    snprintf(r->remedy, sizeof r->remedy, "%s", text);
}

/* Chooses the ids anew, the plain way if there is a reason to, and makes their namespace. */
static int probing_make_family(struct probing *p, const char *plain_because, struct error *err)
{
    int r = plain_because ? idmap_choose_plain(p->here, plain_because, &p->ids, err)
                          : idmap_choose(p->here, &p->ids, err);
    cleanup_close(&p->userns);
    p->userns = -1;
    return r < 0 ? r : idmap_family_namespace(&p->ids, &p->userns, err);
}

static void probe_userns(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    int code = probing_make_family(p, NULL, &err);
    if (code < 0 && p->ids.mapped && idmap_is_refusal(code)) {
        char why[ERROR_TEXT_MAX];
        snprintf(why, sizeof why, "%s", err.text);
        code = probing_make_family(p, why, &err);
    }
    if (code < 0) {
        probe_set(r, PROBE_NO, "%.*s", (int)sizeof r->detail - 1, err.text);
        if (!strchr(err.text, ';') && /* otherwise it has its remedy already */
            !cause_find(CAUSE_USER_NAMESPACE, -code, r->remedy, sizeof r->remedy))
            probe_remedy(r, "ask the administrator for user namespaces");
    } else if (!p->ids.mapped && geteuid() == 0) {
        probe_set(r, PROBE_YES, "agent is %s (%u)",
                  p->ids.uid ? "the owner of this folder" : "root's own id", p->ids.uid);
    } else {
        probe_set(r, PROBE_YES, "agent is %s user id", p->ids.mapped ? "an unused" : "your own");
    }
}

/* Executes the operations in a new process, which then ends by itself. */
static void probe_ops(const struct probing *p, struct probe_result *r, const struct op *ops,
                      size_t n, const char *good, const char *remedy)
{
    static const char PREFIX[] = "the box did not start: ";
    struct error err = {0};
    _cleanup_(plan_free) struct plan plan;
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = -1;
    if (plan_init(&plan) < 0)
        return probe_set(r, PROBE_NO, "no memory");
    plan_rule(&plan, "/", LANDLOCK_READ);
    for (size_t i = 0; i < n; i++)
        plan_add(&plan, 2, ops[i]);
    struct spawn s = {.plan = &plan,
                      .userns = p->userns,
                      .mntns = -1,
                      .namespaces = ALL_NAMESPACES,
                      .outer_proc = p->ids.clones && outer_proc_is_masked(),
                      .birthplace = -1,
                      .control = null};
    int code = spawn(&s, &pid, &err);
    if (code == 0) {
        waitpid(pid, NULL, __WALL);
        return probe_set(r, PROBE_YES, "%s", good);
    }
    bool prefixed = strncmp(err.text, PREFIX, strlen(PREFIX)) == 0;
    probe_set(r, PROBE_NO, "%.*s", (int)sizeof r->detail - 1,
              err.text + (prefixed ? strlen(PREFIX) : 0));
    enum cause_step step = ops[n - 1].kind == OP_PROC ? CAUSE_PROC : CAUSE_OTHER;
    if (!cause_find(step, -code, r->remedy, sizeof r->remedy))
        probe_remedy(r, remedy);
    char *known = strstr(r->detail, "; "); /* the same remedy, of start_error() */
    if (known)
        *known = 0;
}

static const struct op NAMESPACE_OPS[] = {{.kind = OP_NETWORK},
                                          {.kind = OP_HOSTNAME, .text = "box"}};

static const struct op STORE_OPS[] = {
    {.kind = OP_MOUNT, .slot = SLOT_STORE, .path = "tmpfs", .text = "size=1048576,mode=0755"},
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

/* The last operation is what a kernel before 6.6 cannot do: there are no user xattrs on a tmpfs. */
static void probe_overlay(struct probing *p, struct probe_result *r)
{
    size_t n = ARRAY_SIZE(STORE_OPS);
    probe_ops(p, r, STORE_OPS, n, "copy on write over any folder", "");
    if (r->state == PROBE_YES)
        return;
    uint64_t room;
    struct error ignored;
    bool on_disk = store_check(&room, &ignored) == 0;
    probe_ops(p, r, STORE_OPS, n - 1,
              on_disk
                  ? "copy on write, with all files on disk: this kernel's tmpfs has no user xattrs"
                  : "a folder that was deleted in the box cannot be made again there (EIO)",
              "needs Linux 5.11 or newer with overlayfs");
    if (r->state == PROBE_YES && !on_disk) {
        r->state = PROBE_DEGRADED;
        probe_remedy(r,
                     "set HUTCH_STORE to a folder on ext4, xfs or btrfs; or Linux 6.6: Debian 12 "
                     "has one in bookworm-backports (linux-image-amd64)");
    }
}

/* Each of three probes takes one operation more. */
static const struct op CONFINE_OPS[] = {
    {.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}, {.kind = OP_SECCOMP}};

static void probe_proc(struct probing *p, struct probe_result *r)
{
    bool outer = p->ids.clones && outer_proc_is_masked();
    probe_ops(p, r, CONFINE_OPS, 1,
              outer ? "a /proc of the box's own, mounted by root since the one here is masked"
                    : "a /proc of the box's own",
              "a procfs must be mounted and visible as a whole");
}

static void probe_landlock(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {
        {.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}, {.kind = OP_LANDLOCK}};
    int abi = landlock_abi();
    bool refused = abi < 0 && abi != -ENOSYS && abi != -EOPNOTSUPP;
    if (abi >= LANDLOCK_OLDEST) {
        probe_ops(p, r, OPS, ARRAY_SIZE(OPS), "", "");
        if (r->state == PROBE_YES)
            probe_set(r, PROBE_YES, "version %d", abi);
    } else if (refused) {
        probe_set(r, PROBE_DEGRADED,
                  "refused by the system call filter (seccomp) here; the other layers work without "
                  "it");
        probe_remedy(r, "allow the landlock_* system calls in the container's filter");
    } else {
        probe_set(r, PROBE_DEGRADED, "not in this kernel; the other layers work without it");
        probe_remedy(r, "Linux 5.19 or newer with landlock in the kernel's lsm= list");
    }
}

/* Root that cannot show folders with other owners still starts boxes, with a weaker id. */
static void probe_idmap(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    _cleanup_fd_ int fd = -1;
    if (geteuid() != 0)
        return probe_set(r, PROBE_YES, "not needed for an ordinary user");
    if (p->ids.mapped) {
        int code = idmap_folder(p->here ? p->here : "/", &p->ids, false, &fd, &err);
        if (code == 0)
            return probe_set(r, PROBE_YES, "the folder's owner appears as agent");
        const char *why = code == -EPERM ? "root here may not map the ids of this filesystem"
                                         : "this folder's filesystem has none";
        if (!idmap_is_refusal(code) || probing_make_family(p, why, &err) < 0)
            return probe_set(r, PROBE_NO, "%.*s", (int)sizeof r->detail - 1, err.text);
        probe_remedy(r, "use a folder on ext4, xfs or btrfs (in a container: a volume), or start "
                        "hutch as an ordinary user");
    } else {
        probe_remedy(r, "give the container this right (--cap-add), or start hutch as an ordinary "
                        "user (--user 1000:1000)");
    }
    probe_set(r, PROBE_DEGRADED, "%s: boxes have %s", p->ids.plain,
              p->ids.uid ? "the id of the folder's owner"
                         : "root's own id, though no right of root's");
}

/* The kernel counts some things per user id, for all that the id runs. */
static void probe_counters(struct probing *p, struct probe_result *r)
{
    if (p->ids.own)
        return probe_set(r, PROBE_YES,
                         "each box has a user id of its own, and the kernel's counters of that id");
    probe_set(r, PROBE_DEGRADED, "%s: epoll watches, pages of pipes, descriptors in flight",
              p->ids.mapped     ? "all boxes share one user id"
              : geteuid() != 0  ? "boxes count as you"
              : p->ids.uid == 0 ? "boxes count as root"
                                : "boxes count as the folder's owner");
    if (p->ids.mapped)
        probe_remedy(r, "map the ids from 0x71000000 to 0x71ffffff into the container");
    else if (geteuid() != 0)
        probe_remedy(r, "one box can use these up for your other programs; start hutch as root to "
                        "prevent it");
    else
        probe_remedy(r, "one box can use these up for other programs of the same id; see id-mapped "
                        "mounts");
}

static void probe_cgroup(struct probing *p, struct probe_result *r)
{
    char why[200] = "";
    struct box_options o;
    struct cgroup *g = NULL;
    struct error err = {0};
    box_options_default(&o);
    int version = cgroup_version(why, sizeof why);
    bool works = version && cgroup_acquire(&o.limits, false, &g, &err) == 0 && g &&
                 cgroup_begin(g, &o.limits, &err) == 0;
    cgroup_release(g);
    if (works)
        return probe_set(r, PROBE_YES, "version %d", version);
    probe_set(r, PROBE_DEGRADED,
              "%.120s; memory, processes and CPU time are limited by rlimits and sampling, the "
              "kernel's memory for pipes and local sockets is not",
              version ? err.text : why);
    if (p->ids.uid == 0 && !layout_has_own_pid_max())
        probe_remedy(r, "the kernel does not limit the processes of root (before Linux 6.14): give "
                        "the container a limit (--pids-limit), or start hutch as an ordinary user");
    else if (strstr(why, "read-only"))
        probe_remedy(r, "start the container with its control groups writable (a volume on "
                        "/sys/fs/cgroup, or --privileged)");
    else if (geteuid() == 0)
        probe_remedy(r, "mount control groups writable");
    else
        probe_remedy(r,
                     "systemd-run --user --scope -p Delegate=yes hutch …, or start hutch as root");
}

static void probe_disk(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    uint64_t room = 0;
    if (store_check(&room, &err) == 0)
        return probe_set(r, PROBE_YES, "up to 1 GiB in memory, more on disk: room for %llu MiB",
                         (unsigned long long)(room >> 20));
    probe_set(r, PROBE_DEGRADED, "in memory, at most %llu MiB; not on disk: %.120s",
              (unsigned long long)(host_memory(NULL) / 2 >> 20), err.text);
    probe_remedy(r, "set HUTCH_STORE to a folder of yours on ext4, xfs or btrfs, with mode 700");
}

static void probe_box(struct probing *p, struct probe_result *r)
{
    struct box_options o;
    struct box *b = NULL;
    struct error err = {0};
    char *argv[] = {(char *)"true", NULL};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    struct box_result result = {0};
    box_options_default(&o);
    int64_t begin = clock_now();
    int code = box_open(&o, &b, &err);
    if (code == 0)
        code = box_exec(b, &c, &result, &err);
    box_result_free(&result);
    box_close(b);
    if (code < 0)
        return probe_set(r, PROBE_NO, "%.*s", (int)sizeof r->detail - 1, err.text);
    probe_set(r, result.exit_code == 0 ? PROBE_YES : PROBE_NO,
              "started, ran 'true' and ended in %.1f ms",
              (double)(clock_now() - begin) / NS_PER_MS);
}

static const struct probe {
    const char *name;
    const char *needs; /* another probe, or "" for all that are required */
    bool required;
    void (*run)(struct probing *p, struct probe_result *r); /* NULL: executes the operations */
    const struct op *ops;
    size_t n_ops;
    const char *good, *remedy;
} PROBES[] = {
    {"user namespaces", NULL, true, .run = probe_userns},
    {"id-mapped mounts", "user namespaces", true, .run = probe_idmap},
    {"namespaces", "user namespaces", true, .ops = NAMESPACE_OPS, .n_ops = 2,
     .good = "pid, mount, net, ipc, uts, cgroup",
     .remedy = "the kernel needs CONFIG_NAMESPACES with all of them"},
    {"mounts", "namespaces", true, .ops = STORE_OPS, .n_ops = 2,
     .good = "the new mount API, and a sized tmpfs", .remedy = "needs Linux 5.12 or newer"},
    {"overlay", "mounts", true, .run = probe_overlay},
    {"proc", "namespaces", true, .run = probe_proc},
    {"privileges", "proc", true, .ops = CONFINE_OPS, .n_ops = 2,
     .good = "no capability in any set, no_new_privs",
     .remedy = "nested user namespaces must be allowed"},
    {"seccomp", "privileges", true, .ops = CONFINE_OPS, .n_ops = 3,
     .good = "the system call filter", .remedy = "the kernel needs CONFIG_SECCOMP_FILTER"},
    {"landlock", "privileges", false, .run = probe_landlock},
    {"control groups", NULL, false, .run = probe_cgroup},
    {"counters", "user namespaces", false, .run = probe_counters},
    {"disk limit", NULL, false, .run = probe_disk},
    {"a whole box", "", true, .run = probe_box},
};

size_t probe_all(struct probe_result *results, size_t max)
{
    char here[PATH_MAX];
    struct probing p = {.userns = -1, .here = getcwd(here, sizeof here)};
    size_t n = 0;
    for (; n < ARRAY_SIZE(PROBES) && n < max; n++) {
        struct probe_result *r = &results[n];
        const struct probe *probe = &PROBES[n];
        const char *needs = probe->needs, *failed = NULL;
        *r = (struct probe_result){.name = probe->name, .required = probe->required};
        for (size_t i = 0; needs && i < n && !failed; i++) {
            bool meant = *needs ? strcmp(results[i].name, needs) == 0 : results[i].required;
            if (meant && (results[i].state == PROBE_NO || results[i].state == PROBE_NOT_TRIED))
                failed = results[i].name;
        }
        if (failed)
            probe_set(r, PROBE_NOT_TRIED, "it needs: %s", failed);
        else if (probe->run)
            probe->run(&p, r);
        else
            probe_ops(&p, r, probe->ops, probe->n_ops, probe->good, probe->remedy);
    }
    cleanup_close(&p.userns);
    return n;
}
