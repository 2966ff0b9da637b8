/* SEARCH: the lines of files that match a pattern. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "hits.h"
#include "search.h"
#include "sweep_thread.h"
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

/* What one thread has for itself. */
struct seeker {
    struct scan scan;
    struct sweep_path path;
    uint64_t searched, binary, partly;
};

static int seeker_new(struct search *s, struct seeker **ret)
{
    struct seeker *mine = calloc(1, sizeof *mine);
    struct matcher *matcher = NULL;
    int r = mine ? matcher_new(s->pattern, &matcher) : -ENOMEM;
    if (r >= 0)
        r = scan_init(&mine->scan, matcher, s->context, s->file_max);
    if (r < 0) {
        matcher_free(matcher);
        free(mine);
        return r;
    }
    *ret = mine;
    return 0;
}

static void seeker_end(struct search *s, struct seeker *mine)
{
    s->searched += mine->searched;
    s->binary += mine->binary;
    s->partly += mine->partly;
    scan_free(&mine->scan);
    free(mine->path.text);
    free(mine);
}

static int begin(struct sweep *w, void **ret)
{
    struct seeker *mine;
    int r = seeker_new(w->data, &mine);
    if (r >= 0)
        *ret = mine;
    return r;
}

static void end(struct sweep *w, void *mine)
{
    seeker_end(w->data, mine);
}

/* One open file. `*ret_unreadable` if it could not be read; a failure is of the search. */
static int look(struct search *s, struct seeker *mine, int fd, const char *path,
                bool *ret_unreadable, struct error *err)
{
    struct scan_result found = {.keep_max = hits_room(&s->hits, path),
                                .bytes_max = s->hits.limits.bytes,
                                .frames = BUF_INIT(s->hits.limits.bytes + WIRE_BODY_MAX)};
    int r = scan_file(&mine->scan, fd, &found);
    if (r == -E2BIG) {
        buf_free(&found.frames);
        return error_set(err, E2BIG,
                         "pattern: %s (%.300s, line %llu): make it simpler; a repeat within a "
                         "repeat, as in (a+)+, is "
                         "the usual cause",
                         matcher_error(mine->scan.matcher), path,
                         (unsigned long long)found.failed_line);
    }
    *ret_unreadable = r < 0 && r != -ENOMEM;
    mine->searched += r >= 0 && !(found.binary && found.count == 0);
    mine->binary += r >= 0 && found.binary;
    mine->partly += r >= 0 && found.partly;
    if (r < 0 || found.count == 0) {
        buf_free(&found.frames);
        return r == -ENOMEM ? error_errno(err, ENOMEM, "%.400s", path) : 0;
    }
    r = hits_add(&s->hits, path, &found);
    return r < 0 ? error_errno(err, -r, "%.400s", path) : 0;
}

/* The type that the folder told may be another by now: so nothing is waited for, and no link is
 * followed. */
static int open_file(int folder, const char *name)
{
    return openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int files(struct sweep *w, void *data, const struct folder *f, int folder, size_t first,
                 size_t count)
{
    struct search *s = w->data;
    struct seeker *mine = data;
    if (sweep_path_reserve(&mine->path, f) < 0)
        return -ENOMEM;
    for (size_t i = first; i < first + count; i++) {
        const struct entry *e = &f->entries[i];
        _cleanup_fd_ int fd = open_file(folder, folder_name(f, e));
        if (fd < 0) {
            atomic_fetch_add(&w->unreadable, errno != ENOENT && errno != ELOOP);
            continue;
        }
        struct error err = {0};
        bool unreadable = false;
        sweep_path_set(&mine->path, f, folder_name(f, e), e->n);
        int r = look(s, mine, fd, mine->path.text, &unreadable, &err);
        atomic_fetch_add(&w->unreadable, unreadable);
        if (r < 0)
            return sweep_fail(w, r, &err);
    }
    return 0;
}

static const struct sweep_user user = {.begin = begin, .end = end, .files = files};

static uint64_t bounded(const struct wire_frame *f, uint16_t key, uint64_t fallback, uint64_t max)
{
    uint64_t v = wire_find_u64(f, key, fallback);
    return v < 1 ? 1 : v > max ? max : v;
}

static int read_request(struct search *s, const struct wire_frame *f, struct error *err)
{
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
    s->context = context > SCAN_CONTEXT_MAX ? SCAN_CONTEXT_MAX : (unsigned)context;
    s->file_max = bounded(f, WIRE_K_FILE_MAX, SCAN_FILE_MAX, SCAN_FILE_MAX);
    hits_init(&s->hits, &limits);
    return pattern_compile((const char *)text.data, text.size, &o, &s->pattern, err);
}

static int tell_file(void *data, const char *path, uint64_t count)
{
    struct file_call *c = data;
    size_t at = wire_begin(&c->out, WIRE_ENTRY);
    wire_put_str(&c->out, WIRE_K_PATH, path);
    wire_put_u64(&c->out, WIRE_K_COUNT, count);
    wire_end(&c->out, at);
    return c->out.len > WIRE_DATA_MAX ? file_send(c) : 0;
}

static int tell_frame(void *data, const uint8_t *frame, size_t n)
{
    struct file_call *c = data;
    buf_append(&c->out, frame, n);
    return c->out.len > WIRE_DATA_MAX ? file_send(c) : 0;
}

static int tell(struct search *s, struct file_call *c, uint64_t unreadable)
{
    const struct hits_sink sink = {tell_file, tell_frame, c};
    bool all = true;
    int r = hits_tell(&s->hits, &sink, &all);
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

/* The path names a file: it is searched, whatever the ignore files say. */
static int search_one(struct search *s, struct file_call *c, struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    struct seeker *mine;
    bool unreadable = false;
    int r = file_open_regular(c, &fd, &st, err);
    if (r < 0)
        return r;
    r = seeker_new(s, &mine);
    if (r < 0)
        return error_errno(err, -r, "%.400s", c->path);
    r = look(s, mine, fd, c->path, &unreadable, err);
    seeker_end(s, mine);
    return r < 0 ? r : tell(s, c, unreadable);
}

static int search_below(struct search *s, struct file_call *c, struct error *err)
{
    struct sweep w = {.user = &user, .data = s};
    int r = sweep_open(&w, c, err);
    if (r == -ENOTDIR)
        return search_one(s, c, err);
    if (r >= 0)
        r = sweep_run(&w, c, err);
    return r < 0 ? r : tell(s, c, w.unreadable);
}

/* Like all requests, in a process of its own: what it holds needs no giving back. */
int search_files(struct file_call *c, struct error *err)
{
    struct search s = {0};
    int r = read_request(&s, &c->request, err);
    return r < 0 ? r : search_below(&s, c, err);
}
