/* SEARCH: the lines of files that match a pattern. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "search.h"
#include "tree_walk.h"
#include "banned.h"

#define MATCHES_DEFAULT 1000
#define FILES_DEFAULT   1000
#define BYTES_DEFAULT   (1u << 20)
#define LIMIT_MAX       100000
#define BYTES_MAX       (16u << 20)

struct search {
    struct pattern *pattern;
    unsigned context;
    uint64_t file_max;
    struct hits hits;
    uint64_t searched, binary, partly; /* files */
};

struct search_thread {
    struct scan scan;
    struct entry_path path;
    uint64_t searched, binary, partly;
};

static int search_thread_begin(void *data, void **ret_state)
{
    struct search *s = data;
    struct search_thread *t = calloc(1, sizeof *t);
    struct matcher *matcher = NULL;
    int r = t ? matcher_new(s->pattern, &matcher) : -ENOMEM;
    if (r >= 0)
        r = scan_init(&t->scan, matcher, s->context, s->file_max);
    if (r < 0) {
        matcher_free(matcher);
        free(t);
        return r;
    }
    *ret_state = t;
    return 0;
}

static void search_thread_end(void *data, void *state)
{
    struct search *s = data;
    struct search_thread *t = state;
    s->searched += t->searched;
    s->binary += t->binary;
    s->partly += t->partly;
    scan_free(&t->scan);
    free(t->path.text);
    free(t);
}

/* One open file. *ret_unreadable if it could not be read; an error ends the search. */
static int search_file(struct search *s, struct search_thread *t, int fd, const char *path,
                       bool *ret_unreadable, struct error *err)
{
    struct scan_result found = {.keep_max = hits_room(&s->hits, path),
                                .bytes_max = s->hits.limits.bytes,
                                .frames = BUF_INIT(s->hits.limits.bytes + WIRE_BODY_MAX)};
    int r = scan_file(&t->scan, fd, &found);
    if (r == -E2BIG) {
        buf_free(&found.frames);
        return error_set(err, E2BIG,
                         "pattern: %s (%.300s, line %llu): make it simpler; a repeat within a "
                         "repeat, as in (a+)+, is the usual cause",
                         matcher_error(t->scan.matcher), path,
                         (unsigned long long)found.failed_line);
    }
    *ret_unreadable = r < 0 && r != -ENOMEM;
    t->searched += r >= 0 && !(found.binary && found.count == 0);
    t->binary += r >= 0 && found.binary;
    t->partly += r >= 0 && found.partly;
    if (r < 0 || found.count == 0) {
        buf_free(&found.frames);
        return r == -ENOMEM ? error_errno(err, ENOMEM, "%.400s", path) : 0;
    }
    r = hits_add(&s->hits, path, &found);
    return r < 0 ? error_errno(err, -r, "%.400s", path) : 0;
}

static int search_walk_files(struct tree_walk *w, void *state, const struct folder *f, int folder,
                             size_t first, size_t count)
{
    struct search_thread *t = state;
    if (entry_path_set_folder(&t->path, f) < 0)
        return -ENOMEM;
    for (size_t i = first; i < first + count; i++) {
        const struct entry *e = &f->entries[i];
        const char *name = folder_name(f, e);
        /* The entry may have become a link or a FIFO since the folder was read: never follow or
         * wait. */
        _cleanup_fd_ int fd =
            openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0) {
            atomic_fetch_add(&w->unreadable, errno != ENOENT && errno != ELOOP);
            continue;
        }
        struct error err = {0};
        bool unreadable = false;
        entry_path_set_name(&t->path, f, name, e->n);
        int r = search_file(w->data, t, fd, t->path.text, &unreadable, &err);
        atomic_fetch_add(&w->unreadable, unreadable);
        if (r < 0)
            return tree_walk_fail(w, r, &err);
    }
    return 0;
}

static const struct tree_walk_ops OPS = {.thread_begin = search_thread_begin,
                                         .thread_end = search_thread_end,
                                         .files = search_walk_files};

static uint64_t bounded(const struct wire_frame *f, uint16_t key, uint64_t fallback, uint64_t max)
{
    uint64_t v = wire_find_u64(f, key, fallback);
    return v < 1 ? 1 : v > max ? max : v;
}

static int search_put_frame(void *data, const uint8_t *frame, size_t n)
{
    struct file_call *c = data;
    buf_append(&c->out, frame, n);
    return c->out.len > WIRE_DATA_MAX ? file_send(c) : 0;
}

static int search_answer(struct search *s, struct file_call *c, uint64_t unreadable)
{
    bool all = true;
    int r = hits_send(&s->hits, search_put_frame, c, &all);
    if (r < 0)
        return r;
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_COUNT, s->hits.matches);
    wire_put_u64(&c->out, WIRE_K_FILES_MATCHED, s->hits.files);
    wire_put_u64(&c->out, WIRE_K_SEARCHED, s->searched);
    wire_put_u64(&c->out, WIRE_K_BINARY, s->binary);
    wire_put_u64(&c->out, WIRE_K_UNREADABLE, unreadable);
    wire_put_u64(&c->out, WIRE_K_PARTLY, s->partly);
    if (!all)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, 1);
    wire_end(&c->out, at);
    return 0;
}

/* Runs in a worker process: what it allocates ends with that. */
int search_files(struct file_call *c, struct error *err)
{
    const struct wire_frame *f = &c->request;
    struct search s = {0};
    struct tree_walk w = {.ops = &OPS, .data = &s};
    struct wire_field text;
    if (!wire_find(f, WIRE_K_PATTERN, &text))
        return error_set(err, EINVAL, "pattern: is missing");
    uint64_t context = wire_find_u64(f, WIRE_K_CONTEXT, 0);
    struct pattern_options o = {.literal = wire_find_u64(f, WIRE_K_LITERAL, 0),
                                .ignore_case = wire_find_u64(f, WIRE_K_IGNORE_CASE, 0)};
    struct hits_limits limits = {.matches =
                                     bounded(f, WIRE_K_MAX_MATCHES, MATCHES_DEFAULT, LIMIT_MAX),
                                 .files = bounded(f, WIRE_K_MAX_FILES, FILES_DEFAULT, LIMIT_MAX),
                                 .bytes = bounded(f, WIRE_K_LIMIT_BYTES, BYTES_DEFAULT, BYTES_MAX)};
    s.context = context > SCAN_CONTEXT_MAX ? SCAN_CONTEXT_MAX : (unsigned)context;
    s.file_max = bounded(f, WIRE_K_FILE_MAX, SCAN_FILE_MAX, SCAN_FILE_MAX);
    hits_init(&s.hits, &limits);
    int r = pattern_compile((const char *)text.data, text.size, &o, &s.pattern, err);
    if (r < 0)
        return r;

    r = tree_walk_open(&w, c, err);
    if (r >= 0) {
        r = tree_walk_run(&w, c, err);
        return r < 0 ? r : search_answer(&s, c, w.unreadable);
    }
    if (r != -ENOTDIR)
        return r;

    /* The path names a file: it is searched, whatever the ignore files say. */
    _cleanup_fd_ int fd = -1;
    struct stat st;
    void *thread;
    bool unreadable = false;
    r = file_open_regular(c, &fd, &st, err);
    if (r < 0)
        return r;
    r = search_thread_begin(&s, &thread);
    if (r < 0)
        return error_errno(err, -r, "%.400s", c->path);
    r = search_file(&s, thread, fd, c->path, &unreadable, err);
    search_thread_end(&s, thread);
    return r < 0 ? r : search_answer(&s, c, unreadable);
}
