/*
 * What isolation this host can give: every ingredient is tried for real, by a small plan carried out by the
 * same code that starts a box. A failed probe says what to do about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box.h"
#include "cgroup.h"
#include "clock.h"
#include "idmap.h"
#include "io.h"
#include "landlock.h"
#include "layout.h"
#include "probe.h"
#include "spawn.h"
#include "banned.h"

struct probing {
    struct idmap ids;
    int userns;
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

static long sysctl_number(const char *path, long fallback)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    if (io_read_file(AT_FDCWD, path, &b) < 0 || !buf_cstr(&b))
        return fallback;
    return strtol((char *)b.data, NULL, 10);
}

static bool in_container(void)
{
    return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
           access("/run/systemd/container", F_OK) == 0;
}

/* Why a user namespace was refused, by what is known to refuse them. */
static void explain_userns(struct probe_result *r)
{
    if (sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        remedy(r, "AppArmor restricts user namespaces: sysctl -w "
                  "kernel.apparmor_restrict_unprivileged_userns=0, or give "
                  "hutch a profile that allows 'userns'");
    else if (sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        remedy(r, "sysctl -w kernel.unprivileged_userns_clone=1 (in /etc/sysctl.d to keep it)");
    else if (sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0)
        remedy(r, "sysctl -w user.max_user_namespaces=10000");
    else if (in_container())
        remedy(r,
               "inside a container: start it with a seccomp profile that allows clone/unshare of namespaces "
               "(docker run --security-opt seccomp=unconfined), or run hutch on the host");
    else
        remedy(r, "build the kernel with CONFIG_USER_NS, or ask the administrator");
}

static void probe_userns(struct probing *p, struct probe_result *r)
{
    struct error err = {0};
    int code = idmap_choose(&p->ids, &err);
    if (code == 0)
        code = idmap_user_namespace(AGENT_ID, p->ids.uid, AGENT_ID, p->ids.gid, &p->userns, &err);
    if (code == 0) {
        detail(r, PROBE_YES,
               p->ids.mapped ? "agent is an id that is nobody's here" : "agent is you, and only you");
        return;
    }
    detail(r, PROBE_NO, err.text);
    explain_userns(r);
}

/* Carries out the operations already in the plan; the process that did ends by itself. */
static int try_plan(const struct probing *p, const struct plan *plan, int namespaces, struct error *err)
{
    if (p->userns < 0)
        return error_set(err, EPERM, "not tried: there is no user namespace");
    _cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct spawn s = {.plan = plan,
                      .userns = p->userns,
                      .mntns = -1,
                      .namespaces = namespaces,
                      .birthplace = -1,
                      .control = null};
    pid_t pid = -1;
    int r = spawn(&s, &pid, err);
    if (r == 0)
        waitpid(pid, NULL, __WALL);
    return r;
}

static void judge(struct probe_result *r, int code, const struct error *err, const char *good,
                  const char *cure)
{
    detail(r, code == 0 ? PROBE_YES : PROBE_NO, code == 0 ? good : err->text);
    if (code < 0)
        remedy(r, cure);
}

#define ALL_NAMESPACES                                                                                       \
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
    judge(r, try_plan(p, &plan, ALL_NAMESPACES, &err), &err, good, cure);
}

static void probe_namespaces(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_NETWORK}, {.kind = OP_HOSTNAME, .text = "box"}};
    run_ops(p, r, OPS, ARRAY_SIZE(OPS), "pid, mount, net, ipc, uts, cgroup",
            "the kernel needs CONFIG_NAMESPACES with all of them; inside a container they must be allowed");
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
    run_ops(p, r, STORE_OPS, 2, "the new mount API, and a sized tmpfs", "needs Linux 5.12 or newer");
}

/* The last operation is what a kernel before 6.6 cannot do: there are no user xattrs on a tmpfs. */
static void probe_overlay(struct probing *p, struct probe_result *r)
{
    size_t n = ARRAY_SIZE(STORE_OPS);
    run_ops(p, r, STORE_OPS, n, "copy on write over any folder", "");
    if (r->state == PROBE_YES)
        return;
    run_ops(p, r, STORE_OPS, n - 1, "a folder that was deleted in the box cannot be made again there (EIO)",
            "needs Linux 5.11 or newer with overlayfs");
    if (r->state == PROBE_YES) {
        r->state = PROBE_DEGRADED;
        remedy(r, "Linux 6.6 or newer; Debian 12 has one in bookworm-backports (linux-image-amd64)");
    }
}

static void probe_proc(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_PROC, .slot = SLOT_PROC}};
    run_ops(
        p, r, OPS, 1, "a /proc of the box's own",
        "inside a container its /proc must not be masked (docker run --security-opt systempaths=unconfined)");
}

static void probe_confine(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {{.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}};
    run_ops(p, r, OPS, 2, "no capability in any set, no_new_privs", "nested user namespaces must be allowed");
}

static void probe_seccomp(struct probing *p, struct probe_result *r)
{
    static const struct op OPS[] = {
        {.kind = OP_PROC, .slot = SLOT_PROC}, {.kind = OP_CONFINE}, {.kind = OP_SECCOMP}};
    run_ops(p, r, OPS, ARRAY_SIZE(OPS), "the system call filter", "the kernel needs CONFIG_SECCOMP_FILTER");
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
    detail(r, PROBE_DEGRADED, "not in this kernel; the other layers stand without it");
    remedy(r, "Linux 5.19 or newer with landlock in the kernel's lsm= list");
}

static void probe_idmap(struct probing *p, struct probe_result *r)
{
    if (!p->ids.mapped)
        return detail(r, PROBE_YES, "not needed for an ordinary user");
    struct error err = {0};
    _cleanup_fd_ int fd = -1;
    char here[4096];
    if (!getcwd(here, sizeof here))
        snprintf(here, sizeof here, "/");
    judge(r, idmap_folder(here, &p->ids, false, &fd, &err), &err, "the folder's owner appears as agent",
          "use a folder on ext4, xfs or btrfs, or start hutch as an ordinary user");
}

static void probe_cgroup(struct probing *p, struct probe_result *r)
{
    (void)p;
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
             "%.160s; memory, processes and CPU time are limited by rlimits and sampling",
             version ? err.text : why);
    r->state = PROBE_DEGRADED;
    remedy(r, "systemd-run --user --scope -p Delegate=yes hutch …, or start hutch as root");
}

static void probe_disk(struct probing *p, struct probe_result *r)
{
    (void)p;
    struct sysinfo info;
    sysinfo(&info);
    uint64_t half = (uint64_t)info.totalram * info.mem_unit / 2;
    snprintf(r->detail, sizeof r->detail, "a sized tmpfs per box, at most %llu MiB",
             (unsigned long long)(half >> 20));
    r->state = PROBE_YES;
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
    struct box_command c = {.argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    struct box_result result = {0};
    if (code == 0)
        code = box_exec(b, &c, &result, &err);
    box_result_free(&result);
    box_close(b);
    snprintf(r->detail, sizeof r->detail, "started, ran 'true' and ended in %.1f ms",
             (double)(clock_now() - begin) / NS_PER_MS);
    r->state = code == 0 && result.exit_code == 0 ? PROBE_YES : PROBE_NO;
    if (code < 0)
        snprintf(r->detail, sizeof r->detail, "%.200s", err.text);
}

static const struct {
    const char *name;
    bool required;
    probe_fn fn;
} PROBES[] = {
    {"user namespaces", true, probe_userns},
    {"namespaces", true, probe_namespaces},
    {"mounts", true, probe_tmpfs},
    {"overlay", true, probe_overlay},
    {"proc", true, probe_proc},
    {"id-mapped mounts", true, probe_idmap},
    {"privileges", true, probe_confine},
    {"seccomp", true, probe_seccomp},
    {"landlock", false, probe_landlock},
    {"control groups", false, probe_cgroup},
    {"disk limit", false, probe_disk},
    {"a whole box", true, probe_box},
};

size_t probe_all(struct probe_result *results, size_t max)
{
    struct probing p = {.userns = -1};
    size_t n = 0;
    for (; n < ARRAY_SIZE(PROBES) && n < max; n++) {
        results[n] = (struct probe_result){.name = PROBES[n].name, .required = PROBES[n].required};
        PROBES[n].fn(&p, &results[n]);
    }
    cleanup_close(&p.userns);
    return n;
}
