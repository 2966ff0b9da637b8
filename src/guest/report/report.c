#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io.h"
#include "report.h"
#include "../search/glob.h"
#include "banned.h"

#define HEAD_MAX    4096u /* bytes of a document that are examined */
#define FILES_MAX   10000u
#define DEPTH_MAX   32u
#define VISITED_MAX 200000u

/* A JSON document takes several times its size in memory, and a hostile one far more. */
#define MEMORY_MAX (512ull << 20)

static const struct report_format *const FORMATS[] = {
    [WIRE_REPORT_JUNIT] = &REPORT_JUNIT,
    [WIRE_REPORT_JSON] = &REPORT_JSON,
    [WIRE_REPORT_GO] = &REPORT_GO,
    [WIRE_REPORT_MESON] = &REPORT_MESON,
    [WIRE_REPORT_TAP] = &REPORT_TAP,
    [WIRE_REPORT_LIBTEST] = &REPORT_LIBTEST,
    [WIRE_REPORT_AUTOMAKE] = &REPORT_AUTOMAKE,
};

const struct report_format *report_format_of(enum wire_report_format format)
{
    return (size_t)format < ARRAY_SIZE(FORMATS) ? FORMATS[format] : NULL;
}

static int sniff_line(void *data, char *line, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (FORMATS[i] && FORMATS[i]->is_line && FORMATS[i]->is_line(line))
            return (int)i;
    return 0;
}

/* A document is recognised by its first bytes. Of what a runner prints, the first line that only
 * one of the formats has decides, since anything may be printed before. */
enum wire_report_format report_sniff(char *text, size_t n)
{
    char head[HEAD_MAX + 1] = {0};
    memcpy(head, text, n < HEAD_MAX ? n : HEAD_MAX);
    for (size_t i = 0; i < n && i < HEAD_MAX; i++)
        head[i] = head[i] ? head[i] : ' ';
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (FORMATS[i] && FORMATS[i]->is_document && FORMATS[i]->is_document(head))
            return (enum wire_report_format)i;
    return (enum wire_report_format)report_each_line(text, n, sniff_line, NULL);
}

struct report_call {
    struct file_call *call;
    struct report report;
    enum wire_report_format format, found;
    int64_t newer_ns;
    uint64_t read, stale;
    /* The files: the path itself, all files of a folder, or those that match a pattern. */
    char **paths;
    size_t count;
    const char *pattern; /* of what lies beneath the folder; NULL: all */
    bool single;         /* the path itself is the file */
    size_t base;         /* how many bytes of each path are the folder */
    size_t visited;
};

static int report_add_file(struct report_call *s, const char *path)
{
    if (!s->paths)
        s->paths = calloc(FILES_MAX, sizeof *s->paths);
    char *copy = s->paths ? strdup(path) : NULL;
    if (!copy)
        return -ENOMEM;
    s->paths[s->count++] = copy;
    return 0;
}

/* Collects the files beneath a folder. Links are not followed, neither .git nor node_modules is
 * entered, and a pattern matches hidden names only if it names some itself. */
static int report_walk(struct report_call *s, const char *folder, unsigned depth, struct error *err)
{
    struct file_call *c = s->call;
    const char *pattern = s->pattern;
    bool no_hidden = pattern && *pattern != '.' && !strstr(pattern, "/.");
    const struct dirent *e;
    int fd, r = file_resolve(c, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, &fd);
    if (r < 0) /* gone, or not readable */
        return depth == 0 ? file_error(c, -r, folder, err) : 0;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    for (r = 0; r >= 0 && (e = readdir(dir));) {
        char path[PATH_MAX];
        struct stat st;
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0 ||
            strcmp(name, "node_modules") == 0 || (no_hidden && name[0] == '.'))
            continue;
        if (++s->visited > VISITED_MAX) {
            r = error_set(err, E2BIG,
                          "%.400s: more than %u files are there: name the folder of the reports",
                          c->path, VISITED_MAX);
            break;
        }
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path ||
            fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        const char *inner = path + s->base + strspn(path + s->base, "/");
        bool wanted = !pattern || glob_match(pattern, strlen(pattern), inner, strlen(inner));
        if (S_ISDIR(st.st_mode))
            r = depth < DEPTH_MAX ? report_walk(s, path, depth + 1, err) : 0;
        else if (S_ISREG(st.st_mode) && wanted && s->count == FILES_MAX)
            r = error_set(err, E2BIG, "%.400s: more than %u files match", c->path, FILES_MAX);
        else if (S_ISREG(st.st_mode) && wanted)
            r = report_add_file(s, path);
    }
    closedir(dir);
    return r;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int report_find_files(struct report_call *s, struct error *err)
{
    struct file_call *c = s->call;
    _cleanup_fd_ int fd = -1;
    _cleanup_free_ char *folder = NULL;
    struct stat st = {0};
    size_t n = strcspn(c->path, "*?[");
    /* The components without a pattern are the folder, the rest is the pattern. */
    while (c->path[n] && n > 0 && c->path[n - 1] != '/')
        n--;
    if (c->path[n]) {
        s->pattern = c->path + n;
        folder = n ? strndup(c->path, n > 1 ? n - 1 : n) : strdup(".");
    } else {
        int r = file_resolve(c, c->path, O_PATH, &fd);
        if (r >= 0 && fstat(fd, &st) < 0)
            r = -errno;
        if (r < 0)
            return file_error(c, -r, c->path, err);
        s->single = !S_ISDIR(st.st_mode);
        if (s->single)
            return report_add_file(s, c->path);
        folder = strdup(c->path);
    }
    if (!folder)
        return -ENOMEM;
    s->base = strlen(folder);
    int r = report_walk(s, folder, 0, err);
    if (r >= 0 && s->count)
        qsort(s->paths, s->count, sizeof *s->paths, compare_paths);
    return r;
}

static int send_test(void *data, const struct report_test *t)
{
    struct file_call *c = data;
    size_t at = wire_begin(&c->out, WIRE_ENTRY);
    wire_put_str(&c->out, WIRE_K_NAME, t->name);
    wire_put_u64(&c->out, WIRE_K_OUTCOME, t->outcome);
    if (*t->message)
        wire_put_str(&c->out, WIRE_K_TEXT, t->message);
    if (*t->file)
        wire_put_str(&c->out, WIRE_K_PATH, t->file);
    if (t->line)
        wire_put_u64(&c->out, WIRE_K_LINE, t->line);
    if (t->duration_ns)
        wire_put_u64(&c->out, WIRE_K_DURATION_NS, (uint64_t)t->duration_ns);
    wire_end(&c->out, at);
    return c->out.len > WIRE_DATA_MAX ? file_send(c) : 0;
}

/* Reads a regular file whole, up to the limit. 1, or 0 if it is older than `newer_ns`. */
static int report_load(struct file_call *c, const char *path, int64_t newer_ns, struct buf *ret,
                       struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    char *kept = c->path;
    c->path = (char *)path;
    int r = file_open_regular(c, &fd, &st, err);
    c->path = kept;
    if (r < 0)
        return r;
    if ((int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec < newer_ns)
        return 0;
    r = st.st_size > (off_t)REPORT_SIZE_MAX ? -ENOBUFS : io_read_all(fd, ret);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "%.400s: a test report of more than %u MiB is not read", path,
                         REPORT_SIZE_MAX >> 20);
    if (r >= 0 && !buf_cstr(ret))
        r = -ENOMEM;
    return r < 0 ? error_errno(err, -r, "%.400s", path) : 1;
}

static int report_read_file(struct report_call *s, const char *path, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(REPORT_SIZE_MAX + 1), log = text;
    _cleanup_free_ char *label = NULL, *log_path = NULL;
    _cleanup_clip_ struct clip printed = CLIP_INIT;
    int r = report_load(s->call, path, s->newer_ns, &text, err);
    if (r <= 0) {
        s->stale += r == 0;
        return r;
    }

    /* Names that are only unique in one file get its name before them. What an Automake test
     * printed is in a file beside its .trs file. */
    const char *inner = path + s->base + strspn(path + s->base, "/");
    inner += strncmp(inner, "./", 2) == 0 ? 2 : 0;
    size_t n = strlen(path), n_inner = strlen(inner);
    if (n_inner > 4 && strcmp(path + n - 4, ".trs") == 0) {
        struct error ignored;
        label = strndup(inner, n_inner - 4);
        if (asprintf(&log_path, "%.*s.log", (int)n - 4, path) < 0)
            log_path = NULL;
        if (log_path && report_load(s->call, log_path, 0, &log, &ignored) > 0)
            clip_add(&printed, log.data, log.len);
    } else if (s->format == WIRE_REPORT_TAP && !s->single) {
        label = strdup(inner);
    }
    s->report.label = label;
    s->report.fallback = clip_text(&printed);

    char *data = (char *)text.data;
    enum wire_report_format number = s->format ? s->format : report_sniff(data, text.len);
    const struct report_format *format = report_format_of(number);
    if (!format)
        return error_set(err, EINVAL, "%.400s: has no test results in a known format", path);
    s->found = number;
    s->read++;
    r = format->parse(&s->report, data, text.len, err);
    if (r < 0)
        return err->code ? error_wrap(err, "%.400s", path) : error_errno(err, -r, "%.400s", path);
    return 0;
}

int report_serve(struct file_call *c, struct error *err)
{
    struct report_call s = {
        .call = c,
        .report = {.emit = send_test, .data = c},
        .format = (enum wire_report_format)wire_find_u64(&c->request, WIRE_K_FORMAT, 0),
        .newer_ns = (int64_t)wire_find_u64(&c->request, WIRE_K_NEWER_NS, 0)};
    const uint64_t *counts = s.report.counts;
    setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
    if (s.format && !report_format_of(s.format))
        return error_set(err, EINVAL, "there is no report format %d", (int)s.format);
    int r = report_find_files(&s, err);
    for (size_t i = 0; i < s.count; i++) {
        if (r >= 0)
            r = report_read_file(&s, s.paths[i], err);
        free(s.paths[i]);
    }
    free(s.paths);
    if (r < 0) {
        file_send(c); /* what was read before is good: it is sent before the ERROR */
        return r;
    }
    size_t at = wire_begin(&c->out, WIRE_RESULT);
    wire_put_u64(&c->out, WIRE_K_FORMAT, s.found);
    wire_put_u64(&c->out, WIRE_K_COUNT, s.read);
    wire_put_u64(&c->out, WIRE_K_PASSED, counts[WIRE_OUTCOME_PASSED]);
    wire_put_u64(&c->out, WIRE_K_FAILED, counts[WIRE_OUTCOME_FAILED]);
    wire_put_u64(&c->out, WIRE_K_ERRORS, counts[WIRE_OUTCOME_ERROR]);
    wire_put_u64(&c->out, WIRE_K_SKIPPED, counts[WIRE_OUTCOME_SKIPPED]);
    wire_put_u64(&c->out, WIRE_K_DURATION_NS, (uint64_t)s.report.duration_ns);
    if (s.stale)
        wire_put_u64(&c->out, WIRE_K_STALE, s.stale);
    if (s.report.left_out)
        wire_put_u64(&c->out, WIRE_K_TOO_MANY, s.report.left_out);
    wire_end(&c->out, at);
    return 0;
}
