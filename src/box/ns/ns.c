/*
 * The backend `ns`: namespaces, seccomp, Landlock, cgroups, overlayfs.
 *
 * A machine holds the descriptors of the box's user and mount namespaces and of its store. As long
 * as they are open the box's files exist, though no path leads to them; when the last is closed the
 * kernel frees everything. So nothing has to be cleaned up after a crash, and a snapshot outlives
 * its box by holding them. A store on disk is a folder that somebody has to remove: store.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "box_host.h"
#include "io.h"
#include "layout.h"
#include "net_policy.h"
#include "ns_machine.h"
#include "plan.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

static struct ns_start *ns_start_free(struct ns_start *s)
{
    if (s)
        plan_free(&s->plan);
    free(s);
    return NULL;
}

static void ns_start_freep(struct ns_start **s)
{
    ns_start_free(*s);
}

static struct ns_start *ns_start_new(void)
{
    struct ns_start *s = calloc(1, sizeof *s);
    return s && plan_init(&s->plan) < 0 ? ns_start_free(s) : s;
}

static struct ns_machine *ns_new(void)
{
    struct ns_machine *m = calloc(1, sizeof *m);
    if (m) {
        m->base = (struct machine){.backend = &BACKEND_NS, .refs = 1};
        m->guest = GUEST_NONE;
        m->userns = m->mntns = m->store = m->listener = -1;
        pthread_mutex_init(&m->lock, NULL);
    }
    return m;
}

static void ns_unrefp(struct ns_machine **m)
{
    if (*m)
        machine_unref(&(*m)->base);
}
#define _cleanup_ns_ _cleanup_(ns_unrefp)

/* Only files in memory count for the control group's limit on memory. */
static struct box_limits ns_counted_limits(const struct ns_machine *m)
{
    struct box_limits l = m->limits;
    l.disk = m->disk ? 0 : l.disk;
    return l;
}

/* Takes the processes and files over from those that made them: what process 1 sent before it
 * became the guest. */
static int ns_take_over(struct ns_machine *m, struct error *err)
{
    int r = spawn_finish(&m->start->spawning, &m->start->plan, &m->guest.pid, err);
    m->start = ns_start_free(m->start);
    if (r < 0)
        return r;
    m->guest.pidfd = sys_pidfd_open(m->guest.pid, 0);
    if (m->disk)
        store_set_process(m->disk, m->guest.pidfd);
    const struct box_limits counted = ns_counted_limits(m);
    r = cgroup_started(m->cgroup, &counted, err);
    if (r < 0)
        return r;

    int fds[3] = {-1, -1, -1};
    size_t n = 0;
    char byte;
    ssize_t got = io_recv_fds(m->guest.control, &byte, 1, fds, ARRAY_SIZE(fds), &n, 0);
    if (got == -ECONNRESET) /* it has ended and left a request unread; what it sent comes next */
        got = io_recv_fds(m->guest.control, &byte, 1, fds, ARRAY_SIZE(fds), &n, 0);
    if (got != 1 || byte != 'H' || n < 2)
        return error_set(err, EPROTO, "the box did not start: its process 1 handed nothing over");
    m->store = fds[0];
    m->mntns = fds[1];
    m->listener = fds[2];
    return 0;
}

struct ns_machine *ns_machine(struct machine *m)
{
    return m->backend == &BACKEND_NS ? (struct ns_machine *)m : NULL;
}

static int ns_wait(struct machine *base, struct error *err)
{
    struct ns_machine *m = ns_machine(base);
    pthread_mutex_lock(&m->lock);
    if (m->start)
        ns_take_over(m, &m->failure);
    int code = m->failure.code;
    if (code && err)
        *err = m->failure;
    pthread_mutex_unlock(&m->lock);
    return -code;
}

static int ns_connect(struct machine *m, struct buf *request, const int *fds, size_t n_fds,
                      int *ret_fd)
{
    return guest_connect(&ns_machine(m)->guest, request, fds, n_fds, ret_fd);
}

static void ns_kill(struct machine *m)
{
    guest_kill(&ns_machine(m)->guest);
}

static void ns_status(struct machine *m, int wait_ms, struct machine_status *ret)
{
    guest_status(&ns_machine(m)->guest, wait_ms, ret);
}

static void ns_close(struct machine *base)
{
    struct ns_machine *m = ns_machine(base);
    ns_wait(base, NULL);
    /* Without a snapshot nobody needs the mounts any more: the kernel takes them down while process
     * 1 ends, on its processor. */
    if (__atomic_load_n(&base->refs, __ATOMIC_ACQUIRE) <= 1) {
        cleanup_close(&m->mntns);
        m->mntns = -1;
    }
    guest_end(&m->guest);
    m->cgroup = cgroup_release(m->cgroup);
    cleanup_close(&m->listener);
    m->listener = -1;
}

static void ns_free(struct machine *base)
{
    struct ns_machine *m = ns_machine(base);
    ns_close(base);
    for (size_t i = 0; i < m->layout.n_shares; i++)
        free(m->layout.shares[i].at);
    cleanup_close(&m->store);
    cleanup_close(&m->mntns);
    cleanup_close(&m->userns);
    if (m->disk)
        store_unref(m->disk); /* last: the mounts are gone, and nothing writes there any more */
    pthread_mutex_destroy(&m->lock);
    free(m);
}

int ns_namespaces(const struct layout *l)
{
    int flags = CLONE_NEWNS | CLONE_NEWCGROUP;
    if (!weakened("pid"))
        flags |= CLONE_NEWPID;
    if (!weakened("ipc"))
        flags |= CLONE_NEWIPC;
    if (!weakened("uts"))
        flags |= CLONE_NEWUTS;
    if (!l->host_network && !weakened("net"))
        flags |= CLONE_NEWNET;
    return flags;
}

/* Starts process 1 by the plan, which the machine takes over; ns_wait says when it is up. */
static int ns_spawn(struct ns_machine *m, struct ns_start **start, int mntns, struct error *err)
{
    _cleanup_fd_ int theirs = -1;
    struct spawn s = {.plan = &(*start)->plan,
                      .userns = m->userns,
                      .mntns = mntns,
                      .namespaces = ns_namespaces(&m->layout),
                      .outer_proc = mntns < 0 && m->ids.clones && outer_proc_is_masked(),
                      .cpus = cgroup_limits_cpus(m->cgroup) ? 0 : m->limits.cpus};
    s.cgroups = cgroup_joins(m->cgroup, &s.n_cgroups);
    s.birthplace = cgroup_birthplace(m->cgroup);
    int r = guest_control(&m->guest, &theirs);
    if (r < 0)
        return error_errno(err, -r, "the box did not start: cannot make a socket");
    s.control = theirs;
    /* Before the first process joins the group: until then it has the limits of the last box that
     * used it. */
    const struct box_limits counted = ns_counted_limits(m);
    r = cgroup_begin(m->cgroup, &counted, err);
    if (r == 0)
        r = spawn_begin(&s, &(*start)->spawning, err);
    if (r == 0)
        m->start = TAKE_PTR(*start);
    return r;
}

/* A box and its files in memory must fit there. In a container, whose processes are all killed when
 * they use more memory than its control group allows, they get at most three quarters. */
static int ns_check_memory(uint64_t memory, uint64_t files, const struct error *no_disk,
                           struct error *err)
{
    bool limited;
    uint64_t total = host_memory(&limited), most = HOST_MEMORY_FOR_BOX(total);
    if (memory > total)
        return error_set(err, ENOMEM,
                         "--memory: %llu MiB is more than this machine has; use at most %lluM",
                         (unsigned long long)(memory >> 20), (unsigned long long)(total >> 20));
    if (files > total / 2)
        return error_set(
            err, ENOSPC,
            "--disk: %lluM is more than half of the memory here (the most is %lluM), and the box "
            "cannot have a store on disk: %s",
            (unsigned long long)(files >> 20), (unsigned long long)(total / 2 >> 20),
            no_disk->code ? no_disk->text : "it was asked to be in memory");
    if (!limited || memory + files <= most)
        return 0;
    return error_set(
        err, ENOMEM,
        "--memory and --disk: %llu MiB and %llu MiB are too much where a control group allows "
        "%llu MiB (is this a container?); both together may be at most %lluM",
        (unsigned long long)(memory >> 20), (unsigned long long)(files >> 20),
        (unsigned long long)(total >> 20), (unsigned long long)(most >> 20));
}

/* User xattrs on a tmpfs came with Linux 6.6. Without them an overlay cannot remove a folder. */
static bool tmpfs_has_user_xattrs(void)
{
    struct utsname u;
    unsigned major = 0, minor = 0;
    return uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2 || major > 6 ||
           (major == 6 && minor >= 6);
}

static void ns_use_store(struct ns_machine *m)
{
    struct store_folder folder = {.mount = -1};
    if (m->disk)
        folder = store_folder(m->disk);
    m->layout.disk_path = folder.path;
    m->layout.disk_mount = folder.mount;
    m->layout.disk_is_watched = m->disk && !folder.has_quota;
}

/* The one place that decides where a box's files are. Without a filesystem that fits, memory serves
 * if it is large enough. */
static int ns_choose_store(struct ns_machine *m, const struct box_options *o, struct error *err)
{
    struct error no_disk = {0};
    bool on_disk = o->store == BOX_STORE_DISK ||
                   (o->store == BOX_STORE_AUTO &&
                    (o->limits.disk > BOX_MEMORY_STORE_MAX || !tmpfs_has_user_xattrs()));
    if (on_disk) {
        const struct store_options want = {
            .ids = &m->ids, .userns = m->userns, .disk = o->limits.disk};
        int r = store_open(&want, &m->disk, &no_disk);
        if (r == -ENOSPC) {
            *err = no_disk;
            return r;
        }
        if (r == 0) {
            ns_use_store(m);
            return ns_check_memory(o->limits.memory, 0, &no_disk, err);
        }
    }
    return ns_check_memory(o->limits.memory, o->limits.disk, &no_disk, err);
}

/* A link must not take the place of anything that a box is made of: what is mounted there would
 * follow it. */
static int ns_add_link(struct ns_machine *m, const struct box_link *l, struct error *err)
{
    static const char *const TAKEN[] = {"bin",   "dev",    "etc",  "home",     "lib",  "lib32",
                                        "lib64", "libx32", "proc", "run",      "sbin", "sys",
                                        "tmp",   "usr",    "var",  "workspace"};
    const char *name = l->at[0] == '/' ? l->at + 1 : "";
    if (!*name || *name == '.' || strchr(name, '/') || strlen(l->at) >= BOX_LINK_SIZE ||
        strlen(l->to) >= BOX_LINK_SIZE || !*l->to)
        return error_set(err, EINVAL,
                         "cannot make the link %.200s: it must be at the top of the box", l->at);
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (strcmp(name, TAKEN[i]) == 0)
            return error_set(err, EINVAL,
                             "cannot make the link %.200s: the box has something else there",
                             l->at);
    size_t i = m->layout.n_links++;
    snprintf(m->layout.links[i].at, BOX_LINK_SIZE, "%s", l->at);
    snprintf(m->layout.links[i].to, BOX_LINK_SIZE, "%s", l->to);
    return 0;
}

static int ns_fill_layout(struct ns_machine *m, const struct box_options *o, struct error *err)
{
    struct layout *l = &m->layout;
    m->limits = o->limits;
    *l = (struct layout){.mode = o->mode,
                         .host_network = o->net->uses_host,
                         .has_proxy = box_has_proxy(o),
                         .adjustable = o->adjustable,
                         .has_image = o->image != NULL,
                         .has_workspace = o->workspace != NULL,
                         .warm = o->warm,
                         .disk = o->limits.disk,
                         .pids = o->limits.pids,
                         .files = o->limits.files,
                         .memory = o->limits.memory,
                         .cpus = o->limits.cpus,
                         .has_git_mask = o->git_mask && o->mode == BOX_COW && o->workspace};
    snprintf(l->git_config, BOX_GIT_SIZE, "%s", o->git_config ? o->git_config : "");
    snprintf(l->git_mask, BOX_GIT_MASK_SIZE, "%s", o->git_mask ? o->git_mask : "");
    for (size_t i = 0; i < o->n_shares; i++) {
        l->shares[i].writable = o->shares[i].writable;
        l->shares[i].is_file = o->shares[i].is_file;
        l->shares[i].at = strdup(o->shares[i].at);
        if (!l->shares[i].at)
            return error_errno(err, ENOMEM, "the box did not start");
        l->n_shares++;
    }
    for (size_t i = 0; i < o->n_links; i++) {
        int r = ns_add_link(m, &o->links[i], err);
        if (r < 0)
            return r;
    }
    if (o->workspace && !o->hide_path)
        layout_set_own_path(l, o->workspace);
    return 0;
}

static const struct layout_sources NO_SOURCES = {
    .guest_fd = -1,
    .skeleton_fd = -1,
    .workspace_fd = -1,
    .image_fd = -1,
    .etc_fd = -1,
    .share_fds = {[0 ... BOX_SHARES_MAX - 1] = -1},
};

static void layout_sources_close(struct layout_sources *f)
{
    cleanup_close(&f->guest_fd);
    cleanup_close(&f->skeleton_fd);
    cleanup_close(&f->workspace_fd);
    cleanup_close(&f->image_fd);
    cleanup_close(&f->etc_fd);
    for (size_t i = 0; i < BOX_SHARES_MAX; i++)
        cleanup_close(&f->share_fds[i]);
}

/* The paths of what comes with hutch: the sources point there. */
struct ns_paths {
    char guest[LIBEXEC_PATH_MAX];
    char skeleton[LIBEXEC_PATH_MAX];
};

/* The user namespace of the box and its forks, and what is shown in it. Root picks the folders up
 * itself, id-mapped if it can; an ordinary user's child clones them by path. */
static int ns_find_sources(struct ns_machine *m, const struct box_options *o,
                           struct layout_sources *f, struct ns_paths *paths, struct error *err)
{
    int r = idmap_family_namespace(&m->ids, &m->userns, err);
    if (r == 0)
        r = libexec_find("hutch-guest", paths->guest, err);
    if (r == 0)
        r = libexec_find(o->image ? "hutch-skeleton/image" : "hutch-skeleton/host", paths->skeleton,
                         err);
    f->guest = paths->guest;
    f->skeleton = paths->skeleton;
    f->workspace = o->workspace;
    f->image = o->image;
    for (size_t i = 0; i < o->n_shares; i++)
        f->share_paths[i] = o->shares[i].source;
    if (r < 0 || !m->ids.clones)
        return r;

    r = idmap_plain_clone(f->guest, &f->guest_fd, err);
    if (r == 0)
        r = idmap_plain_clone(f->skeleton, &f->skeleton_fd, err);
    if (r == 0 && o->workspace)
        r = idmap_folder(o->workspace, &m->ids, o->mode == BOX_DIRECT, &f->workspace_fd, err);
    if (r == 0 && o->image)
        r = idmap_folder(o->image, &m->ids, false, &f->image_fd, err);
    for (size_t i = 0; r == 0 && i < o->n_shares; i++)
        r = idmap_folder(o->shares[i].source, &m->ids, o->shares[i].writable, &f->share_fds[i],
                         err);
    return r;
}

/* First as root should; the plain way (idmap.h) where the host refuses that to root. */
static int ns_prepare(struct ns_machine *m, const struct box_options *o, struct layout_sources *f,
                      struct ns_paths *paths, struct error *err)
{
    int r = idmap_choose(o->workspace, &m->ids, err);
    if (r < 0)
        return r;
    r = ns_find_sources(m, o, f, paths, err);
    if (r == 0 || !m->ids.mapped || !idmap_is_refusal(r))
        return r;
    layout_sources_close(f);
    *f = NO_SOURCES;
    cleanup_close(&m->userns);
    m->userns = -1;
    r = idmap_choose_plain(o->workspace, err->text, &m->ids, err);
    return r < 0 ? r : ns_find_sources(m, o, f, paths, err);
}

static int ns_open_fresh(struct ns_machine *m, const struct box_options *o, struct error *err)
{
    struct ns_paths paths;
    _cleanup_(layout_sources_close) struct layout_sources from = NO_SOURCES;
    _cleanup_(etc_view_free) struct etc_view etc = {0};
    int r = ns_prepare(m, o, &from, &paths, err);
    if (r < 0)
        return r;
    m->layout.selection.owner = m->ids.uid;
    selection_scan(&m->layout.selection);

    /* What of /etc this box shows. As root we pick it up ourselves, without what is mounted inside;
     * the child could not leave that out, for the kernel holds such mounts together in its
     * namespaces. */
    if (!o->image) {
        r = etc_view_read(&etc);
        if (r < 0)
            return error_errno(err, -r, "the box did not start: cannot look through /etc");
        from.etc = &etc;
        m->layout.selection.etc_in_parts = etc.has_mounts && !m->ids.clones;
        r = m->ids.clones ? idmap_single_clone("/etc", &from.etc_fd, err) : 0;
        if (r < 0)
            return r;
    }
    r = ns_choose_store(m, o, err);
    if (r < 0)
        return r;
    _cleanup_(ns_start_freep) struct ns_start *start = ns_start_new();
    if (!start)
        return error_errno(err, ENOMEM, "the box did not start");
    layout_fresh(&start->plan, &m->layout, &from);
    return ns_spawn(m, &start, -1, err);
}

static int ns_open(const struct box_options *o, struct machine **ret, struct error *err)
{
    _cleanup_ns_ struct ns_machine *m = ns_new();
    if (!m)
        return error_errno(err, ENOMEM, "the box did not start");
    int r = ns_fill_layout(m, o, err);
    if (r == 0)
        r = cgroup_acquire(&o->limits, o->one_shot, &m->cgroup, err);
    if (r < 0)
        return r;
    m->layout.counted = m->cgroup != NULL;
    /* Whole processors can be had without control groups (by affinity), parts of one cannot. */
    if (!cgroup_limits_cpus(m->cgroup) && m->limits.cpus != (double)(int)m->limits.cpus)
        return error_set(err, EOPNOTSUPP,
                         "--cpus: a fraction of a processor needs control groups, which are not "
                         "available here (see 'hutch doctor'); use a whole number");
    r = ns_open_fresh(m, o, err);
    if (r == 0)
        *ret = &TAKE_PTR(m)->base;
    return r;
}

/* All snapshots of a machine are flattened, or none is. */
static bool ns_flattens(const struct ns_machine *m)
{
    return m->layout.n_layers + 1 >= LAYERS_MAX;
}

/* The fork's layout is its source's, one layer deeper, or with the one flattened layer alone. */
static int ns_inherit(struct ns_machine *m, const struct ns_machine *from, unsigned snapshot)
{
    m->ids = from->ids;
    m->limits = from->limits;
    m->layout = from->layout;
    m->layout.n_layers = !snapshot           ? from->layout.n_layers
                         : ns_flattens(from) ? 1
                                             : from->layout.n_layers + 1;
    m->layout.n_shares = 0;
    for (size_t i = 0; i < from->layout.n_shares; i++) {
        m->layout.shares[i].at = strdup(from->layout.shares[i].at);
        if (!m->layout.shares[i].at)
            return -ENOMEM;
        m->layout.n_shares++;
    }
    m->userns = fcntl(from->userns, F_DUPFD_CLOEXEC, 0);
    return m->userns < 0 ? -errno : 0;
}

static int ns_fork(struct machine *base, unsigned snapshot, struct machine **ret, struct error *err)
{
    struct ns_machine *from = ns_machine(base);
    _cleanup_ns_ struct ns_machine *m = ns_new();
    int r = m ? ns_inherit(m, from, snapshot) : -ENOMEM;
    if (r < 0)
        return error_errno(err, -r, "the fork did not start");
    r = from->disk ? store_fork(from->disk, &m->disk, err) : 0;
    if (r == 0)
        r = cgroup_acquire(&m->limits, false, &m->cgroup, err);
    if (r < 0)
        return r;
    ns_use_store(m);
    m->layout.counted = m->cgroup != NULL;
    _cleanup_(ns_start_freep) struct ns_start *start = ns_start_new();
    if (!start)
        return error_errno(err, ENOMEM, "the fork did not start");
    start->plan.fds[SLOT_SOURCE] = from->store;
    layout_fork(&start->plan, &m->layout, snapshot);
    r = ns_spawn(m, &start, from->mntns, err);
    if (r == 0)
        *ret = &TAKE_PTR(m)->base;
    return r;
}

/* A diff worker is outside of the box's control group: a box that used up its limits can still be
 * looked at. */
static int ns_diff_worker(struct machine *base, struct new_snapshot *snapshot, struct machine **ret,
                          struct error *err)
{
    static const struct layout NO_NETWORK = {0};
    const struct ns_machine *m = ns_machine(base);
    _cleanup_(plan_free) struct plan plan;
    _cleanup_ns_ struct ns_machine *worker = ns_new();
    _cleanup_fd_ int theirs = -1;
    if (plan_init(&plan) < 0 || !worker)
        return error_errno(err, ENOMEM, "the diff worker did not start");
    plan.fds[SLOT_SOURCE] = m->store;
    layout_diff_worker(&plan, &m->layout, snapshot ? snapshot->number : 0);
    int r = guest_control(&worker->guest, &theirs);
    if (r < 0)
        return error_errno(err, -r, "the diff worker did not start: cannot make a socket");
    struct spawn s = {.plan = &plan,
                      .userns = m->userns,
                      .mntns = m->mntns,
                      .namespaces = ns_namespaces(&NO_NETWORK),
                      .birthplace = -1,
                      .control = theirs};
    r = spawn(&s, &worker->guest.pid, err);
    if (r < 0)
        return r;
    worker->guest.pidfd = sys_pidfd_open(worker->guest.pid, 0);
    if (snapshot)
        snapshot->flatten = ns_flattens(m);
    *ret = &TAKE_PTR(worker)->base;
    return 0;
}

static void ns_usage(struct machine *base, unsigned detail, struct usage *ret)
{
    struct ns_machine *m = ns_machine(base);
    struct statfs fs;
    ret->counted = m->cgroup != NULL;
    if (m->cgroup && detail & USAGE_COUNTERS) {
        struct cgroup_usage u;
        cgroup_read(m->cgroup, detail & USAGE_MEMORY, &u);
        ret->cpu_ns = u.cpu_ns;
        ret->memory = u.memory;
        ret->sockets = u.sockets;
        ret->oom_kills = u.oom_kills;
        ret->pids_hits = u.pids_hits;
    }
    if (m->disk) {
        struct store_report now;
        store_look(m->disk, &now);
        ret->disk_watched = true;
        ret->disk_bytes = now.bytes;
        ret->disk_full = (now.over_limit || now.host_full) && !weakened("disk");
        ret->disk_exact = now.exact;
        ret->host_disk_full = now.host_full;
        ret->disk_lost = now.unwatched;
        /* The free space of a filesystem on disk changes with what others do, so the store process
         * looks at the names. If it does not answer, no number is ever the same; the hash is odd,
         * these are even. */
        if (detail & USAGE_DISK_STATE && store_names(m->disk, &ret->disk_state) < 0)
            ret->disk_state = 2 * __atomic_add_fetch(&m->looks, 1, __ATOMIC_RELAXED);
    } else if (fstatfs(m->store, &fs) == 0) {
        ret->disk_full = fs.f_bfree == 0 || fs.f_ffree == 0;
        ret->disk_state = (uint64_t)fs.f_ffree << 32 ^ (uint64_t)fs.f_bfree;
    }
}

/* Commands that start later run on the first `cpus` processors that hutch may use; 0: on all of
 * them. */
static int ns_set_affinity(const struct ns_machine *m, double cpus, struct error *err)
{
    cpu_set_t all, some;
    int left = cpus > 0 ? (int)cpus : CPU_SETSIZE;
    if (cpus != (double)(int)cpus)
        return error_set(err, EOPNOTSUPP,
                         "--cpus: a fraction of a processor needs a control group, which this box "
                         "does not have (see 'hutch doctor'); use a whole number");
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) < 0)
        return error_errno(err, errno, "cannot read which processors there are");
    for (int i = 0; i < CPU_SETSIZE && left > 0; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &some);
            left--;
        }
    if (sched_setaffinity(m->guest.pid, sizeof some, &some) < 0)
        return error_errno(err, errno, "cannot change the processors of the box");
    return 0;
}

/* The group's limit where there is one. Else the guest's, which its later children inherit: a user
 * may lower it, and only root may raise it. */
static int ns_set_pids(struct ns_machine *m, const struct box_limits *l, struct error *err)
{
    struct rlimit value = {.rlim_cur = l->pids + GUEST_TASKS, .rlim_max = l->pids + GUEST_TASKS};
    if (m->cgroup)
        return cgroup_change(m->cgroup, l, BOX_SET_PIDS, err);
    if (prlimit(m->guest.pid, RLIMIT_NPROC, &value, NULL) == 0)
        return 0;
    if (errno == EPERM)
        return error_set(
            err, EPERM,
            "--pids: without control groups a running box cannot get more processes than it"
            " began with; make a new box with --pids %llu",
            (unsigned long long)l->pids);
    return error_errno(err, errno, "cannot change the number of processes of the box");
}

static int ns_set_limits(struct machine *base, const struct box_limits *l, unsigned fields,
                         struct error *err)
{
    struct ns_machine *m = ns_machine(base);
    int r = ns_wait(base, err);
    if (r == 0 && fields & BOX_SET_MEMORY && m->cgroup)
        r = cgroup_change(m->cgroup, l, BOX_SET_MEMORY, err);
    if (r == 0 && fields & BOX_SET_PIDS)
        r = ns_set_pids(m, l, err);
    if (r == 0 && fields & BOX_SET_CPUS)
        r = cgroup_limits_cpus(m->cgroup) ? cgroup_change(m->cgroup, l, BOX_SET_CPUS, err)
                                          : ns_set_affinity(m, l->cpus, err);
    if (r < 0)
        return r;
    m->limits = *l; /* its forks begin with them */
    m->layout.pids = l->pids;
    m->layout.memory = l->memory;
    m->layout.cpus = l->cpus;

    /* The box sees these files on a read-only mount: nobody but us writes them. */
    struct limit_file files[LIMIT_FILES];
    layout_limit_files(&m->layout, files);
    for (size_t i = 0; i < LIMIT_FILES; i++) {
        _cleanup_fd_ int fd =
            openat(m->store, files[i].path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            io_write_all(fd, files[i].text, strlen(files[i].text));
    }
    return 0;
}

static int ns_listener(struct machine *m)
{
    return ns_machine(m)->listener;
}

const struct backend BACKEND_NS = {
    .name = "ns",
    .open = ns_open,
    .wait = ns_wait,
    .connect = ns_connect,
    .kill = ns_kill,
    .close = ns_close,
    .free = ns_free,
    .status = ns_status,
    .usage = ns_usage,
    .set_limits = ns_set_limits,
    .listener = ns_listener,
    .fork = ns_fork,
    .diff_worker = ns_diff_worker,
};
