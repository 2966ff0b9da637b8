/*
 * Live jobs of kind `box`: one box with commands, files, snapshots and terminals.
 *
 * The box is a keeper's, which makes it survive the death of this process: what the next attempt
 * needs to find it is stored with the job (the "resume": host, ID, snapshots). While the job runs
 * here, an idle connection keeps the keeper's box from ending; without one it ends after
 * BOX_ORPHAN_NS. A box whose host is lost is lost: the job fails, for an empty box would pretend that
 * the files had never been there.
 *
 * The workspace that a box began with is the lower layer of all boxes forked from it. So it lies in a
 * folder of its own, with an empty file per box in `members`; the last one to end removes it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box_options.h"
#include "git.h"
#include "io.h"
#include "json.h"
#include "live_box.h"
#include "thread.h"
#include "worker.h"
#include "banned.h"

#define BOX_ORPHAN_NS  (10 * 60 * NS_PER_S)
#define BOX_FORKS_MAX  64
#define SNAPSHOTS_MAX  (KEEPER_SNAPSHOTS_MAX - 1)
#define NAME_MAX_BYTES 200

/* --- the folder of a workspace --- */

/* ROOT/boxes, where ROOT is the worker's. */
static char *box_folders_root(const struct worker *w)
{
    const char *root = worker_options(w)->folder;
    return root ? str_printf("%s/boxes", root) : ownfile_state_path("boxes");
}

static int box_folder_member(const char *folder, const char *id, bool join)
{
    _cleanup_free_ char *path = str_printf("%s/members/%s", folder, id);
    if (!path)
        return -ENOMEM;
    if (!join)
        return unlink(path) < 0 ? -errno : 0;
    _cleanup_fd_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : 0;
}

/* Removes it unless another box still needs it. */
static void box_folder_release(const char *folder, const char *id)
{
    _cleanup_free_ char *members = folder ? str_printf("%s/members", folder) : NULL;
    if (!members)
        return;
    box_folder_member(folder, id, false);
    if (rmdir(members) == 0)
        git_remove_tree(folder);
}

/* Releases those of boxes that ended while no worker watched. */
static void box_folder_sweep(const char *folder)
{
    _cleanup_free_ char *path = str_printf("%s/members", folder);
    DIR *members = path ? opendir(path) : NULL;
    _cleanup_fd_ int registry = -1;
    registry_open(false, &registry, NULL);
    for (struct dirent *e; members && (e = readdir(members));) {
        int conn = -1;
        if (e->d_name[0] == '.')
            continue;
        int r = registry < 0 ? -ENOENT : registry_connect(registry, e->d_name, &conn);
        if (r == -ENOENT || r == -ECONNREFUSED)
            box_folder_release(folder, e->d_name);
        cleanup_close(&conn);
    }
    if (members)
        closedir(members);
}

static void box_folders_sweep(const char *root)
{
    DIR *folders = opendir(root);
    for (struct dirent *e; folders && (e = readdir(folders));) {
        _cleanup_free_ char *folder =
            e->d_name[0] == '.' ? NULL : str_printf("%s/%s", root, e->d_name);
        if (folder)
            box_folder_sweep(folder);
    }
    if (folders)
        closedir(folders);
}

/* Fetches the workspace into a folder that outlives this process. *ret_path NULL: it is empty. */
static int box_folder_prepare(struct live_job *l, char **ret_folder, char **ret_path,
                              struct error *err)
{
    struct worker *w = live_job_worker(l);
    if (!json_object_get(live_job_spec(l), "workspace"))
        return 0;
    _cleanup_free_ char *root = box_folders_root(w);
    _cleanup_free_ char *folder = root ? str_printf("%s/%s", root, live_job_id(l)) : NULL;
    _cleanup_free_ char *members = folder ? str_printf("%s/members", folder) : NULL;
    if (!members)
        return error_set(err, ENOMEM, "no memory");
    box_folders_sweep(root);
    git_remove_tree(folder); /* of an attempt that did not come to a box */
    int r = ownfile_make_folders(members);
    if (r < 0)
        return error_errno(err, -r, "cannot make the folder %s", members);
    struct job_lease *lease = live_job_lease(l);
    char *of_job = lease->folder;
    lease->folder = folder;
    r = workspace_prepare(w, lease, ret_path, err);
    lease->folder = of_job;
    if (r < 0 || !*ret_path) {
        git_remove_tree(folder);
        return r;
    }
    *ret_folder = TAKE_PTR(folder);
    return 0;
}

/* --- the state --- */

/* Names this host as it is until it starts anew: keepers do not survive that. */
static int host_name(char *name, size_t size)
{
    char host[128] = "";
    _cleanup_buf_ struct buf boot = BUF_INIT(128);
    gethostname(host, sizeof host - 1);
    int r = io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &boot);
    snprintf(name, size, "%s/%.36s", host, r == 0 && buf_cstr(&boot) ? (char *)boot.data : "");
    return r;
}

static struct box_state *box_state_free(struct box_state *s)
{
    if (!s)
        return NULL;
    terminals_free(s->terminals);
    tool_session_free(s->tools);
    box_close(s->box);
    cleanup_close(&s->hold);
    json_decref(s->snapshots);
    free(s->folder);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static void box_state_freep(struct box_state **s)
{
    box_state_free(*s);
}

/* Holds a box that a keeper has. `snapshots` NULL: there are none. */
static int box_state_new(const struct registry_id *id, const char *folder, const json_t *snapshots,
                         struct box_state **ret, struct error *err)
{
    _cleanup_(box_state_freep) struct box_state *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "no memory");
    _cleanup_fd_ int registry = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->id = *id;
    s->hold = -1;
    s->terminals = terminals_new();
    s->snapshots = snapshots ? json_deep_copy(snapshots) : json_array();
    s->folder = folder ? strdup(folder) : NULL;
    if (!s->terminals || !s->snapshots || (folder && !s->folder))
        return error_set(err, ENOMEM, "no memory");
    int r = registry_open(true, &registry, err);
    if (r < 0)
        return r;
    r = registry_connect(registry, id->text, &s->hold);
    if (r == -ENOENT || r == -ECONNREFUSED)
        return error_set(err, ENOENT, "the box has ended");
    if (r < 0)
        return error_errno(err, -r, "cannot reach the box's keeper");
    r = keeper_attach(id, &s->box, err);
    if (r == 0)
        r = tool_session_new(s->box, &s->tools, err);
    if (r == 0)
        *ret = TAKE_PTR(s);
    return r;
}

/* What the next attempt needs; the lock is held. */
static json_t *box_state_resume(const struct box_state *s)
{
    char host[256];
    host_name(host, sizeof host);
    return json_pack("{s:s, s:s, s:s?, s:O}", "host", host, "box", s->id.text, "folder", s->folder,
                     "snapshots", s->snapshots);
}

/* --- open and close --- */

static int box_job_resume(const json_t *resume, struct box_state **ret, struct error *err)
{
    char host[256];
    struct registry_id id = {0};
    const char *name = json_get_string_or(resume, "box", "");
    const json_t *snapshots = json_object_get(resume, "snapshots");
    host_name(host, sizeof host);
    if (strlen(name) != REGISTRY_ID_LEN || !json_is_array(snapshots))
        return error_set(err, EINVAL, "the box of the last attempt is not named");
    memcpy(id.text, name, sizeof id.text);
    const char *theirs = json_get_string_or(resume, "host", "");
    if (strcmp(theirs, host) != 0)
        return error_set(err, EAGAIN, "the box is on the host %.*s, whose worker is gone",
                         (int)strcspn(theirs, "/"), theirs);
    int r = box_state_new(&id, json_get_string(resume, "folder"), snapshots, ret, err);
    return r == -ENOENT ? error_set(err, EPIPE, "the box ended while it had no worker") : r;
}

static int box_job_start(struct live_job *l, struct registry_id *ret, char **ret_folder,
                         struct error *err)
{
    const struct keeper_life life = {.ttl_ns = BOX_ORPHAN_NS, .idle = true};
    _cleanup_free_ char *folder = NULL, *workspace = NULL;
    struct box_spec spec;
    int r = box_folder_prepare(l, &folder, &workspace, err);
    if (r < 0)
        return r;
    r = job_box_spec(live_job_lease(l), workspace, false, &spec, err);
    if (r == 0) {
        r = keeper_start(&spec.box, &life, ret, err);
        box_spec_free(&spec);
    }
    if (r == 0 && folder && box_folder_member(folder, ret->text, true) < 0)
        r = error_errno(err, errno, "cannot write to the folder %s", folder);
    if (r < 0 && folder)
        git_remove_tree(folder);
    *ret_folder = TAKE_PTR(folder);
    return r;
}

static int live_box_open(struct live_job *l, void **ret_state, struct error *err)
{
    struct box_state *s = NULL;
    struct registry_id id;
    _cleanup_free_ char *folder = NULL;
    if (json_object_get(live_job_resume(l), "box")) {
        int r = box_job_resume(live_job_resume(l), &s, err);
        *ret_state = s;
        return r;
    }
    /* It would begin as an empty box, or as its parent began. */
    if (json_object_get(live_job_spec(l), "fork_of"))
        return error_set(err, EPIPE, "the worker ended before it had made the fork");
    int r = box_job_start(l, &id, &folder, err);
    if (r == 0)
        r = box_state_new(&id, folder, NULL, &s, err);
    if (r == 0)
        r = live_job_set_resume(l, box_state_resume(s), err);
    if (r < 0 && s) {
        keeper_remove(s->box, NULL);
        box_folder_release(s->folder, s->id.text);
        box_state_free(s);
    }
    if (r == 0)
        *ret_state = s;
    return r;
}

static void live_box_close(struct live_job *l, void *state, bool keep)
{
    struct box_state *s = state;
    terminals_free(TAKE_PTR(s->terminals));
    if (!keep) {
        keeper_remove(s->box, NULL);
        box_folder_release(s->folder, s->id.text);
    }
    box_state_free(s);
}

/* --- snapshots and forks --- */

static json_t *time_json(void)
{
    struct timespec now;
    struct tm t;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
    return json_string(text);
}

static void box_call_snapshot(struct live_call *c)
{
    struct box_state *s = call_box(c);
    struct error err = {0};
    char id[KEEPER_SNAPSHOT_NAME];
    const char *name = json_get_string(call_input(c), "name");
    pthread_mutex_lock(&s->lock);
    size_t n = json_array_size(s->snapshots);
    pthread_mutex_unlock(&s->lock);
    if (n >= SNAPSHOTS_MAX || (name && strlen(name) > NAME_MAX_BYTES)) {
        call_problem(c, 409, "too-many", "a box can have at most %d snapshots", SNAPSHOTS_MAX);
        return;
    }
    if (keeper_snapshot(s->box, id, &err) < 0) {
        call_fail(c, &err);
        return;
    }
    json_t *entry =
        json_pack("{s:s, s:s?, s:o}", "id", id, "name", name, "created_at", time_json());
    pthread_mutex_lock(&s->lock);
    json_array_append(s->snapshots, entry);
    json_t *resume = box_state_resume(s);
    pthread_mutex_unlock(&s->lock);
    if (live_job_set_resume(call_job(c), resume, &err) < 0) {
        json_decref(entry);
        call_fail(c, &err);
        return;
    }
    call_end(c, entry);
}

static void box_call_snapshots(struct live_call *c)
{
    struct box_state *s = call_box(c);
    LOCKED(&s->lock);
    call_end(c, json_pack("{s:o}", "snapshots", json_deep_copy(s->snapshots)));
}

static void box_call_restore(struct live_call *c)
{
    struct error err = {0};
    const char *name = json_get_string_or(call_input(c), "snapshot", "");
    if (keeper_restore(call_box(c)->box, name, NULL, &err) < 0)
        call_fail(c, &err);
    else
        call_end(c, json_pack("{s:s}", "snapshot", name));
}

/* The snapshots of a fork: the keeper gives it the parent's under the parent's ID. */
static json_t *fork_snapshots(struct box_state *s)
{
    json_t *list, *entry;
    size_t i;
    LOCKED(&s->lock);
    list = json_deep_copy(s->snapshots);
    json_array_foreach(list, i, entry)
    {
        const char *id = json_get_string_or(entry, "id", "");
        if (!strchr(id, ':'))
            json_object_set_new(entry, "id", json_sprintf("%s:%s", s->id.text, id));
    }
    return list;
}

/* One fork becomes the job `job`, {"id", "token"}. */
static int fork_adopt(struct live_call *c, const struct registry_id *id, const json_t *job,
                      const json_t *snapshots, struct error *err)
{
    struct box_state *parent = call_box(c), *s = NULL;
    int r = box_state_new(id, parent->folder, snapshots, &s, err);
    if (r == 0 && parent->folder && box_folder_member(parent->folder, id->text, true) < 0)
        r = error_set(err, EIO, "cannot write to the folder %s", parent->folder);
    if (r == 0)
        r = live_job_adopt(call_job(c), json_get_string_or(job, "id", ""),
                           (unsigned)json_get_integer(job, "token"),
                           json_object_get(call_input(c), "spec"), box_state_resume(s), s, err);
    if (r == 0)
        return 0;
    if (s)
        keeper_remove(s->box, NULL);
    box_folder_release(parent->folder, id->text);
    box_state_free(s);
    return r;
}

static void box_call_fork(struct live_call *c)
{
    struct registry_id ids[BOX_FORKS_MAX];
    struct error err = {0};
    struct box_state *s = call_box(c);
    const json_t *jobs = json_object_get(call_input(c), "jobs");
    size_t n = json_array_size(jobs), i = 0;
    if (n < 1 || n > BOX_FORKS_MAX) {
        call_problem(c, 400, "invalid", "the number of forks must be between 1 and %d",
                     BOX_FORKS_MAX);
        return;
    }
    if (keeper_fork(s->box, json_get_string(call_input(c), "snapshot"), n, NULL, ids, &err) < 0) {
        call_fail(c, &err);
        return;
    }
    _cleanup_json_ json_t *snapshots = fork_snapshots(s);
    int r = 0;
    for (; r == 0 && i < n; i++)
        r = fork_adopt(c, &ids[i], json_array_get(jobs, i), snapshots, &err);
    for (; i < n; i++) { /* the server cancels the others */
        _cleanup_box_ struct box *b = NULL;
        if (keeper_attach(&ids[i], &b, NULL) == 0)
            keeper_remove(b, NULL);
    }
    if (r < 0)
        call_fail(c, &err);
    else
        call_end(c, NULL);
}

/* --- what is known about it, and what may change --- */

static void box_call_info(struct live_call *c)
{
    struct box_state *s = call_box(c);
    struct error err = {0};
    _cleanup_box_info_ struct box_info info = {0};
    if (box_info(s->box, &info, &err) < 0) {
        call_fail(c, &err);
        return;
    }
    const struct box_limits *l = &info.limits;
    pthread_mutex_lock(&s->lock);
    json_int_t snapshots = (json_int_t)json_array_size(s->snapshots);
    pthread_mutex_unlock(&s->lock);
    call_end(c, json_pack("{s:s?, s:I, s:I, s:o, s:o, s:I, s:I, s:o}", "net", info.net, "memory",
                          (json_int_t)l->memory, "pids", (json_int_t)l->pids, "cpus",
                          l->cpus > 0 ? json_real(l->cpus) : json_null(), "timeout_seconds",
                          l->timeout_ns ? json_real((double)l->timeout_ns / 1e9) : json_null(),
                          "commands", (json_int_t)info.commands, "snapshots", snapshots,
                          "terminals", terminals_json(s->terminals)));
}

static void box_call_set(struct live_call *c)
{
    static const char *const NAMES[] = {"net", "memory", "cpus", "pids", "timeout"};
    struct error err = {0};
    _cleanup_box_info_ struct box_info info = {0};
    _cleanup_box_spec_ struct box_spec spec;
    struct box *b = call_box(c)->box;
    int r = 0;
    box_spec_init(&spec, "");
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
        const char *value = json_get_string(call_input(c), NAMES[i]);
        if (r == 0 && value)
            r = box_spec_set(&spec, NAMES[i], value, &err);
    }
    if (r == 0)
        r = box_info(b, &info, &err);
    if (r == 0) {
        spec.box.workspace = info.workspace; /* packages' configuration is looked for beside it */
        r = box_spec_resolve_groups(&spec, &err);
        if (r == 0)
            r = box_adjust(b, &spec.box, spec.fields, &err);
        spec.box.workspace = NULL;
    }
    if (r < 0)
        call_fail(c, &err);
    else
        box_call_info(c);
}

static const struct live_op BOX_OPS[] = {
    {"exec", box_call_exec},
    {"tool", box_call_tool},
    {"info", box_call_info},
    {"set", box_call_set},
    {"snapshot", box_call_snapshot},
    {"snapshots", box_call_snapshots},
    {"restore", box_call_restore},
    {"fork", box_call_fork},
    {"diff", box_call_diff},
    {"changes", box_call_changes},
    {"files_get", box_call_files_get},
    {"files_put", box_call_files_put},
    {"files_list", box_call_files_list},
    {"terminal", box_call_terminal},
    {"terminal_resize", box_call_terminal_resize},
    {0},
};

const struct live_kind LIVE_BOX = {
    .name = "box", .open = live_box_open, .close = live_box_close, .ops = BOX_OPS};
