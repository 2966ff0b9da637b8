/* The REPORT request: finds the files of a report, recognises and parses them; and what the parsers
 * share. Tests on their way out are cleaned, counted, and passed on up to a limit. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io.h"
#include "relpath.h"
#include "report.h"
#include "../search/glob.h"
#include "banned.h"

#define HEAD_MAX    4096u /* bytes of a document that are examined */
#define FILES_MAX   10000u
#define DEPTH_MAX   32u
#define VISITED_MAX 200000u
/* A JSON document takes several times its size in memory, and a hostile one far more. */
#define MEMORY_MAX (512ull << 20)

#define REPLACEMENT     "\xef\xbf\xbd"
#define LABEL_JOIN      " > "
#define LINE_MAX_DIGITS 7

int report_each_line(char *text, size_t n, int (*take)(void *data, char *line, size_t n),
                     void *data)
{
    char *end = text + n;
    for (char *at = text, *next; at < end; at = next) {
        char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        stop -= stop > at && stop[-1] == '\r';
        for (char *nul; (nul = memchr(at, 0, (size_t)(stop - at)));)
            *nul = ' ';
        char kept = *stop;
        *stop = 0;
        int r = take(data, at, (size_t)(stop - at));
        *stop = kept;
        if (r != 0)
            return r;
    }
    return 0;
}

void report_set_string(char **at, const char *s, size_t n)
{
    free(*at);
    *at = s ? strndup(s, n) : NULL;
}

char *report_after(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(s, prefix, n) == 0 ? (char *)s + n : NULL;
}

enum wire_outcome report_outcome(const struct report_word *words, const char *word)
{
    while (words->word && (!word || strcmp(words->word, word) != 0))
        words++;
    return words->outcome;
}

void clip_add(struct clip *c, const void *data, size_t n)
{
    const uint8_t *at = data;
    c->total += n;
    size_t room = CLIP_HEAD - c->head.len, first = n < room ? n : room;
    if (buf_append(&c->head, at, first) < 0)
        return;
    at += first;
    n -= first;
    if (n > CLIP_TAIL) {
        at += n - CLIP_TAIL;
        n = CLIP_TAIL;
    }
    if (c->tail.len + n > CLIP_TAIL * 2)
        buf_consume(&c->tail, c->tail.len - CLIP_TAIL);
    buf_append(&c->tail, at, n);
}

void clip_add_strings(struct clip *c, const char *const *strings)
{
    for (; *strings; strings++)
        clip_add(c, *strings, strlen(*strings));
}

void clip_reset(struct clip *c)
{
    c->head.len = c->tail.len = c->total = 0;
}

void clip_free(struct clip *c)
{
    buf_free(&c->head);
    buf_free(&c->tail);
    buf_free(&c->whole);
}

const char *clip_text(struct clip *c)
{
    size_t kept = c->tail.len < CLIP_TAIL ? c->tail.len : CLIP_TAIL;
    c->whole.len = 0;
    buf_append(&c->whole, c->head.data, c->head.len);
    if (c->total > c->head.len + kept)
        buf_printf(&c->whole, "\n[... %zu bytes left out ...]\n", c->total - c->head.len - kept);
    if (kept)
        buf_append(&c->whole, c->tail.data + c->tail.len - kept, kept);
    const char *text = buf_cstr(&c->whole);
    return text ? text : "";
}

/*
 * Places in source files, as failures name them:
 *
 *     PATH:LINE             src/a.py:12: AssertionError, panicked at src/lib.rs:7:38
 *     "PATH", line LINE     Python's tracebacks
 *     PATH line LINE        Perl: at t/a.t line 5.
 *
 * where PATH has a dot and letters behind it, as source files do. Files of the runner itself are
 * skipped.
 */
bool report_locate(const char *text, const char *like, char path[REPORT_PATH_MAX + 1],
                   uint64_t *ret_line)
{
    static const char *const FOREIGN[] = {"node_modules/", "site-packages/", "dist-packages/",
                                          "/rustc/",       "/usr/lib/",      "/usr/share/"};
    static const char *const BEFORE[] = {":", "\", line ", " line "};
    size_t n;
    for (const char *at = text; *at; at += n ? n : 1) {
        bool of_node = at - text >= 5 && strncmp(at - 5, "node:", 5) == 0;
        n = 0;
        while (at[n] && (isalnum((unsigned char)at[n]) || (unsigned char)at[n] >= 0x80 ||
                         strchr("._-/+@$%~[]\\", at[n])))
            n++;
        if (n < 2 || n > REPORT_PATH_MAX || of_node)
            continue;
        const char *number = NULL;
        for (size_t i = 0; !number && i < ARRAY_SIZE(BEFORE); i++)
            number = report_after(at + n, BEFORE[i]);
        size_t digits = number ? strspn(number, "0123456789") : 0;
        uint64_t line = digits && digits <= LINE_MAX_DIGITS ? strtoull(number, NULL, 10) : 0;
        if (line == 0)
            continue;
        /* An extension: one to five letters or digits behind the last dot, a letter first. */
        size_t dot = n;
        while (dot > 0 && at[dot - 1] != '.' && at[dot - 1] != '/')
            dot--;
        if (dot < 2 || at[dot - 1] != '.' || at[dot - 2] == '/' || n == dot || n - dot > 5 ||
            !isalpha((unsigned char)at[dot]))
            continue;
        memcpy(path, at, n);
        path[n] = 0;
        bool wanted = !like || strcmp(relpath_name(path), relpath_name(like)) == 0;
        for (size_t i = 0; !like && i < ARRAY_SIZE(FOREIGN); i++)
            wanted &= !strstr(path, FOREIGN[i]);
        if (wanted) {
            *ret_line = line;
            return true;
        }
    }
    return false;
}

/* Appends valid UTF-8 without colours, carriage returns and blanks at its end; on one line if
 * asked. Stops before `max` bytes. */
static void clean_text(const char *s, size_t max, bool one_line, struct buf *out)
{
    size_t n = strlen(s);
    for (size_t i = 0, step; i < n && out->len + 4 <= max; i += step) {
        /* Terminal sequences (ESC [ … letter): runners colour even what they write to files. */
        size_t end = 2;
        while (s[i] == 0x1b && s[i + 1] == '[' && end < 32 && s[i + end] &&
               (s[i + end] < '@' || s[i + end] > '~'))
            end++;
        if (s[i] == 0x1b && s[i + 1] == '[' && end < 32 && s[i + end]) {
            step = end + 1;
            continue;
        }
        step = utf8_character((const uint8_t *)s + i, n - i);
        if (!step) {
            step = 1;
            buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        } else if (one_line && (unsigned char)s[i] < ' ') {
            buf_append(out, " ", 1);
        } else if (s[i] != '\r') {
            buf_append(out, s + i, step);
        }
    }
    while (out->len && strchr(" \n\t", out->data[out->len - 1]))
        out->len--;
}

uint64_t report_bad(const struct report *r)
{
    return r->counts[WIRE_OUTCOME_FAILED] + r->counts[WIRE_OUTCOME_ERROR];
}

int report_add(struct report *r, const struct report_test *t)
{
    _cleanup_buf_ struct buf name = BUF_INIT(REPORT_NAME_MAX + 16),
                             file = BUF_INIT(REPORT_PATH_MAX + 16),
                             message = BUF_INIT(REPORT_TEXT_MAX * 3 + 16);
    _cleanup_clip_ struct clip whole = CLIP_INIT;
    char path[REPORT_PATH_MAX + 1];
    struct report_test out = *t;
    int64_t sum;
    uint64_t line;
    bool passed_on = r->total < REPORT_TESTS_MAX;
    r->total++;
    r->counts[t->outcome]++;
    if (t->duration_ns > 0 && __builtin_add_overflow(r->duration_ns, t->duration_ns, &sum) == 0)
        r->duration_ns = sum;
    if (!passed_on) {
        r->left_out++;
        return 0;
    }

    bool bad = t->outcome == WIRE_OUTCOME_FAILED || t->outcome == WIRE_OUTCOME_ERROR;
    if (bad && r->fallback && !(t->message && *t->message))
        out.message = r->fallback;
    /* Where it failed is in the text of most failures; a place in the test's own file is best. */
    bool known = out.file && *out.file;
    if (bad && out.message && report_locate(out.message, known ? out.file : NULL, path, &line)) {
        out.file = known ? out.file : path;
        out.line = line;
    }

    /* What is too long keeps both ends: names differ at their end as often as at their
     * beginning. */
    bool named = t->name && *t->name, labelled = r->label && *r->label;
    clip_add_str(&whole, labelled ? r->label : "", labelled && named ? LABEL_JOIN : "",
                 named ? t->name : "");
    clean_text(clip_text(&whole), REPORT_NAME_MAX, true, &name);
    if (name.len == 0)
        buf_append_str(&name, "(no name)");
    clip_reset(&whole);
    const char *text = out.message ? out.message : "";
    clip_add_str(&whole, text + strspn(text, "\r\n"));
    clean_text(clip_text(&whole), REPORT_TEXT_MAX * 3, false, &message);
    clean_text(out.file ? out.file : "", REPORT_PATH_MAX, true, &file);
    out.name = buf_cstr(&name);
    out.message = buf_cstr(&message);
    out.file = buf_cstr(&file);
    if (!out.name || !out.message || !out.file)
        return -ENOMEM;
    return r->emit(r->data, &out);
}

int64_t report_duration(double seconds)
{
    return isfinite(seconds) && seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : 0;
}

int64_t report_seconds(const char *s)
{
    return report_duration(strtod(s, NULL));
}

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

static int report_sniff_line(void *data, char *line, size_t n)
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
    return (enum wire_report_format)report_each_line(text, n, report_sniff_line, NULL);
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

/* Takes a file of the report, unless there are too many. */
static int report_add_file(struct report_call *s, const char *path, struct error *err)
{
    if (s->count == FILES_MAX)
        return error_set(err, E2BIG, "%.400s: more than %u files match", s->call->path, FILES_MAX);
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
                          "%.400s: more than %u files found: name the folder of the reports",
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
        else if (S_ISREG(st.st_mode) && wanted)
            r = report_add_file(s, path, err);
    }
    closedir(dir);
    return r;
}

static int report_compare_paths(const void *a, const void *b)
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
            return report_add_file(s, c->path, err);
        folder = strdup(c->path);
    }
    if (!folder)
        return -ENOMEM;
    s->base = strlen(folder);
    int r = report_walk(s, folder, 0, err);
    if (r >= 0 && s->count)
        qsort(s->paths, s->count, sizeof *s->paths, report_compare_paths);
    return r;
}

static int report_send_test(void *data, const struct report_test *t)
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
        return error_set(err, EFBIG, "%.400s: the test report is larger than %u MiB", path,
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
        return error_set(err, EINVAL, "%.400s: no test results in a known format", path);
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
        .report = {.emit = report_send_test, .data = c},
        .format = (enum wire_report_format)wire_find_u64(&c->request, WIRE_K_FORMAT, 0),
        .newer_ns = (int64_t)wire_find_u64(&c->request, WIRE_K_NEWER_NS, 0)};
    const uint64_t *counts = s.report.counts;
    setrlimit(RLIMIT_DATA, &(struct rlimit){MEMORY_MAX, MEMORY_MAX});
    if (s.format && !report_format_of(s.format))
        return error_set(err, EINVAL, "unknown report format %d", (int)s.format);
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
