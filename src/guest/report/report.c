#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "report.h"
#include "banned.h"

static const struct report_format *const FORMATS[] = {
    [WIRE_REPORT_JUNIT] = &REPORT_JUNIT,
    [WIRE_REPORT_JSON] = &REPORT_JSON,
    [WIRE_REPORT_GO] = &REPORT_GO,
    [WIRE_REPORT_MESON] = &REPORT_MESON,
    [WIRE_REPORT_TAP] = &REPORT_TAP,
    [WIRE_REPORT_LIBTEST] = &REPORT_LIBTEST,
    [WIRE_REPORT_AUTOMAKE] = &REPORT_AUTOMAKE,
};

#define HEAD_MAX 4096u  /* bytes of a document that are looked at */
#define LOOK_MAX 65536u /* bytes of a line */

const struct report_format *report_format_of(enum wire_report_format format)
{
    return (size_t)format < ARRAY_SIZE(FORMATS) ? FORMATS[format] : NULL;
}

static int sniff_line(void *data, char *line, size_t n, bool cut)
{
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (FORMATS[i] && FORMATS[i]->is_line && FORMATS[i]->is_line(line))
            return (int)i;
    return 0;
}

static int rewind_source(struct report_source *s)
{
    s->total = 0;
    return lseek(s->fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* A document is recognised by its first bytes. Of what a runner prints, the first line that only
 * one of the formats has decides, since anything may be printed before. */
enum wire_report_format report_sniff(struct report_source *s)
{
    char head[HEAD_MAX + 1];
    ssize_t n = report_read(s, head, HEAD_MAX);
    if (n <= 0 || rewind_source(s) < 0)
        return WIRE_REPORT_AUTO;
    for (ssize_t i = 0; i < n; i++)
        if (head[i] == 0)
            head[i] = ' ';
    head[n] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(FORMATS); i++)
        if (FORMATS[i] && FORMATS[i]->is_document && FORMATS[i]->is_document(head))
            return (enum wire_report_format)i;
    int found = report_each_line(s, LOOK_MAX, sniff_line, NULL);
    rewind_source(s);
    return found > 0 ? (enum wire_report_format)found : WIRE_REPORT_AUTO;
}

/* A JSON document takes several times its size in memory, and a hostile one far more. */
#define MEMORY_MAX (512ull << 20)

struct report_call {
    struct file_call *call;
    struct report report;
    struct clip log; /* of an Automake test */
    enum wire_report_format format, found;
    int64_t newer_ns;
    uint64_t read, stale;
};

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

static bool has_suffix(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* What an Automake test printed lies beside its .trs file. */
static void read_log(struct report_call *s, const char *trs)
{
    struct file_call *c = s->call;
    struct stat st;
    char piece[4096], *path = NULL, *kept = c->path;
    _cleanup_fd_ int fd = -1;
    clip_reset(&s->log);
    if (asprintf(&path, "%.*s.log", (int)(strlen(trs) - 4), trs) < 0)
        return;
    c->path = path;
    struct error ignored;
    if (file_open_regular(c, &fd, &st, &ignored) >= 0) {
        struct report_source source = {.fd = fd};
        ssize_t n;
        while ((n = report_read(&source, piece, sizeof piece)) > 0)
            clip_add(&s->log, piece, (size_t)n);
    }
    c->path = kept;
    free(path);
}

/* Names that are only unique in one file get its name before them. */
static char *make_label(struct report_call *s, const struct report_files *f, const char *path)
{
    const char *inner = path + f->base;
    inner += strspn(inner, "/");
    if (strncmp(inner, "./", 2) == 0)
        inner += 2;
    if (has_suffix(path, ".trs"))
        return strndup(inner, strlen(inner) - 4);
    return s->format == WIRE_REPORT_TAP && !f->single ? strdup(inner) : NULL;
}

static int read_error(const char *path, int r, struct error *err)
{
    if (r == -EFBIG)
        return error_set(err, EFBIG, "%.400s: a test report of more than %u MiB is not read", path,
                         REPORT_SIZE_MAX >> 20);
    if (!err->code)
        return error_errno(err, -r, "%.400s", path);
    return error_wrap(err, "%.400s", path);
}

static int read_file(struct report_call *s, const struct report_files *f, const char *path,
                     struct error *err)
{
    _cleanup_fd_ int fd = -1;
    struct stat st;
    char *kept = s->call->path;
    s->call->path = (char *)path;
    int r = file_open_regular(s->call, &fd, &st, err);
    s->call->path = kept;
    if (r < 0)
        return r;
    if ((int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec < s->newer_ns) {
        s->stale++;
        return 0;
    }
    if (st.st_size > (off_t)REPORT_SIZE_MAX)
        return read_error(path, -EFBIG, err);
    _cleanup_free_ char *label = make_label(s, f, path);
    if (has_suffix(path, ".trs"))
        read_log(s, path);
    s->report.label = label;
    s->report.fallback = clip_text(&s->log);
    struct report_source source = {.fd = fd};
    enum wire_report_format number = s->format ? s->format : report_sniff(&source);
    const struct report_format *format = report_format_of(number);
    if (!format)
        return error_set(err, EINVAL, "%.400s: has no test results in a known format", path);
    s->found = number;
    s->read++;
    r = format->parse(&s->report, &source, err);
    return r < 0 ? read_error(path, r, err) : 0;
}

static void put_result(struct report_call *s)
{
    struct buf *b = &s->call->out;
    const struct report *r = &s->report;
    size_t at = wire_begin(b, WIRE_RESULT);
    wire_put_u64(b, WIRE_K_FORMAT, s->found);
    wire_put_u64(b, WIRE_K_COUNT, s->read);
    wire_put_u64(b, WIRE_K_PASSED, r->counts[WIRE_OUTCOME_PASSED]);
    wire_put_u64(b, WIRE_K_FAILED, r->counts[WIRE_OUTCOME_FAILED]);
    wire_put_u64(b, WIRE_K_ERRORS, r->counts[WIRE_OUTCOME_ERROR]);
    wire_put_u64(b, WIRE_K_SKIPPED, r->counts[WIRE_OUTCOME_SKIPPED]);
    wire_put_u64(b, WIRE_K_DURATION_NS, (uint64_t)r->duration_ns);
    if (s->stale)
        wire_put_u64(b, WIRE_K_STALE, s->stale);
    if (r->left_out)
        wire_put_u64(b, WIRE_K_TOO_MANY, r->left_out);
    wire_end(b, at);
}

int report_serve(struct file_call *c, struct error *err)
{
    struct report_call s = {
        .call = c,
        .report = {.emit = send_test, .data = c},
        .log = CLIP_INIT,
        .format = (enum wire_report_format)wire_find_u64(&c->request, WIRE_K_FORMAT, 0),
        .newer_ns = (int64_t)wire_find_u64(&c->request, WIRE_K_NEWER_NS, 0)};
    struct report_files files;
    setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
    if (s.format && !report_format_of(s.format))
        return error_set(err, EINVAL, "there is no report format %d", (int)s.format);
    int r = report_files_find(c, &files, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < files.count && r >= 0; i++)
        r = read_file(&s, &files, files.paths[i], err);
    report_files_free(&files);
    clip_free(&s.log);
    if (r < 0) {
        file_send(c); /* what was read before is good: it is sent before the ERROR */
        return r;
    }
    put_result(&s);
    return 0;
}
