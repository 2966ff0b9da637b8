/* SEARCH: the lines of files that match a pattern; and the collection of them, in order. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "search.h"
#include "banned.h"

#define MATCHES_DEFAULT 1000
#define FILES_DEFAULT   1000
#define BYTES_DEFAULT   (1u << 20)
#define LIMIT_MAX       100000
#define BYTES_MAX       (16u << 20)
#define SLACK           256 /* beyond twice a limit, before the hits are pruned */
#define SLACK_BYTES     (1u << 20)

struct hits_file {
    char *path;
    uint64_t count;
    unsigned kept;
    struct buf frames;
};

int hits_compare_paths(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    int x = *a == '/' ? 0 : (unsigned char)*a, y = *b == '/' ? 0 : (unsigned char)*b;
    /* Where one ends and the other has a slash, the one that ends is first. */
    return x != y ? x - y : (*a != 0) - (*b != 0);
}

static int hits_file_compare(const void *a, const void *b)
{
    return hits_compare_paths(((const struct hits_file *)a)->path,
                              ((const struct hits_file *)b)->path);
}

void hits_init(struct hits *h, const struct hits_limits *limits)
{
    *h = (struct hits){.limits = *limits};
    pthread_mutex_init(&h->lock, NULL);
}

void hits_free(struct hits *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free(h->list[i].path);
        buf_free(&h->list[i].frames);
    }
    free(h->list);
    free(h->last_path_with_matches);
    free(h->last_path_counted);
    pthread_mutex_destroy(&h->lock);
}

static bool path_is_behind(const char *path, const char *last)
{
    return last && hits_compare_paths(path, last) > 0;
}

unsigned hits_room(struct hits *h, const char *path)
{
    pthread_mutex_lock(&h->lock);
    bool behind = path_is_behind(path, h->last_path_with_matches);
    pthread_mutex_unlock(&h->lock);
    return behind ? 0 : h->limits.matches > UINT_MAX ? UINT_MAX : (unsigned)h->limits.matches;
}

static int hits_set_last(char **last, const char *path)
{
    if (*last && hits_compare_paths(path, *last) >= 0)
        return 0;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    free(*last);
    *last = copy;
    return 0;
}

/* Sorts the files, and drops matches and files behind those that fill the limits. */
static int hits_prune(struct hits *h)
{
    uint64_t matches = 0, bytes = 0;
    size_t full = 0;
    int r = 0;
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    for (; full < h->count && matches < h->limits.matches && bytes < h->limits.bytes; full++) {
        matches += h->list[full].kept;
        bytes += h->list[full].frames.len;
    }
    if (full > 0 && full < h->count)
        r = hits_set_last(&h->last_path_with_matches, h->list[full - 1].path);
    for (size_t i = full; i < h->count; i++) {
        struct hits_file *f = &h->list[i];
        h->kept -= f->kept;
        h->bytes -= f->frames.len;
        f->kept = 0;
        buf_free(&f->frames);
        f->frames = BUF_INIT(0);
    }
    if (r < 0 || h->count <= h->limits.files)
        return r;
    while (h->count > h->limits.files) {
        struct hits_file *last = &h->list[--h->count];
        h->kept -= last->kept;
        h->bytes -= last->frames.len;
        free(last->path);
        buf_free(&last->frames);
    }
    return h->count ? hits_set_last(&h->last_path_counted, h->list[h->count - 1].path) : 0;
}

int hits_add(struct hits *h, const char *path, struct scan_result *found)
{
    const struct hits_limits *l = &h->limits;
    char *copy = strdup(path);
    int r = copy && !found->frames.failed ? 0 : -ENOMEM;
    pthread_mutex_lock(&h->lock);
    h->files++;
    h->matches += found->count;
    bool behind = path_is_behind(path, h->last_path_counted);
    if (r >= 0 && !behind &&
        (h->count > 2 * l->files + SLACK || h->kept > 2 * l->matches + SLACK ||
         h->bytes > 2 * l->bytes + SLACK_BYTES))
        r = hits_prune(h);
    if (r >= 0 && !behind && ARRAY_GROW(h->list, h->count, h->room)) {
        h->list[h->count++] =
            (struct hits_file){TAKE_PTR(copy), found->count, found->kept, found->frames};
        h->kept += found->kept;
        h->bytes += found->frames.len;
        found->frames = BUF_INIT(0);
    } else if (r >= 0 && !behind) {
        r = -ENOMEM;
    }
    pthread_mutex_unlock(&h->lock);
    free(copy);
    buf_free(&found->frames);
    found->frames = BUF_INIT(0);
    return r;
}

int hits_send(struct hits *h, int (*send)(void *data, const uint8_t *frame, size_t n), void *data,
              bool *ret_all)
{
    _cleanup_buf_ struct buf entry = BUF_INIT(WIRE_HEADER + WIRE_BODY_MAX);
    uint64_t matches = 0, bytes = 0;
    bool full = false;
    qsort(h->list, h->count, sizeof *h->list, hits_file_compare);
    size_t files = h->count < h->limits.files ? h->count : h->limits.files;
    for (size_t i = 0; i < files; i++) {
        const struct hits_file *f = &h->list[i];
        struct wire_frame frame;
        entry.len = 0;
        size_t begin = wire_begin(&entry, WIRE_ENTRY);
        wire_put_str(&entry, WIRE_K_PATH, f->path);
        wire_put_u64(&entry, WIRE_K_COUNT, f->count);
        wire_end(&entry, begin);
        int r = entry.failed ? -ENOMEM : send(data, entry.data, entry.len);
        for (size_t at = 0; r >= 0 && at < f->frames.len && !full;) {
            ssize_t n = wire_parse(f->frames.data + at, f->frames.len - at, &frame);
            if (n <= 0)
                return -EPROTO;
            full = matches == h->limits.matches || bytes + (size_t)n > h->limits.bytes;
            if (full)
                break;
            r = send(data, f->frames.data + at, (size_t)n);
            matches++;
            bytes += (size_t)n;
            at += (size_t)n;
        }
        if (r < 0)
            return r;
    }
    *ret_all = files == h->files && matches == h->matches;
    return 0;
}

struct search {
    struct pattern *pattern;
    unsigned context;
    uint64_t file_max;
    struct hits hits;
    uint64_t searched, binary, partly; /* files */
};

struct search_thread {
    struct scan scan;
    struct buf path; /* of a file */
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
    t->path = ENTRY_PATH_INIT;
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
    buf_free(&t->path);
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
        if (entry_path_set(&t->path, f, e) < 0)
            return -ENOMEM;
        int r = search_file(w->data, t, fd, (const char *)t->path.data, &unreadable, &err);
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
