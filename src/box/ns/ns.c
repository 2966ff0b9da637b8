/*
 * The backend `ns`: namespaces, seccomp, Landlock, cgroups, overlayfs.
 *
 * A place holds the descriptors of the box's user and mount namespaces and of its store. As long as they are
 * open the box's files exist, though no path leads to them; when the last is closed the kernel frees
 * everything. So nothing has to be cleaned up after a crash, and a snapshot outlives its box by holding them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend.h"
#include "cgroup.h"
#include "idmap.h"
#include "io.h"
#include "parts.h"
#include "place.h"
#include "selection.h"
#include "sys.h"
#include "weaken.h"
#include "banned.h"

static struct place *place_ref(struct place *p)
{
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

static void place_kill(struct place *p)
{
    guest_kill(&p->guest);
}

static int place_ready(struct place *p, struct error *err);

static void place_end(struct place *p)
{
    place_ready(p, NULL);
    guest_end(&p->guest);
    p->cgroup = cgroup_release(p->cgroup);
    cleanup_close(&p->listener);
    p->listener = -1;
}

static void place_unref(struct place *p)
{
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    place_end(p);
    for (size_t i = 0; i < p->layout.n_shares; i++)
        free(p->layout.shares[i].at);
    cleanup_close(&p->store);
    cleanup_close(&p->mntns);
    cleanup_close(&p->userns);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void place_drop(struct place **p)
{
    place_unref(*p);
}

static struct place *place_new(void)
{
    struct place *p = calloc(1, sizeof *p);
    if (p) {
        p->refs = 1;
        p->guest = GUEST_NONE;
        p->userns = p->mntns = p->store = p->listener = -1;
        pthread_mutex_init(&p->lock, NULL);
    }
    return p;
}

int place_namespaces(enum box_net net)
{
    int flags = CLONE_NEWNS | CLONE_NEWCGROUP;
    if (!weakened("pid"))
        flags |= CLONE_NEWPID;
    if (!weakened("ipc"))
        flags |= CLONE_NEWIPC;
    if (!weakened("uts"))
        flags |= CLONE_NEWUTS;
    if (net != BOX_NET_HOST && !weakened("net"))
        flags |= CLONE_NEWNET;
    return flags;
}

static int control_pair(int *ret_ours, int *ret_theirs, struct error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_errno(err, errno, "cannot make a socket");
    *ret_ours = ends[0];
    *ret_theirs = ends[1];
    return 0;
}

/* What process 1 sent before it became the guest. */
static int take_handover(struct place *p, struct error *err)
{
    int fds[3] = {-1, -1, -1};
    size_t n = 0;
    char byte;
    ssize_t got = io_recv_fds(p->guest.control, &byte, 1, fds, ARRAY_SIZE(fds), &n, 0);
    if (got != 1 || byte != 'H' || n < 2)
        return error_set(err, EPROTO, "the box did not start: nothing was handed over");
    p->store = fds[0];
    p->mntns = fds[1];
    p->listener = fds[2];
    return 0;
}

static struct starting *starting_free(struct starting *s)
{
    if (s)
        plan_free(&s->plan);
    free(s);
    return NULL;
}

static void starting_drop(struct starting **s)
{
    starting_free(*s);
}

static struct starting *starting_new(void)
{
    struct starting *s = calloc(1, sizeof *s);
    return s && plan_init(&s->plan) < 0 ? starting_free(s) : s;
}

/* Starts process 1 by the plan, of which the place becomes the owner; it is up when place_ready says so. */
static int populate(struct place *p, struct starting **starting, int mntns, struct error *err)
{
    _cleanup_fd_ int theirs = -1;
    struct spawn s = {.plan = &(*starting)->plan,
                      .userns = p->userns,
                      .mntns = mntns,
                      .namespaces = place_namespaces(p->layout.net),
                      .cpus = cgroup_limits_cpus(p->cgroup) ? 0 : p->limits.cpus};
    s.cgroups = cgroup_joins(p->cgroup, &s.n_cgroups);
    s.birthplace = cgroup_birthplace(p->cgroup);
    int r = control_pair(&p->guest.control, &theirs, err);
    if (r < 0)
        return r;
    s.control = theirs;
    r = spawn_begin(&s, &(*starting)->spawning, err);
    if (r < 0)
        return r;
    p->starting = TAKE_PTR(*starting);
    return cgroup_begin(p->cgroup, &p->limits, err);
}

/* Takes the place's processes and files over from who made them. */
static int take_over(struct place *p, struct error *err)
{
    int r = spawn_finish(&p->starting->spawning, &p->starting->plan, &p->guest.pid, err);
    p->starting = starting_free(p->starting);
    if (r < 0)
        return r;
    p->guest.pidfd = sys_pidfd_open(p->guest.pid, 0);
    return take_handover(p, err);
}

static int place_ready(struct place *p, struct error *err)
{
    pthread_mutex_lock(&p->lock);
    if (p->starting)
        take_over(p, &p->failure);
    int code = p->failure.code;
    if (code && err)
        *err = p->failure;
    pthread_mutex_unlock(&p->lock);
    return -code;
}

/* The store lives in memory, so it must fit there: a box that could fill the host's memory does not start. */
static int check_disk(uint64_t disk, struct error *err)
{
    struct sysinfo info;
    if (sysinfo(&info) < 0)
        return 0;
    uint64_t total = (uint64_t)info.totalram * info.mem_unit;
    if (disk <= total / 2)
        return 0;
    return error_set(
        err, ENOSPC,
        "--disk: what a box writes is kept in memory, and %llu MiB is more than half of this host's; "
        "the most is %lluM (or use --mode direct)",
        (unsigned long long)(disk >> 20), (unsigned long long)(total / 2 >> 20));
}

/* Whole processors can be had without control groups (by affinity), parts of one cannot. */
static int check_cpus(const struct place *p, struct error *err)
{
    if (cgroup_limits_cpus(p->cgroup) || p->limits.cpus == (double)(int)p->limits.cpus)
        return 0;
    return error_set(
        err, EOPNOTSUPP,
        "--cpus: a part of a processor needs control groups, which are not to be had here (hutch doctor "
        "tells more); a whole number works");
}

/* A link must not take the place of anything that a box is made of: what is mounted there would follow it. */
static int check_link(const struct box_link *l, struct error *err)
{
    static const char *const TAKEN[] = {"bin",  "dev", "etc",  "home", "lib", "lib32", "lib64", "libx32",
                                        "proc", "run", "sbin", "sys",  "tmp", "usr",   "var",   "workspace"};
    const char *name = l->at[0] == '/' ? l->at + 1 : "";
    if (!*name || *name == '.' || strchr(name, '/') || strlen(l->at) >= BOX_LINK_SIZE ||
        strlen(l->to) >= BOX_LINK_SIZE || !*l->to)
        return error_set(err, EINVAL, "a link %.200s cannot be had: it must lie at the top of the box",
                         l->at);
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (strcmp(name, TAKEN[i]) == 0)
            return error_set(err, EINVAL, "a link %.200s cannot be had: a box has something else there",
                             l->at);
    return 0;
}

static int fill_links(struct place *p, const struct box_options *o, struct error *err)
{
    int r = 0;
    for (size_t i = 0; i < o->n_links && r == 0; i++) {
        r = check_link(&o->links[i], err);
        if (r < 0)
            break;
        snprintf(p->layout.links[i].at, BOX_LINK_SIZE, "%s", o->links[i].at);
        snprintf(p->layout.links[i].to, BOX_LINK_SIZE, "%s", o->links[i].to);
        p->layout.n_links++;
    }
    return r;
}

static int fill_layout(struct place *p, const struct box_options *o)
{
    p->limits = o->limits;
    p->layout = (struct layout){.mode = o->mode,
                                .net = o->net,
                                .has_image = o->image != NULL,
                                .has_workspace = o->workspace != NULL,
                                .warm = o->warm,
                                .disk = o->limits.disk,
                                .pids = o->limits.pids,
                                .files = o->limits.files};
    for (size_t i = 0; i < o->n_shares; i++) {
        p->layout.shares[i].writable = o->shares[i].writable;
        p->layout.shares[i].at = strdup(o->shares[i].at);
        if (!p->layout.shares[i].at)
            return -ENOMEM;
        p->layout.n_shares++;
    }
    return 0;
}

static void close_sources(struct layout_sources *f)
{
    cleanup_close(&f->guest_fd);
    cleanup_close(&f->skeleton_fd);
    cleanup_close(&f->workspace_fd);
    cleanup_close(&f->image_fd);
    for (size_t i = 0; i < BOX_SHARES_MAX; i++)
        cleanup_close(&f->share_fds[i]);
}

/* As root the folders come id-mapped; an ordinary user's child clones them by path, as the same user. */
static int map_sources(const struct place *p, const struct box_options *o, struct layout_sources *f,
                       struct error *err)
{
    int r = idmap_plain_clone(f->guest, &f->guest_fd, err);
    if (r == 0)
        r = idmap_plain_clone(f->skeleton, &f->skeleton_fd, err);
    if (r == 0 && o->workspace)
        r = idmap_folder(o->workspace, &p->ids, o->mode == BOX_DIRECT, &f->workspace_fd, err);
    if (r == 0 && o->image)
        r = idmap_folder(o->image, &p->ids, false, &f->image_fd, err);
    for (size_t i = 0; r == 0 && i < o->n_shares; i++)
        r = idmap_folder(o->shares[i].source, &p->ids, o->shares[i].writable, &f->share_fds[i], err);
    return r;
}

/* The parts of hutch itself that a box is made of. */
struct part_paths {
    char guest[PARTS_PATH_MAX];
    char skeleton[PARTS_PATH_MAX];
};

static int find_parts(struct part_paths *paths, bool image, struct error *err)
{
    int r = parts_find("hutch-guest", paths->guest, err);
    if (r == 0)
        r = parts_find(image ? "hutch-skeleton/image" : "hutch-skeleton/host", paths->skeleton, err);
    return r;
}

static int find_sources(const struct place *p, const struct box_options *o, struct layout_sources *f,
                        struct part_paths *parts, struct error *err)
{
    *f = (struct layout_sources){.guest = parts->guest,
                                 .skeleton = parts->skeleton,
                                 .workspace = o->workspace,
                                 .image = o->image,
                                 .guest_fd = -1,
                                 .skeleton_fd = -1,
                                 .workspace_fd = -1,
                                 .image_fd = -1};
    for (size_t i = 0; i < BOX_SHARES_MAX; i++) {
        f->share_paths[i] = i < o->n_shares ? o->shares[i].source : NULL;
        f->share_fds[i] = -1;
    }
    int r = find_parts(parts, o->image != NULL, err);
    return r < 0 || !p->ids.mapped ? r : map_sources(p, o, f, err);
}

static int open_fresh(struct place *p, const struct box_options *o, struct error *err)
{
    struct part_paths parts;
    _cleanup_(close_sources) struct layout_sources from;
    int r = find_sources(p, o, &from, &parts, err);
    if (r < 0)
        return r;
    _cleanup_(starting_drop) struct starting *s = starting_new();
    if (!s)
        return error_errno(err, ENOMEM, "the box did not start");
    selection_scan(&p->layout.selection);
    layout_fresh(&s->plan, &p->layout, &from);
    return populate(p, &s, -1, err);
}

static int ns_open(const struct box_options *o, struct place **ret, struct error *err)
{
    _cleanup_(place_drop) struct place *p = place_new();
    if (!p || fill_layout(p, o) < 0)
        return error_errno(err, ENOMEM, "the box did not start");
    int r = check_disk(o->limits.disk, err);
    if (r == 0)
        r = fill_links(p, o, err);
    if (r == 0)
        r = idmap_choose(&p->ids, err);
    if (r == 0)
        r = idmap_user_namespace(AGENT_ID, p->ids.uid, AGENT_ID, p->ids.gid, &p->userns, err);
    if (r == 0)
        r = cgroup_acquire(&o->limits, o->one_shot, &p->cgroup, err);
    p->layout.counted = p->cgroup != NULL;
    if (r == 0)
        r = check_cpus(p, err);
    if (r == 0)
        r = open_fresh(p, o, err);
    if (r == 0)
        *ret = TAKE_PTR(p);
    return r;
}

/* The fork's layout is its source's, one layer deeper, or with the one flattened layer alone. */
static int inherit(struct place *p, const struct place *from, unsigned snapshot, bool flattened)
{
    p->ids = from->ids;
    p->limits = from->limits;
    p->layout = from->layout;
    p->layout.n_layers = flattened ? 1 : from->layout.n_layers + (snapshot ? 1 : 0);
    p->layout.n_shares = 0;
    for (size_t i = 0; i < from->layout.n_shares; i++) {
        p->layout.shares[i].at = strdup(from->layout.shares[i].at);
        if (!p->layout.shares[i].at)
            return -ENOMEM;
        p->layout.n_shares++;
    }
    p->userns = fcntl(from->userns, F_DUPFD_CLOEXEC, 0);
    return p->userns < 0 ? -errno : 0;
}

static int ns_fork(struct place *from, unsigned snapshot, bool flattened, struct place **ret,
                   struct error *err)
{
    _cleanup_(place_drop) struct place *p = place_new();
    if (!p || inherit(p, from, snapshot, flattened) < 0)
        return error_errno(err, ENOMEM, "the fork did not start");
    int r = cgroup_acquire(&p->limits, false, &p->cgroup, err);
    if (r < 0)
        return r;
    p->layout.counted = p->cgroup != NULL;
    _cleanup_(starting_drop) struct starting *s = starting_new();
    if (!s)
        return error_errno(err, ENOMEM, "the fork did not start");
    s->plan.fds[SLOT_SOURCE] = from->store;
    layout_fork(&s->plan, &p->layout, snapshot);
    r = populate(p, &s, from->mntns, err);
    if (r == 0)
        *ret = TAKE_PTR(p);
    return r;
}

/* A scribe is outside of the box's control group: a box that used up its limits can still be looked at. */
static int ns_scribe(struct place *p, unsigned snapshot, struct guest *ret, struct error *err)
{
    _cleanup_(plan_free) struct plan plan;
    if (plan_init(&plan) < 0)
        return error_errno(err, ENOMEM, "the scribe did not start");
    plan.fds[SLOT_SOURCE] = p->store;
    layout_scribe(&plan, &p->layout, snapshot);
    struct guest g = GUEST_NONE;
    _cleanup_fd_ int theirs = -1;
    int r = control_pair(&g.control, &theirs, err);
    if (r < 0)
        return r;
    struct spawn s = {.plan = &plan,
                      .userns = p->userns,
                      .mntns = p->mntns,
                      .namespaces = place_namespaces(BOX_NET_OFF),
                      .birthplace = -1,
                      .control = theirs};
    r = spawn(&s, &g.pid, err);
    if (r < 0) {
        close(g.control);
        return r;
    }
    g.pidfd = sys_pidfd_open(g.pid, 0);
    *ret = g;
    return 0;
}

/* The mounts then go with process 1, on its processor and in its time. */
static void ns_forget(struct place *p)
{
    cleanup_close(&p->mntns);
    p->mntns = -1;
}

static struct guest *ns_guest(struct place *p)
{
    return &p->guest;
}

static size_t ns_depth(const struct place *p)
{
    return p->layout.n_layers;
}

static bool ns_counted(const struct place *p)
{
    return p->cgroup != NULL;
}

static void ns_usage(struct place *p, bool with_memory, struct usage *ret)
{
    *ret = (struct usage){.counted = p->cgroup != NULL};
    if (p->cgroup) {
        struct cgroup_usage u;
        cgroup_read(p->cgroup, with_memory, &u);
        ret->cpu_ns = u.cpu_ns;
        ret->memory = u.memory;
        ret->oom_kills = u.oom_kills;
        ret->pids_hits = u.pids_hits;
    }
    struct statfs fs;
    if (fstatfs(p->store, &fs) == 0)
        ret->disk_full = fs.f_bfree == 0 || fs.f_ffree == 0;
}

static int ns_listener(struct place *p)
{
    return p->listener;
}

const struct backend BACKEND_NS = {
    .name = "ns",
    .layers_max = LAYERS_MAX,
    .open = ns_open,
    .fork = ns_fork,
    .kill = place_kill,
    .end = place_end,
    .ready = place_ready,
    .ref = place_ref,
    .unref = place_unref,
    .forget = ns_forget,
    .guest = ns_guest,
    .scribe = ns_scribe,
    .depth = ns_depth,
    .counted = ns_counted,
    .usage = ns_usage,
    .listener = ns_listener,
    .warm = ns_warm,
    .entrance = ns_entrance,
    .related = ns_related,
};
