/*
 * The backend `ns`: namespaces, seccomp, Landlock, cgroups, overlayfs.
 *
 * A place holds the descriptors of the box's user and mount namespaces and of its store. As long as
 * they are open the box's files exist, though no path leads to them; when the last is closed the
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
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend.h"
#include "cgroup.h"
#include "host_memory.h"
#include "idmap.h"
#include "io.h"
#include "outer_proc.h"
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
    store_unref(p->disk); /* last: the mounts are gone, and nothing writes there any more */
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
    /* A guest that is stopped takes no more connections after some hundreds: nobody waits for ever
     * to send one. */
    const struct timeval patience = {.tv_sec = GUEST_SEND_S};
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
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
    if (got == -ECONNRESET) /* it has ended already and left a request unread; what it sent comes
                               after that */
        got = io_recv_fds(p->guest.control, &byte, 1, fds, ARRAY_SIZE(fds), &n, 0);
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

/* Only files in memory count for the control group's limit on memory. */
static struct box_limits counted_limits(const struct place *p)
{
    struct box_limits l = p->limits;
    l.disk = p->disk ? 0 : l.disk;
    return l;
}

/* Starts process 1 by the plan, of which the place becomes the owner; it is up when place_ready
 * says so. */
static int populate(struct place *p, struct starting **starting, int mntns, struct error *err)
{
    _cleanup_fd_ int theirs = -1;
    struct spawn s = {.plan = &(*starting)->plan,
                      .userns = p->userns,
                      .mntns = mntns,
                      .namespaces = place_namespaces(p->layout.net),
                      .outer_proc = mntns < 0 && p->ids.clones && outer_proc_is_masked(),
                      .cpus = cgroup_limits_cpus(p->cgroup) ? 0 : p->limits.cpus};
    s.cgroups = cgroup_joins(p->cgroup, &s.n_cgroups);
    s.birthplace = cgroup_birthplace(p->cgroup);
    int r = control_pair(&p->guest.control, &theirs, err);
    if (r < 0)
        return r;
    s.control = theirs;
    /* Before the first process joins the group: until then it has the limits of the last box that
     * used it. */
    const struct box_limits counted = counted_limits(p);
    r = cgroup_begin(p->cgroup, &counted, err);
    if (r == 0)
        r = spawn_begin(&s, &(*starting)->spawning, err);
    if (r == 0)
        p->starting = TAKE_PTR(*starting);
    return r;
}

/* Takes the place's processes and files over from who made them. */
static int take_over(struct place *p, struct error *err)
{
    int r = spawn_finish(&p->starting->spawning, &p->starting->plan, &p->guest.pid, err);
    p->starting = starting_free(p->starting);
    if (r < 0)
        return r;
    p->guest.pidfd = sys_pidfd_open(p->guest.pid, 0);
    if (p->disk)
        store_set_process(p->disk, p->guest.pidfd);
    const struct box_limits counted = counted_limits(p);
    r = cgroup_started(p->cgroup, &counted, err);
    return r < 0 ? r : take_handover(p, err);
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

/* A store in memory must fit there: a box that could fill the host's memory does not start. */
static int check_memory_store(uint64_t disk, uint64_t total, const struct error *no_disk,
                              struct error *err)
{
    if (disk <= total / 2)
        return 0;
    return error_set(
        err, ENOSPC,
        "--disk: %lluM is more than half of the memory here (the most is %lluM), and the box "
        "cannot have a store on disk: %s",
        (unsigned long long)(disk >> 20), (unsigned long long)(total / 2 >> 20),
        no_disk->code ? no_disk->text : "it was asked to be in memory");
}

/*
 * A container whose processes use more memory than its control group allows is killed as a whole.
 * So a box in it, with its files that are in memory, gets at most three quarters.
 */
static int check_memory(uint64_t memory, uint64_t files, const struct error *no_disk,
                        struct error *err)
{
    bool limited;
    uint64_t total = host_memory(&limited), most = HOST_MEMORY_FOR_BOX(total);
    if (memory > total)
        return error_set(err, ENOMEM,
                         "--memory: %llu MiB is more than this machine has; use at most %lluM",
                         (unsigned long long)(memory >> 20), (unsigned long long)(total >> 20));
    int r = check_memory_store(files, total, no_disk, err);
    if (r < 0 || !limited || memory + files <= most)
        return r;
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

uint64_t box_disk_room(void)
{
    uint64_t bytes = 0;
    struct error ignored;
    return store_check(&bytes, &ignored) < 0 ? 0 : bytes;
}

static void fill_store(struct place *p)
{
    p->layout.disk_path = p->disk ? store_path(p->disk) : NULL;
    p->layout.disk_mount = p->disk ? store_mount(p->disk) : -1;
    p->layout.disk_is_watched = p->disk && !store_has_quota(p->disk);
}

/* The one place that decides where a box's files are. Without a filesystem that fits, memory serves
 * if it is large enough. */
static int choose_store(struct place *p, const struct box_options *o, struct error *err)
{
    struct error no_disk = {0};
    bool on_disk = o->store == BOX_STORE_DISK ||
                   (o->store == BOX_STORE_AUTO &&
                    (o->limits.disk > BOX_MEMORY_STORE_MAX || !tmpfs_has_user_xattrs()));
    if (on_disk) {
        const struct store_options want = {
            .ids = &p->ids, .userns = p->userns, .disk = o->limits.disk};
        int r = store_open(&want, &p->disk, &no_disk);
        if (r == -ENOSPC)
            *err = no_disk;
        if (r == 0)
            fill_store(p);
        if (r == 0 || r == -ENOSPC)
            return r < 0 ? r : check_memory(o->limits.memory, 0, &no_disk, err);
    }
    return check_memory(o->limits.memory, o->limits.disk, &no_disk, err);
}

/* Whole processors can be had without control groups (by affinity), parts of one cannot. */
static int check_cpus(const struct place *p, struct error *err)
{
    if (cgroup_limits_cpus(p->cgroup) || p->limits.cpus == (double)(int)p->limits.cpus)
        return 0;
    return error_set(err, EOPNOTSUPP,
                     "--cpus: a fraction of a processor needs control groups, which are not "
                     "available here (see 'hutch doctor'); use a whole number");
}

/* A link must not take the place of anything that a box is made of: what is mounted there would
 * follow it. */
static int check_link(const struct box_link *l, struct error *err)
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

static void fill_git(struct place *p, const struct box_options *o)
{
    snprintf(p->layout.git_config, BOX_GIT_SIZE, "%s", o->git_config ? o->git_config : "");
    p->layout.has_git_mask = o->git_mask && o->mode == BOX_COW && o->workspace;
    snprintf(p->layout.git_mask, BOX_GIT_MASK_SIZE, "%s", o->git_mask ? o->git_mask : "");
}

static int fill_layout(struct place *p, const struct box_options *o)
{
    p->limits = o->limits;
    p->layout = (struct layout){.mode = o->mode,
                                .net = o->net,
                                .has_proxy = box_has_proxy(o),
                                .adjustable = o->adjustable,
                                .has_image = o->image != NULL,
                                .has_workspace = o->workspace != NULL,
                                .warm = o->warm,
                                .disk = o->limits.disk,
                                .pids = o->limits.pids,
                                .files = o->limits.files,
                                .memory = o->limits.memory,
                                .cpus = o->limits.cpus};
    for (size_t i = 0; i < o->n_shares; i++) {
        p->layout.shares[i].writable = o->shares[i].writable;
        p->layout.shares[i].is_file = o->shares[i].is_file;
        p->layout.shares[i].at = strdup(o->shares[i].at);
        if (!p->layout.shares[i].at)
            return -ENOMEM;
        p->layout.n_shares++;
    }
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

static void close_sources(struct layout_sources *f)
{
    cleanup_close(&f->guest_fd);
    cleanup_close(&f->skeleton_fd);
    cleanup_close(&f->workspace_fd);
    cleanup_close(&f->image_fd);
    cleanup_close(&f->etc_fd);
    for (size_t i = 0; i < BOX_SHARES_MAX; i++)
        cleanup_close(&f->share_fds[i]);
}

/* Root picks the folders up itself, id-mapped if it can; an ordinary user's child clones them by
 * path. */
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
        r = idmap_folder(o->shares[i].source, &p->ids, o->shares[i].writable, &f->share_fds[i],
                         err);
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
        r = parts_find(image ? "hutch-skeleton/image" : "hutch-skeleton/host", paths->skeleton,
                       err);
    return r;
}

static int find_sources(const struct place *p, const struct box_options *o,
                        struct layout_sources *f, struct part_paths *parts, struct error *err)
{
    f->guest = parts->guest;
    f->skeleton = parts->skeleton;
    f->workspace = o->workspace;
    f->image = o->image;
    for (size_t i = 0; i < o->n_shares; i++)
        f->share_paths[i] = o->shares[i].source;
    int r = find_parts(parts, o->image != NULL, err);
    return r < 0 || !p->ids.clones ? r : map_sources(p, o, f, err);
}

/* The box's user namespace and what is shown in it, by the ids in p. */
static int prepare(struct place *p, const struct box_options *o, struct layout_sources *f,
                   struct part_paths *parts, struct error *err)
{
    int r = idmap_family_namespace(&p->ids, &p->userns, err);
    return r < 0 ? r : find_sources(p, o, f, parts, err);
}

/* First as root should; the plain way (idmap.h) where the host refuses that to root. */
static int prepare_somehow(struct place *p, const struct box_options *o, struct layout_sources *f,
                           struct part_paths *parts, struct error *err)
{
    int r = idmap_choose(o->workspace, &p->ids, err);
    if (r < 0)
        return r;
    r = prepare(p, o, f, parts, err);
    if (r == 0 || !p->ids.mapped || !idmap_is_refusal(r))
        return r;
    close_sources(f);
    *f = NO_SOURCES;
    cleanup_close(&p->userns);
    p->userns = -1;
    r = idmap_choose_plain(o->workspace, err->text, &p->ids, err);
    return r < 0 ? r : prepare(p, o, f, parts, err);
}

/* What of /etc this box shows. As root we pick it up ourselves, without what is mounted inside; the
 * child could not leave that out, for the kernel holds such mounts together in its namespaces. */
static int find_etc(struct place *p, struct etc_view *view, struct layout_sources *f,
                    struct error *err)
{
    int r = etc_view_read(view);
    if (r < 0)
        return error_errno(err, -r, "the box did not start: cannot look through /etc");
    f->etc = view;
    p->layout.selection.etc_in_parts = view->has_mounts && !p->ids.clones;
    return p->ids.clones ? idmap_single_clone("/etc", &f->etc_fd, err) : 0;
}

static int open_fresh(struct place *p, const struct box_options *o, struct error *err)
{
    struct part_paths parts;
    _cleanup_(close_sources) struct layout_sources from = NO_SOURCES;
    _cleanup_(etc_view_free) struct etc_view etc = {0};
    int r = prepare_somehow(p, o, &from, &parts, err);
    p->layout.selection.owner = p->ids.uid;
    selection_scan(&p->layout.selection);
    if (r == 0 && !o->image)
        r = find_etc(p, &etc, &from, err);
    if (r == 0)
        r = choose_store(p, o, err);
    if (r < 0)
        return r;
    _cleanup_(starting_drop) struct starting *s = starting_new();
    if (!s)
        return error_errno(err, ENOMEM, "the box did not start");
    layout_fresh(&s->plan, &p->layout, &from);
    return populate(p, &s, -1, err);
}

static int ns_open(const struct box_options *o, struct place **ret, struct error *err)
{
    _cleanup_(place_drop) struct place *p = place_new();
    if (!p || fill_layout(p, o) < 0)
        return error_errno(err, ENOMEM, "the box did not start");
    int r = fill_links(p, o, err);
    if (r == 0)
        fill_git(p, o);
    if (r == 0 && o->workspace && !o->hide_path)
        layout_set_own_path(&p->layout, o->workspace);
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
    int r = from->disk ? store_fork(from->disk, &p->disk, err) : 0;
    if (r == 0)
        r = cgroup_acquire(&p->limits, false, &p->cgroup, err);
    if (r < 0)
        return r;
    fill_store(p);
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

/* A diff worker is outside of the box's control group: a box that used up its limits can still be
 * looked at. */
static int ns_diff_worker(struct place *p, unsigned snapshot, struct guest *ret, struct error *err)
{
    _cleanup_(plan_free) struct plan plan;
    if (plan_init(&plan) < 0)
        return error_errno(err, ENOMEM, "the diff worker did not start");
    plan.fds[SLOT_SOURCE] = p->store;
    layout_diff_worker(&plan, &p->layout, snapshot);
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

/* The free space of a filesystem on disk changes with what others do, so the store process looks at
 * the names. If it does not answer, no number is ever the same; the hash is odd, these are even. */
static uint64_t ns_space(struct place *p)
{
    struct statfs fs;
    uint64_t names;
    if (p->disk)
        return store_names(p->disk, &names) == 0
                   ? names
                   : 2 * __atomic_add_fetch(&p->looks, 1, __ATOMIC_RELAXED);
    return fstatfs(p->store, &fs) < 0 ? 0 : (uint64_t)fs.f_ffree << 32 ^ (uint64_t)fs.f_bfree;
}

static bool ns_counted(const struct place *p)
{
    return p->cgroup != NULL;
}

static bool ns_on_disk(const struct place *p)
{
    return p->disk != NULL;
}

static void usage_of_disk(const struct place *p, struct usage *ret)
{
    struct store_report now;
    store_look(p->disk, &now);
    ret->disk_watched = true;
    ret->disk_bytes = now.bytes;
    ret->disk_full = (now.over_limit || now.host_full) && !weakened("disk");
    ret->disk_exact = now.exact;
    ret->host_disk_full = now.host_full;
    ret->disk_lost = now.unwatched;
}

static void ns_usage(struct place *p, bool with_memory, struct usage *ret)
{
    *ret = (struct usage){.counted = p->cgroup != NULL};
    if (p->cgroup) {
        struct cgroup_usage u;
        cgroup_read(p->cgroup, with_memory, &u);
        ret->cpu_ns = u.cpu_ns;
        ret->memory = u.memory;
        ret->sockets = u.sockets;
        ret->oom_kills = u.oom_kills;
        ret->pids_hits = u.pids_hits;
    }
    if (p->disk) {
        usage_of_disk(p, ret);
        return;
    }
    struct statfs fs;
    if (fstatfs(p->store, &fs) == 0)
        ret->disk_full = fs.f_bfree == 0 || fs.f_ffree == 0;
}

/* Commands that start later run on the first `cpus` processors that hutch may use; 0: on all of
 * them. */
static int limit_affinity(const struct place *p, double cpus, struct error *err)
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
    if (sched_setaffinity(p->guest.pid, sizeof some, &some) < 0)
        return error_errno(err, errno, "cannot change the processors of the box");
    return 0;
}

/* The group's limit where there is one. Else the guest's, which its later children inherit: a user
 * may lower it, and only root may raise it. */
static int limit_pids(struct place *p, const struct box_limits *l, struct error *err)
{
    struct rlimit value = {.rlim_cur = l->pids + GUEST_TASKS, .rlim_max = l->pids + GUEST_TASKS};
    if (p->cgroup)
        return cgroup_change(p->cgroup, l, BOX_SET_PIDS, err);
    if (prlimit(p->guest.pid, RLIMIT_NPROC, &value, NULL) == 0)
        return 0;
    if (errno == EPERM)
        return error_set(
            err, EPERM,
            "--pids: without control groups a running box cannot get more processes than it"
            " began with; make a new box with --pids %llu",
            (unsigned long long)l->pids);
    return error_errno(err, errno, "cannot change the number of processes of the box");
}

/* The box sees these files on a read-only mount: nobody but us writes them. */
static void show_limits(const struct place *p)
{
    struct limit_file files[LIMIT_FILES];
    layout_limit_files(&p->layout, files);
    for (size_t i = 0; i < LIMIT_FILES; i++) {
        _cleanup_fd_ int fd =
            openat(p->store, files[i].path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            io_write_all(fd, files[i].text, strlen(files[i].text));
    }
}

static int ns_limit(struct place *p, const struct box_limits *l, unsigned fields, struct error *err)
{
    int r = place_ready(p, err);
    if (r == 0 && fields & BOX_SET_MEMORY && p->cgroup)
        r = cgroup_change(p->cgroup, l, BOX_SET_MEMORY, err);
    if (r == 0 && fields & BOX_SET_PIDS)
        r = limit_pids(p, l, err);
    if (r == 0 && fields & BOX_SET_CPUS)
        r = cgroup_limits_cpus(p->cgroup) ? cgroup_change(p->cgroup, l, BOX_SET_CPUS, err)
                                          : limit_affinity(p, l->cpus, err);
    if (r < 0)
        return r;
    p->limits = *l; /* its forks begin with them */
    p->layout.pids = l->pids;
    p->layout.memory = l->memory;
    p->layout.cpus = l->cpus;
    show_limits(p);
    return 0;
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
    .diff_worker = ns_diff_worker,
    .depth = ns_depth,
    .space = ns_space,
    .counted = ns_counted,
    .on_disk = ns_on_disk,
    .usage = ns_usage,
    .limit = ns_limit,
    .listener = ns_listener,
    .warm = ns_warm,
    .entrance = ns_entrance,
    .related = ns_related,
};
