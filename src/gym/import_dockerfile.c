#include <errno.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>
#include <strings.h>

#include "import_dockerfile.h"
#include "import_private.h"
#include "relpath.h"
#include "banned.h"

#define WORDS_MAX  256
#define COPIES_MAX 1000
#define LINE_SIZE  16384

/* COPY, until the last WORKDIR is known. */
struct copy {
    unsigned line;
    char *source;
    char *target; /* absolute */
    bool into;    /* the target is a folder */
};

struct reader {
    struct dockerfile *d;
    const struct task_tree *context;
    const char *at, *end;
    unsigned line, next;  /* where the instruction began; the line after it */
    char text[LINE_SIZE]; /* the instruction, its lines joined */
    char workdir[4096];
    unsigned stages;
    struct copy copies[COPIES_MAX];
    size_t n_copies;
    uint64_t bytes; /* copied so far */
    int code;
};

void dockerfile_free(struct dockerfile *d)
{
    task_tree_free(&d->files);
    task_list_free(&d->notes);
    task_list_free(&d->troubles);
}

static void tell(struct reader *r, struct task_list *l, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "line %u: %.160s: %s", r->line, r->text, why);
    if (l->count < 100 && task_list_add(l, text) < 0)
        r->code = -ENOMEM;
}

static void trouble(struct reader *r, const char *why)
{
    tell(r, &r->d->troubles, why);
}

/* The next line of the file into text + used, without its end. False at the end of the file. */
static bool take_line(struct reader *r, size_t used, size_t *ret_n)
{
    if (r->at >= r->end)
        return false;
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *end = newline ? newline : r->end;
    size_t n = (size_t)(end - r->at), room = sizeof r->text - 1 - used;
    if (n > 0 && r->at[n - 1] == '\r')
        n--;
    n = n < room ? n : room;
    memcpy(r->text + used, r->at, n);
    r->text[used + n] = 0;
    r->at = newline ? newline + 1 : r->end;
    r->next++;
    *ret_n = n;
    return true;
}

static bool is_comment(const char *line)
{
    line += strspn(line, " \t");
    return *line == '#' || !*line;
}

/* An instruction with the lines that continue it; comments in between are left out. */
static bool take_instruction(struct reader *r)
{
    size_t used = 0, n;
    for (;;) {
        if (!take_line(r, used, &n))
            return used > 0;
        if (is_comment(r->text + used)) {
            r->text[used] = 0;
            continue;
        }
        if (used == 0)
            r->line = r->next - 1;
        used += n;
        while (used > 0 && (r->text[used - 1] == ' ' || r->text[used - 1] == '\t'))
            used--;
        r->text[used] = 0;
        if (used == 0 || r->text[used - 1] != '\\')
            return true;
        r->text[used - 1] = ' ';
    }
}

/* Passes over the text of `<<WORD`. */
static void skip_heredoc(struct reader *r, const char *at)
{
    char word[128];
    at += 2;
    at += *at == '-';
    at += *at == '"' || *at == '\'';
    size_t n = strcspn(at, " \t\"'");
    snprintf(word, sizeof word, "%.*s", (int)(n < 127 ? n : 127), at);
    while (r->at < r->end) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
        size_t length = (size_t)((newline ? newline : r->end) - r->at);
        while (length > 0 && r->at[length - 1] == '\r')
            length--;
        const char *line = r->at;
        r->at = newline ? newline + 1 : r->end;
        r->next++;
        while (length > 0 && *line == '\t')
            line++, length--;
        if (length == strlen(word) && strncmp(line, word, length) == 0)
            return;
    }
}

/* Words of the shell's or of JSON's form, in place. */
static size_t split_words(char *at, char *words[WORDS_MAX])
{
    size_t n = 0;
    bool list = *at == '[';
    at += list;
    while (*at && n < WORDS_MAX) {
        at += strspn(at, list ? " \t," : " \t");
        if (!*at || (list && *at == ']'))
            break;
        char quote = *at == '"' || *at == '\'' ? *at++ : 0;
        words[n++] = at;
        at += quote ? strcspn(at, (char[]){quote, 0}) : strcspn(at, list ? ",] \t" : " \t");
        if (*at)
            *at++ = 0;
    }
    return n;
}

/* An absolute path out of one that is relative to another, without . and .. and double slashes. */
static bool resolve(const char *base, const char *path, char *ret, size_t size)
{
    char joined[2 * PATH_MAX];
    size_t n = 0;
    if ((size_t)snprintf(joined, sizeof joined, "%s/%s", *path == '/' ? "" : base, path) >= sizeof joined)
        return false;
    ret[0] = 0;
    for (char *at = joined, *part; (part = strsep(&at, "/"));) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            char *slash = strrchr(ret, '/');
            if (!slash)
                return false;
            *slash = 0;
            n = strlen(ret);
            continue;
        }
        int len = snprintf(ret + n, size - n, "/%s", part);
        if (len < 0 || (size_t)len >= size - n)
            return false;
        n += (size_t)len;
    }
    return true;
}

static void do_workdir(struct reader *r, char *args)
{
    char *words[WORDS_MAX], path[sizeof r->workdir];
    if (strchr(args, '$') || split_words(args, words) != 1 ||
        !resolve(r->workdir, words[0], path, sizeof path))
        trouble(r, "the folder cannot be told");
    else
        memcpy(r->workdir, path, sizeof path);
}

static void add_copy(struct reader *r, const char *source, const char *target, bool into)
{
    struct copy c = {.line = r->line, .source = strdup(source), .target = strdup(target), .into = into};
    if (!c.source || !c.target || r->n_copies == COPIES_MAX) {
        free(c.source);
        free(c.target);
        r->code = r->n_copies == COPIES_MAX ? -E2BIG : -ENOMEM;
        return;
    }
    r->copies[r->n_copies++] = c;
}

static void do_copy(struct reader *r, char *args)
{
    char *words[WORDS_MAX], target[4096], shown[LINE_SIZE];
    char *here = strstr(args, "<<");
    snprintf(shown, sizeof shown, "%s", r->text);
    if (here) {
        skip_heredoc(r, here);
        trouble(r, "files written in a Dockerfile are not supported");
        return;
    }
    for (; strncmp(args, "--", 2) == 0; args += strcspn(args, " \t"), args += strspn(args, " \t"))
        if (strncmp(args, "--from", 6) == 0) {
            trouble(r, "files of another image or stage are not here");
            return;
        }
    if (strchr(args, '$')) {
        trouble(r, "variables are not filled in");
        return;
    }
    size_t n = split_words(args, words);
    memcpy(r->text, shown, sizeof shown); /* was split in place */
    if (n < 2 || !resolve(r->workdir, words[n - 1], target, sizeof target)) {
        trouble(r, "what goes where cannot be told");
        return;
    }
    size_t len = strlen(words[n - 1]);
    bool into = n > 2 || words[n - 1][len ? len - 1 : 0] == '/' || strcmp(words[n - 1], ".") == 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (strstr(words[i], "://"))
            trouble(r, "nothing is fetched from the network");
        else
            add_copy(r, words[i], target, into);
}

/* Does this part of a RUN line only install packages, or make a folder? */
static bool only_installs(const char *at, size_t n)
{
    static const char *const HARMLESS[] = {
        "apt-get ",
        "apt ",
        "apk ",
        "dnf ",
        "yum ",
        "pip ",
        "pip3 ",
        "python3 -m pip ",
        "python -m pip ",
        "uv pip ",
        "rm -rf /var/lib/apt",
        "rm -rf /root/.cache",
        "rm -rf /tmp",
        "mkdir -p ",
        "true",
        "export ",
        "set -",
        "DEBIAN_FRONTEND=noninteractive apt",
        "echo ",
    };
    while (n > 0 && (*at == ' ' || *at == '\t'))
        at++, n--;
    if (n == 0)
        return true;
    if (memchr(at, '>', n) || memchr(at, '|', n) || memchr(at, '`', n))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(HARMLESS); i++)
        if (n >= strlen(HARMLESS[i]) && strncmp(at, HARMLESS[i], strlen(HARMLESS[i])) == 0)
            return true;
    return false;
}

static void do_run(struct reader *r, char *args)
{
    char *here = strstr(args, "<<");
    bool harmless = !here && *args != '[' && *args != '-';
    if (here)
        skip_heredoc(r, here);
    for (const char *at = args; harmless && *at;) {
        size_t n = strcspn(at, "&;");
        harmless = only_installs(at, n);
        at += n;
        at += strspn(at, "&;");
    }
    if (harmless)
        tell(r, &r->d->notes, "is not carried out: the packages must be there already");
    else
        trouble(r, "cannot be carried out");
}

static void do_from(struct reader *r, char *args)
{
    if (++r->stages > 1)
        trouble(r, "several stages are not supported");
    r->workdir[0] = 0;
}

static void do_env(struct reader *r, char *args)
{
    tell(r, &r->d->notes, "is not set in boxes");
}

static void do_nothing(struct reader *r, char *args) {}

static const struct {
    const char *name;
    void (*run)(struct reader *r, char *args);
} INSTRUCTIONS[] = {
    {"FROM", do_from},
    {"WORKDIR", do_workdir},
    {"COPY", do_copy},
    {"ADD", do_copy},
    {"RUN", do_run},
    {"ENV", do_env},
    {"ARG", do_nothing},
    {"CMD", do_nothing},
    {"EXPOSE", do_nothing},
    {"LABEL", do_nothing},
    {"ENTRYPOINT", do_nothing},
    {"USER", do_nothing},
    {"SHELL", do_nothing},
    {"VOLUME", do_nothing},
    {"STOPSIGNAL", do_nothing},
    {"MAINTAINER", do_nothing},
    {"HEALTHCHECK", do_nothing},
};

static void carry_out(struct reader *r)
{
    char *word = r->text + strspn(r->text, " \t");
    size_t n = strcspn(word, " \t");
    char *args = word + n + strspn(word + n, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(INSTRUCTIONS); i++)
        if (strlen(INSTRUCTIONS[i].name) == n && strncasecmp(INSTRUCTIONS[i].name, word, n) == 0) {
            INSTRUCTIONS[i].run(r, args);
            return;
        }
    trouble(r, "there is no such instruction");
}

/* Where a file of the context goes when `source` is copied: the part of its path that is put behind the
 * target. NULL: it is not part of the source. */
static const char *part_of(const char *source, const char *path, bool *ret_file)
{
    size_t n = 0;
    source += strncmp(source, "./", 2) == 0 ? 2 : 0;
    size_t length = strlen(source);
    while (length > 0 && source[length - 1] == '/')
        length--;
    if (length == 0 || (length == 1 && *source == '.')) {
        *ret_file = false;
        return path;
    }
    /* Each beginning of the path that ends with a component is tried: it is the file, or a folder above it.
     */
    for (;;) {
        char head[PATH_MAX], pattern[PATH_MAX];
        n += strcspn(path + n, "/");
        snprintf(head, sizeof head, "%.*s", (int)n, path);
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, source);
        if (fnmatch(pattern, head, FNM_PATHNAME) == 0) {
            *ret_file = path[n] == 0;
            return path[n] ? path + n + 1 : relpath_name(path);
        }
        if (!path[n])
            return NULL;
        n++;
    }
}

/* The place in the workspace of an absolute path; NULL if it lies elsewhere. */
static const char *in_workspace(const char *workdir, const char *path)
{
    size_t n = strlen(workdir);
    if (strncmp(path, workdir, n) != 0 || (path[n] && path[n] != '/'))
        return NULL;
    return path[n] ? path + n + 1 : path + n;
}

static void copy_file(struct reader *r, const struct task_file *f, const char *place)
{
    size_t at;
    r->bytes += f->size;
    if (r->bytes > TASK_BYTES_MAX) {
        r->code = -EFBIG;
        return;
    }
    if (task_tree_find(&r->d->files, place, &at)) { /* a later COPY over an earlier one */
        struct task_file *old = &r->d->files.items[at];
        char *bytes = malloc(f->size + 1);
        if (!bytes) {
            r->code = -ENOMEM;
            return;
        }
        memcpy(bytes, f->bytes, f->size + 1);
        free(old->bytes);
        *old = (struct task_file){old->path, f->mode, bytes, f->size};
        return;
    }
    int code = task_tree_add(&r->d->files, place, f->mode, f->bytes, f->size);
    if (code < 0 && r->code == 0)
        r->code = code;
}

static void do_one_copy(struct reader *r, const struct copy *c)
{
    char place[2 * PATH_MAX];
    const char *target = in_workspace(r->d->workdir, c->target);
    size_t count = 0;
    r->line = c->line;
    snprintf(r->text, sizeof r->text, "COPY %.2000s %.2000s", c->source, c->target);
    if (!target) {
        trouble(r, "lies outside of the working folder");
        return;
    }
    for (size_t i = 0; i < r->context->count && r->code == 0; i++) {
        const struct task_file *f = &r->context->items[i];
        bool file;
        const char *part = part_of(c->source, f->path, &file);
        if (!part)
            continue;
        count++;
        if (file && !c->into && *target)
            snprintf(place, sizeof place, "%s", target);
        else
            snprintf(place, sizeof place, "%s%s%s", target, *target ? "/" : "", part);
        copy_file(r, f, place);
    }
    if (count == 0)
        trouble(r, "there is no such file");
}

static int finish(struct reader *r, struct error *err)
{
    snprintf(r->d->workdir, sizeof r->d->workdir, "%s", r->workdir[0] ? r->workdir : "/app");
    for (size_t i = 0; i < r->n_copies && r->code == 0; i++)
        do_one_copy(r, &r->copies[i]);
    for (size_t i = 0; i < r->n_copies; i++) {
        free(r->copies[i].source);
        free(r->copies[i].target);
    }
    if (r->code == -ENOMEM)
        return task_no_memory(err);
    return r->code < 0 ? error_errno(err, -r->code, "it copies too much") : 0;
}

int dockerfile_read(const char *text, size_t n, const struct task_tree *context, struct dockerfile *ret,
                    struct error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r)
        return task_no_memory(err);
    *r = (struct reader){.d = ret, .context = context, .at = text, .end = text + n, .next = 1};
    *ret = (struct dockerfile){0};
    while (r->code == 0 && take_instruction(r))
        carry_out(r);
    int code = finish(r, err);
    free(r);
    if (code < 0)
        dockerfile_free(ret);
    return code;
}
