/*
 * A keeper's side of one connection. Each serve_ function answers by itself when it succeeds; when
 * it fails it returns a negative errno with the text set, which keeper_serve() sends. A client that
 * has gone is no failure.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "keeper.h"
#include "keeper_held.h"
#include "keeper_serve.h"
#include "keeper_wire.h"
#include "net_policy.h"
#include "banned.h"

#define KEEPER_ANSWER_MAX (WIRE_HEADER + WIRE_BODY_MAX)

/* Everything a request's function needs: what was asked, with which descriptors, and where answers
 * go. */
struct visit {
    struct request *q;
    const struct wire_frame *frame;
    struct wire_reader *reader;
    struct buf out; /* the frame that is being answered */
};

static int visit_send(struct visit *v, size_t begin)
{
    wire_end(&v->out, begin);
    int r = wire_send(v->q->conn, &v->out, NULL, 0);
    if (r < 0)
        v->out.len = 0;
    return r;
}

static int visit_answer(struct visit *v)
{
    return visit_send(v, wire_begin(&v->out, WIRE_RESULT));
}

static int visit_lock_owner(struct visit *v, struct error *err)
{
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    if (r < 0)
        pthread_mutex_unlock(&v->q->held->owner);
    return r;
}

static void visit_unlock_owner(struct visit *v)
{
    held_leave(v->q);
    pthread_mutex_unlock(&v->q->held->owner);
}

/* All fields of one key as a NULL-terminated list of strings, in one block of memory that starts
 * with the list. */
static char **copy_strings(const struct wire_frame *f, uint16_t key)
{
    size_t count = 0, bytes = 0;
    struct wire_field field;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            if (memchr(field.data, 0, field.size))
                return NULL;
            count++;
            bytes += field.size + 1;
        }
    char **list = calloc(1, (count + 1) * sizeof *list + bytes);
    char *text = (char *)(list + count + 1);
    size_t i = 0;
    for (size_t at = 0; list && wire_next(f, &at, &field);)
        if (field.key == key) {
            list[i++] = text;
            memcpy(text, field.data, field.size);
            text += field.size + 1;
        }
    return list;
}

static int send_kept(struct visit *v, enum keeper_stream stream, const struct buf *kept)
{
    for (size_t at = 0; at < kept->len;) {
        size_t n = kept->len - at < WIRE_DATA_MAX ? kept->len - at : WIRE_DATA_MAX;
        size_t begin = wire_begin(&v->out, (enum wire_type)KEEPER_KEPT);
        wire_put_u64(&v->out, WIRE_K_STREAM, stream);
        wire_put(&v->out, WIRE_K_DATA, kept->data + at, n);
        int r = visit_send(v, begin);
        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

static int send_changes(struct visit *v, struct error *err)
{
    struct box_changes changes = {0};
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    if (box_mode_of(v->q->in->box) == BOX_COW)
        r = box_changes(v->q->in->box, &changes, err);
    visit_unlock_owner(v);
    for (size_t i = 0; r == 0 && i < changes.count; i++) {
        const struct box_change *change = &changes.items[i];
        size_t begin = wire_begin(&v->out, WIRE_ENTRY);
        wire_put_str(&v->out, WIRE_K_PATH, change->path);
        wire_put_u64(&v->out, WIRE_K_KIND, change->kind);
        wire_put_u64(&v->out, WIRE_K_MODE, change->mode);
        wire_put_u64(&v->out, WIRE_K_SIZE, change->size);
        if (visit_send(v, begin) < 0)
            break; /* the client has gone */
    }
    box_changes_free(&changes);
    return r;
}

static int send_exec_result(struct visit *v, const struct box_result *r)
{
    if (send_kept(v, KEEPER_OUT_HEAD, &r->out.head) < 0 ||
        send_kept(v, KEEPER_OUT_TAIL, &r->out.tail) < 0 ||
        send_kept(v, KEEPER_ERR_HEAD, &r->err.head) < 0 ||
        send_kept(v, KEEPER_ERR_TAIL, &r->err.tail) < 0)
        return 0; /* the client has gone */
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, WIRE_K_EXIT_CODE, (uint64_t)r->exit_code);
    wire_put_u64(&v->out, WIRE_K_TERM_SIGNAL, (uint64_t)r->signal);
    wire_put_u64(&v->out, WIRE_K_LIMIT, r->limit);
    wire_put_str(&v->out, WIRE_K_TEXT, r->failure);
    wire_put_u64(&v->out, WIRE_K_DURATION_NS, (uint64_t)r->duration_ns);
    wire_put_u64(&v->out, KEEPER_K_CPU_NS, (uint64_t)r->cpu_ns);
    wire_put_u64(&v->out, WIRE_K_MAX_RSS, r->max_rss);
    wire_put_u64(&v->out, KEEPER_K_OUT_TOTAL, r->out.total);
    wire_put_u64(&v->out, KEEPER_K_ERR_TOTAL, r->err.total);
    wire_put_u64(&v->out, KEEPER_K_OUT_ERROR, (uint64_t)r->out_error);
    wire_put_u64(&v->out, WIRE_K_STATE, r->state);
    wire_put_u64(&v->out, WIRE_K_HANDLE, r->handle);
    if (r->cwd)
        wire_put_str(&v->out, WIRE_K_CWD, r->cwd);
    if (r->notes)
        wire_put_str(&v->out, WIRE_K_NOTE, r->notes);
    if (r->output_path)
        wire_put_str(&v->out, WIRE_K_OUTPUT_PATH, r->output_path);
    for (size_t i = 0; i < r->n_refused; i++)
        wire_put_str(&v->out,
                     r->refused[i].is_private ? KEEPER_K_REFUSED_PRIVATE : KEEPER_K_REFUSED,
                     r->refused[i].target);
    return visit_send(v, begin);
}

/* Runs the command; its client's going away cancels it. */
static int exec_command(struct visit *v, struct box_result *ret, struct error *err)
{
    const struct wire_frame *f = v->frame;
    _cleanup_free_ char **argv = copy_strings(f, WIRE_K_ARG);
    _cleanup_free_ char **env = copy_strings(f, WIRE_K_ENV);
    _cleanup_free_ char *cwd = wire_find_str(f, WIRE_K_CWD);
    _cleanup_free_ char *shell = wire_find_str(f, KEEPER_K_SHELL);
    _cleanup_free_ char *script = wire_find_str(f, KEEPER_K_SCRIPT);
    struct wire_field input = {0};
    bool capture = wire_find_u64(f, KEEPER_K_CAPTURE, 0);
    if (!argv || !env || !(argv[0] || (shell && script)) || v->reader->n_fds < 3)
        return error_set(err, EPROTO, "malformed request");
    struct box_command command = {
        .argv = argv,
        .shell = shell,
        .script = script,
        .input = wire_find(f, KEEPER_K_INPUT, &input) ? input.data : NULL,
        .n_input = input.size,
        .background = wire_find_u64(f, WIRE_K_BACKGROUND, 0),
        .env = env,
        .cwd = cwd,
        .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0),
        .cpu_time_ns = (int64_t)wire_find_u64(f, KEEPER_K_CPU_TIME_NS, 0),
        .tty = wire_find_u64(f, KEEPER_K_TTY, 0),
        .in = v->reader->fds[0],
        .out = capture ? -1 : v->reader->fds[1],
        .err = capture ? -1 : v->reader->fds[2],
        .capture = capture,
        .cancel = v->q->conn,
    };
    /* What belongs to the box's owner stops its processes for a moment, and no command can start
     * meanwhile.
     */
    pthread_mutex_lock(&v->q->held->owner);
    int r = held_enter(v->q, err);
    pthread_mutex_unlock(&v->q->held->owner);
    if (r == 0)
        r = box_exec(v->q->in->box, &command, ret, err);
    held_leave(v->q);
    /* Before the client knows that the command has ended, and the person goes on to work on the
     * files. */
    if (r == 0 && visit_lock_owner(v, NULL) == 0) {
        box_note_seen(v->q->in->box, NULL);
        visit_unlock_owner(v);
    }
    return r;
}

static int serve_exec(struct visit *v, struct error *err)
{
    struct box_result result = {0};
    int r = exec_command(v, &result, err);
    if (r == 0)
        send_exec_result(v, &result);
    box_result_free(&result);
    return r;
}

static int serve_changes(struct visit *v, struct error *err)
{
    int r = send_changes(v, err);
    if (r == 0)
        visit_answer(v);
    return r;
}

#define PATHS_MAX 4096

/* A client that has gone changes nothing: what was begun is finished. */
static void serve_report(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct visit *v = data;
    size_t begin = wire_begin(&v->out, WIRE_ENTRY);
    wire_put_str(&v->out, WIRE_K_PATH, path);
    wire_put_u64(&v->out, WIRE_K_KIND, outcome);
    if (why)
        wire_put_str(&v->out, WIRE_K_TEXT, why);
    visit_send(v, begin);
}

typedef int box_apply_function(struct box *b, const struct apply_options *o,
                               const struct apply_report *report, struct error *err);

static int serve_with_options(struct visit *v, box_apply_function *function, struct error *err)
{
    char *paths[PATHS_MAX];
    struct wire_field field;
    size_t n = 0;
    struct apply_options o = {
        .on_conflict =
            (enum apply_choice)wire_find_u64(v->frame, KEEPER_K_ON_CONFLICT, APPLY_REPORT),
        .allow_git_dirs = wire_find_u64(v->frame, KEEPER_K_ALLOW_GIT_DIRS, 0),
        .replaced_folder = wire_find_u64(v->frame, KEEPER_K_REPLACED_FOLDER, 0),
    };
    for (size_t at = 0; n < PATHS_MAX && wire_next(v->frame, &at, &field);)
        if (field.key == WIRE_K_PATH && (paths[n] = strndup((const char *)field.data, field.size)))
            n++;
    o.paths = n ? (const char *const *)paths : NULL;
    o.n_paths = n;
    int r = n == PATHS_MAX ? error_set(err, E2BIG, "more than %d paths", PATHS_MAX - 1)
                           : visit_lock_owner(v, err);
    if (r == 0) {
        r = function(v->q->in->box, &o, &(struct apply_report){.say = serve_report, .data = v},
                     err);
        visit_unlock_owner(v);
    }
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    if (r < 0)
        return r;
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, WIRE_K_COUNT, (uint64_t)r);
    visit_send(v, begin);
    return 0;
}

static int serve_apply(struct visit *v, struct error *err)
{
    return serve_with_options(v, box_apply, err);
}

static int serve_sync(struct visit *v, struct error *err)
{
    return serve_with_options(v, box_sync, err);
}

static int serve_note(struct visit *v, struct error *err)
{
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_note_seen(v->q->in->box, err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}

static int find_snapshot(const struct held *h, const char *name, struct snapshot **ret,
                         struct error *err)
{
    if (strcmp(name, KEEPER_ORIGIN) == 0 && h->origin) {
        *ret = h->origin;
        return 0;
    }
    for (size_t i = 0; i < h->n_snapshots; i++)
        if (strcmp(h->snapshots[i].name, name) == 0) {
            *ret = h->snapshots[i].snapshot;
            return 0;
        }
    for (size_t i = 0; i < h->n_inherited; i++)
        if (strcmp(h->inherited[i].name, name) == 0) {
            *ret = h->inherited[i].snapshot;
            return 0;
        }
    if (h->n_snapshots == 0)
        return error_set(err, ENOENT, "the box '%s' has no snapshot '%s': it has no snapshots",
                         h->id.text, name);
    return error_set(err, ENOENT, "the box '%s' has no snapshot '%s'; the last is s%u", h->id.text,
                     name, h->last_snapshot);
}

/* Sends what a fork or restore did with a path that was applied. */
static void send_restored(void *data, const char *path, const char *why)
{
    struct visit *v = data;
    size_t begin = wire_begin(&v->out, WIRE_ENTRY);
    wire_put_str(&v->out, WIRE_K_PATH, path);
    if (why)
        wire_put_str(&v->out, WIRE_K_TEXT, why);
    visit_send(v, begin);
}

/* Finds a box by name and takes a reference; NULL if it has gone. */
static struct held *take_by_id(struct keeper *k, const struct registry_id *id)
{
    pthread_mutex_lock(&k->lock);
    struct held *h = k->boxes;
    while (h && (h->removed || strcmp(h->id.text, id->text) != 0))
        h = h->next;
    if (h)
        h->refs++;
    pthread_mutex_unlock(&k->lock);
    return h;
}

static void let_go(struct keeper *k, struct held *h)
{
    pthread_mutex_lock(&k->lock);
    h->refs--;
    pthread_mutex_unlock(&k->lock);
    keeper_wake(k);
}

/* Gives a fork references to what its parent can go back to, so that it can as well when the parent
 * has gone. The newest ones, if there are more than a box may have. */
static int inherit_snapshots(const struct held *parent, struct held *fork)
{
    size_t n = 0, all = 1 + parent->n_snapshots + parent->n_inherited;
    size_t most = all < KEEPER_SNAPSHOTS_MAX ? all : KEEPER_SNAPSHOTS_MAX;
    struct kept_snapshot *list = calloc(most, sizeof *list);
    if (!list)
        return -ENOMEM;
    for (size_t i = parent->n_snapshots; i-- > 0 && n < most;) {
        snprintf(list[n].name, sizeof list[n].name, "%s:%.6s", parent->id.text,
                 parent->snapshots[i].name);
        list[n++].snapshot = snapshot_ref(parent->snapshots[i].snapshot);
    }
    if (n < most && parent->origin) {
        snprintf(list[n].name, sizeof list[n].name, "%s:%s", parent->id.text, KEEPER_ORIGIN);
        list[n++].snapshot = snapshot_ref(parent->origin);
    }
    for (size_t i = 0; i < parent->n_inherited && n < most; i++, n++) {
        list[n] = parent->inherited[i];
        snapshot_ref(list[n].snapshot);
    }
    pthread_mutex_lock(&fork->owner);
    fork->inherited = list;
    fork->n_inherited = n;
    pthread_mutex_unlock(&fork->owner);
    return 0;
}

/* Makes the forks; those made before one failed are removed by the caller. */
static int make_forks(struct visit *v, const char *name, size_t n, struct registry_id *ids,
                      size_t *ret_made, struct error *err)
{
    struct request *q = v->q;
    const struct restore_report report = {.say = send_restored, .data = v};
    struct snapshot *fresh = NULL, *from = NULL;
    int r = name ? find_snapshot(q->held, name, &from, err) : box_snapshot(q->in->box, &fresh, err);
    for (*ret_made = 0; r == 0 && *ret_made < n;) {
        struct box *b = NULL;
        r = box_fork_at(name ? from : fresh, q->in->box, *ret_made ? NULL : &report, &b, err);
        if (r == 0)
            r = held_add(q->keeper, b, &q->held->life, &ids[*ret_made], err);
        if (r < 0)
            break;
        struct held *h = take_by_id(q->keeper, &ids[(*ret_made)++]);
        if (h && inherit_snapshots(q->held, h) < 0)
            r = error_set(err, ENOMEM, "no memory");
        if (h)
            let_go(q->keeper, h);
    }
    snapshot_free(fresh);
    return r;
}

static void remove_forks(struct keeper *k, const struct registry_id *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct held *h = take_by_id(k, &ids[i]);
        if (!h)
            continue;
        held_remove(k, h);
        let_go(k, h);
    }
}

static int serve_fork(struct visit *v, struct error *err)
{
    struct registry_id ids[KEEPER_FORKS_MAX];
    uint64_t n = wire_find_u64(v->frame, WIRE_K_COUNT, 1);
    _cleanup_free_ char *name = wire_find_str(v->frame, WIRE_K_NAME);
    size_t made = 0;
    if (n == 0 || n > KEEPER_FORKS_MAX)
        return error_set(err, EINVAL, "the number of forks must be between 1 and %d",
                         KEEPER_FORKS_MAX);
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = make_forks(v, name, n, ids, &made, err);
    visit_unlock_owner(v);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    for (size_t i = 0; i < made; i++)
        wire_put_str(&v->out, WIRE_K_NAME, ids[i].text);
    if (r < 0 || visit_send(v, begin) < 0)
        remove_forks(v->q->keeper, ids, made);
    return r;
}

/* Adds it to those that the box has; the owner lock is held, the other one is for those who only
 * count them.
 */
static int keep_snapshot(struct request *q, struct snapshot *s, struct error *err)
{
    struct held *h = q->held;
    size_t n = h->n_snapshots;
    struct kept_snapshot *more =
        n < KEEPER_SNAPSHOTS_MAX ? realloc(h->snapshots, (n + 1) * sizeof *more) : NULL;
    if (!more) {
        snapshot_free(s);
        return error_set(err, ENOSPC, "a box can have at most %d snapshots", KEEPER_SNAPSHOTS_MAX);
    }
    h->snapshots = more;
    more[n].snapshot = s;
    snprintf(more[n].name, sizeof more[n].name, "s%u", ++h->last_snapshot);
    pthread_mutex_lock(&q->keeper->lock);
    h->n_snapshots++;
    pthread_mutex_unlock(&q->keeper->lock);
    return 0;
}

static int serve_snapshot(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    struct snapshot *s = NULL;
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_snapshot(v->q->in->box, &s, err);
    if (r == 0)
        r = keep_snapshot(v->q, s, err);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    if (r == 0)
        wire_put_str(&v->out, WIRE_K_NAME, h->snapshots[h->n_snapshots - 1].name);
    visit_unlock_owner(v);
    if (r == 0)
        visit_send(v, begin);
    return r;
}

static int serve_restore(struct visit *v, struct error *err)
{
    struct held *h = v->q->held;
    struct snapshot *s = NULL;
    struct box *fresh = NULL;
    _cleanup_free_ char *name = wire_find_str(v->frame, WIRE_K_NAME);
    if (!name)
        return error_set(err, EPROTO, "malformed request");
    pthread_mutex_lock(&h->owner);
    int r = find_snapshot(h, name, &s, err);
    if (r == 0 && !h->in)
        r = error_set(err, ENOENT, "the box '%s' has been removed", h->id.text);
    if (r == 0)
        r = box_fork_at(s, h->in->box, &(struct restore_report){.say = send_restored, .data = v},
                        &fresh, err);
    if (r == 0)
        r = held_replace(v->q->keeper, h, fresh, err);
    pthread_mutex_unlock(&h->owner);
    if (r == 0)
        visit_answer(v);
    return r;
}

static int serve_remove(struct visit *v, struct error *err)
{
    if (!held_remove(v->q->keeper, v->q->held))
        return error_set(err, ENOENT, "the box '%s' has been removed", v->q->held->id.text);
    visit_answer(v);
    return 0;
}

static void send_error(int conn, const struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(KEEPER_ANSWER_MAX);
    size_t begin = wire_begin(&out, WIRE_ERROR);
    wire_put_u64(&out, WIRE_K_CODE, (uint64_t)err->code);
    wire_put_str(&out, WIRE_K_TEXT, err->text);
    wire_end(&out, begin);
    wire_send(conn, &out, NULL, 0);
}

static int serve_diff(struct visit *v, struct error *err)
{
    if (v->reader->n_fds < 1)
        return error_set(err, EPROTO, "malformed request");
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_diff(v->q->in->box, wire_find_u64(v->frame, WIRE_K_STAT, 0), v->reader->fds[0], err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}

/* The next frame is a request to the guest. The client gets the stream on which the guest answers.
 */
static int serve_connect(struct visit *v, struct error *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(KEEPER_ANSWER_MAX);
    _cleanup_fd_ int stream = -1;
    struct wire_frame frame;
    if (wire_read(v->reader, &frame) <= 0)
        return error_set(err, EPROTO, "malformed request");
    size_t begin = wire_begin(&request, frame.type);
    buf_append(&request, frame.body, frame.size);
    wire_end(&request, begin);
    int r = held_enter(v->q, err);
    if (r < 0)
        return r;
    r = box_connect(v->q->in->box, &request, &stream, err);
    held_leave(v->q);
    if (r < 0)
        return r;
    wire_end(&v->out, wire_begin(&v->out, WIRE_RESULT));
    wire_send(v->q->conn, &v->out, &stream, 1);
    v->out.len = 0;
    return 0;
}

static void put_settings(struct buf *out, struct box *b)
{
    struct box_limits limits = box_limits_of(b);
    _cleanup_free_ char *net = box_net_text(b);
    wire_put_str(out, KEEPER_K_NET, net ? net : "");
    wire_put_u64(out, KEEPER_K_MEMORY, limits.memory);
    wire_put_u64(out, KEEPER_K_PIDS, limits.pids);
    wire_put_u64(out, KEEPER_K_MILLICPUS, (uint64_t)(limits.cpus * 1000 + 0.5));
    wire_put_u64(out, KEEPER_K_TIMEOUT_NS, (uint64_t)limits.timeout_ns);
}

/* Copies the texts of one key to a list of at most `max`, all of which point into *ret_memory. */
static int set_strings(const struct wire_frame *f, uint16_t key, const char **list, size_t max,
                       size_t *ret_n, char **ret_memory)
{
    struct wire_field field;
    size_t n = 0, bytes = 1;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key)
            bytes += field.size + 1;
    char *text = *ret_memory = calloc(1, bytes);
    for (size_t at = 0; text && wire_next(f, &at, &field);) {
        if (field.key != key)
            continue;
        if (n == max || memchr(field.data, 0, field.size))
            return -EPROTO;
        list[n++] = memcpy(text, field.data, field.size);
        text += field.size + 1;
    }
    *ret_n = n;
    return text ? 0 : -ENOMEM;
}

static int serve_set(struct visit *v, struct error *err)
{
    const struct wire_frame *f = v->frame;
    _cleanup_free_ char *net = wire_find_str(f, KEEPER_K_NET);
    _cleanup_free_ char *allow = NULL, *hosts = NULL, *env = NULL;
    struct box_options o = {
        .net = net ? net_policy_find(net, strlen(net)) : NULL,
        .limits = {.memory = wire_find_u64(f, KEEPER_K_MEMORY, 0),
                   .pids = wire_find_u64(f, KEEPER_K_PIDS, 0),
                   .cpus = (double)wire_find_u64(f, KEEPER_K_MILLICPUS, 0) / 1000,
                   .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0)}};
    if (!o.net ||
        set_strings(f, KEEPER_K_ALLOW, o.allow, ARRAY_SIZE(o.allow), &o.n_allow, &allow) < 0 ||
        set_strings(f, KEEPER_K_HOST, o.hosts, ARRAY_SIZE(o.hosts), &o.n_hosts, &hosts) < 0 ||
        set_strings(f, KEEPER_K_NET_ENV, o.net_env, ARRAY_SIZE(o.net_env), &o.n_net_env, &env) < 0)
        return error_set(err, EPROTO, "malformed request");
    int r = visit_lock_owner(v, err);
    if (r < 0)
        return r;
    r = box_adjust(v->q->in->box, &o, (unsigned)wire_find_u64(f, KEEPER_K_FIELDS, 0), err);
    visit_unlock_owner(v);
    if (r == 0)
        visit_answer(v);
    return r;
}

static int serve_info(struct visit *v, struct error *err)
{
    const struct held *h = v->q->held;
    uint64_t commands = 0;
    int r = held_enter(v->q, err);
    if (r < 0)
        return r;
    int64_t now = clock_now();
    pthread_mutex_lock(&v->q->keeper->lock);
    int64_t until = held_until(h);
    pthread_mutex_unlock(&v->q->keeper->lock);
    const char *workspace = box_workspace(v->q->in->box);
    size_t begin = wire_begin(&v->out, WIRE_RESULT);
    wire_put_u64(&v->out, KEEPER_K_PID, (uint64_t)getpid());
    wire_put_u64(&v->out, KEEPER_K_BOX_MODE, box_mode_of(v->q->in->box));
    wire_put_u64(&v->out, KEEPER_K_AGE_NS, (uint64_t)(now - h->born));
    wire_put_u64(&v->out, KEEPER_K_LEFT_NS,
                 !until        ? UINT64_MAX
                 : until > now ? (uint64_t)(until - now)
                               : 0);
    if (workspace && *workspace)
        wire_put_str(&v->out, WIRE_K_PATH, workspace);
    pthread_mutex_lock(&v->q->keeper->lock);
    for (const struct request *q = v->q->in->requests; q; q = q->next)
        commands += q != v->q;
    wire_put_u64(&v->out, KEEPER_K_SNAPSHOTS, h->n_snapshots);
    pthread_mutex_unlock(&v->q->keeper->lock);
    wire_put_u64(&v->out, WIRE_K_COUNT, commands);
    put_settings(&v->out, v->q->in->box);
    held_leave(v->q);
    visit_send(v, begin);
    return 0;
}

static int dispatch(struct visit *v, struct error *err)
{
    switch ((enum keeper_type)v->frame->type) {
    case KEEPER_EXEC:
        return serve_exec(v, err);
    case KEEPER_FORK:
        return serve_fork(v, err);
    case KEEPER_SNAPSHOT:
        return serve_snapshot(v, err);
    case KEEPER_RESTORE:
        return serve_restore(v, err);
    case KEEPER_DIFF:
        return serve_diff(v, err);
    case KEEPER_APPLY:
        return serve_apply(v, err);
    case KEEPER_REMOVE:
        return serve_remove(v, err);
    case KEEPER_INFO:
        return serve_info(v, err);
    case KEEPER_CONNECT:
        return serve_connect(v, err);
    case KEEPER_CHANGES:
        return serve_changes(v, err);
    case KEEPER_SYNC:
        return serve_sync(v, err);
    case KEEPER_NOTE:
        return serve_note(v, err);
    case KEEPER_SET:
        return serve_set(v, err);
    case KEEPER_KEPT:
        break;
    }
    return error_set(err, EPROTO, "the keeper of this box does not support this request");
}

static bool is_owner(int conn)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return false;
    return peer.uid == geteuid() || peer.uid == 0;
}

void keeper_serve(struct request *q)
{
    struct error err = {0};
    struct wire_frame frame;
    struct wire_reader reader = WIRE_READER_INIT(q->conn);
    struct visit visit = {
        .q = q, .frame = &frame, .reader = &reader, .out = BUF_INIT(KEEPER_ANSWER_MAX)};
    int r = -EPERM;
    if (is_owner(q->conn))
        r = wire_read(&reader, &frame);
    if (r > 0 && dispatch(&visit, &err) < 0)
        send_error(q->conn, &err);
    buf_free(&visit.out);
    wire_reader_free(&reader);
    close(q->conn);
}
