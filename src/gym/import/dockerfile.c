#include <errno.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dockerfile.h"
#include "relpath.h"
#include "task_build.h"
#include "banned.h"

#define LINE_MAX_BYTES  16384
#define WORDS_MAX       256
#define COPIES_MAX      1000
#define WORKDIR_DEFAULT "/app" /* that of the usual base images */

/* The instructions of a Dockerfile, one after another. */
struct docker_lines {
    const char *at, *end;
    unsigned line, next;       /* where the instruction began; the line after it */
    char text[LINE_MAX_BYTES]; /* the instruction, its lines joined */
    bool cut;                  /* it is longer than that */
};

/* A COPY; its target is absolute. */
struct docker_copy {
    unsigned line;
    char *source;
    char *target;
    bool into; /* the target is a folder */
};

struct docker_reader {
    struct dockerfile *d;
    const struct task_tree *context;
    struct docker_lines in;
    char workdir[4096];
    unsigned stages;
    struct docker_copy copies[COPIES_MAX];
    size_t n_copies;
    int code;
};

/* The kinds of RUN, from those that do nothing here to those that are impossible. */
enum docker_run {
    DOCKER_RUN_INSTALLS, /* skipped: the host must have the packages */
    DOCKER_RUN_MAY,      /* runs when the task's box is set up, and may fail */
    DOCKER_RUN_MUST,     /* runs likewise, and may not fail */
    DOCKER_RUN_ROOT,
    DOCKER_RUN_NETWORK,
};

void dockerfile_free(struct dockerfile *d)
{
    task_tree_free(&d->files);
    task_list_free(&d->tops);
    task_list_free(&d->env);
    buf_free(&d->setup);
    task_list_free(&d->notes);
    task_list_free(&d->troubles);
}

/* Reads the next instruction, with the lines that continue it but not the comments between them.
 * False at the end. */
static bool lines_next(struct docker_lines *l)
{
    size_t used = 0;
    l->cut = false;
    while (l->at < l->end) {
        const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
        size_t n = (size_t)((newline ? newline : l->end) - l->at);
        size_t room = sizeof l->text - 1 - used;
        if (n > 0 && l->at[n - 1] == '\r')
            n--;
        l->cut |= n > room;
        n = n < room ? n : room;
        memcpy(l->text + used, l->at, n);
        l->text[used + n] = 0;
        l->at = newline ? newline + 1 : l->end;
        l->next++;
        const char *word = l->text + used + strspn(l->text + used, " \t");
        if (*word == '#' || !*word) {
            l->text[used] = 0;
            continue;
        }
        if (used == 0)
            l->line = l->next - 1;
        used += n;
        while (used > 0 && (l->text[used - 1] == ' ' || l->text[used - 1] == '\t'))
            used--;
        l->text[used] = 0;
        if (used == 0 || l->text[used - 1] != '\\')
            return true;
        l->text[used - 1] = ' ';
    }
    return used > 0;
}

/* Skips the text that `<<WORD` announces. */
static void lines_skip_heredoc(struct docker_lines *l, const char *at)
{
    char word[128];
    at += 2;
    at += *at == '-';
    at += *at == '"' || *at == '\'';
    size_t n = strcspn(at, " \t\"'");
    snprintf(word, sizeof word, "%.*s", (int)(n < 127 ? n : 127), at);
    while (l->at < l->end) {
        const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
        size_t length = (size_t)((newline ? newline : l->end) - l->at);
        while (length > 0 && l->at[length - 1] == '\r')
            length--;
        const char *line = l->at;
        l->at = newline ? newline + 1 : l->end;
        l->next++;
        while (length > 0 && *line == '\t')
            line++, length--;
        if (length == strlen(word) && strncmp(line, word, length) == 0)
            return;
    }
}

/* The beginning of `<<WORD`, or NULL. */
static const char *find_heredoc(const char *args)
{
    for (const char *at = args; (at = strstr(at, "<<")); at += 2) {
        const char *word = at + 2 + (at[2] == '-');
        if (*word == '"' || *word == '\'' || *word == '_' || (*word | 32) >= 'a')
            return at;
        at += *word == '<';
    }
    return NULL;
}

/* Splits words of the shell's or of JSON's form, in place; returns how many. */
static size_t docker_words(char *at, char *words[WORDS_MAX])
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

/* Makes an absolute path out of one that is relative to another, without ., .. and double slashes.
 * False: it is too long. */
static bool docker_resolve(const char *base, const char *path, char *ret, size_t size)
{
    char joined[2 * PATH_MAX];
    size_t n = 0;
    if ((size_t)snprintf(joined, sizeof joined, "%s/%s", *path == '/' ? "" : base, path) >=
        sizeof joined)
        return false;
    ret[0] = 0;
    for (char *at = joined, *part; (part = strsep(&at, "/"));) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            char *slash = strrchr(ret, '/');
            if (slash)
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

/* Adds a line about the current instruction to the notes or the troubles. */
static void reader_report(struct docker_reader *r, struct task_list *l, const char *why)
{
    char text[512], shown[120];
    size_t n = 0;
    for (const char *from = r->in.text; *from && n + 1 < sizeof shown; from++) {
        bool blank = *from == ' ' || *from == '\t';
        if (!blank || (n > 0 && shown[n - 1] != ' '))
            shown[n++] = blank ? ' ' : *from;
    }
    shown[n] = 0;
    snprintf(text, sizeof text, "line %u: %s: %s", r->in.line, shown, why);
    if (l->count < 100 && task_list_add(l, text) < 0)
        r->code = -ENOMEM;
}

static const char *skip_options(const char *args)
{
    while (strncmp(args, "--", 2) == 0) {
        args += strcspn(args, " \t");
        args += strspn(args, " \t");
    }
    return args;
}

static void from_read(struct docker_reader *r, const char *args)
{
    if (++r->stages > 1)
        reader_report(r, &r->d->troubles, "several stages are not supported");
    snprintf(r->workdir, sizeof r->workdir, WORKDIR_DEFAULT);
}

static void workdir_read(struct docker_reader *r, const char *args)
{
    char *words[WORDS_MAX], copy[LINE_MAX_BYTES], path[sizeof r->workdir];
    snprintf(copy, sizeof copy, "%s", args);
    if (strchr(args, '$') || docker_words(copy, words) != 1 ||
        !docker_resolve(r->workdir, words[0], path, sizeof path))
        reader_report(r, &r->d->troubles, "cannot determine the folder");
    else
        memcpy(r->workdir, path, sizeof path);
}

/* Copies one value without its quotes, up to a blank; returns where the next word begins. */
static const char *env_value(const char *at, char *ret, size_t size)
{
    size_t n = 0;
    char quote = 0;
    for (; *at && (quote || (*at != ' ' && *at != '\t')); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'') {
            quote = quote ? 0 : *at;
            continue;
        }
        if (*at == '\\' && at[1] && quote != '\'')
            at++;
        if (n + 1 < size)
            ret[n++] = *at;
    }
    ret[n] = 0;
    return at + strspn(at, " \t");
}

/* `KEY=VALUE KEY=VALUE …`, or the old form `KEY VALUE`, in which the value is the rest of the
 * line. */
static void env_read(struct docker_reader *r, const char *args)
{
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char key[256], value[4096], entry[sizeof key + sizeof value];
    struct task_list *env = &r->d->env;
    bool all = true;
    while (*args && r->code == 0) {
        size_t n = strcspn(args, "= \t");
        bool old = args[n] != '=';
        if (n >= sizeof key || !args[n])
            break;
        memcpy(key, args, n);
        key[n] = 0;
        const char *raw = args + n + 1, *next;
        if (old) {
            raw += strspn(raw, " \t");
            snprintf(value, sizeof value, "%s", raw);
            next = raw + strlen(raw);
        } else {
            next = env_value(raw, value, sizeof value);
        }
        snprintf(entry, sizeof entry, "%s=%s", key, value);
        /* PATH is the box's own: a Dockerfile's addition to it does not exist there */
        bool plain = *key && !key[strspn(key, NAME)] && !memchr(raw, '$', (size_t)(next - raw)) &&
                     strcmp(key, "PATH") != 0 && strcmp(key, "HOME") != 0;
        if (!plain || env->count >= DOCKER_ENV_MAX)
            all = false;
        else if (task_list_add(env, entry) < 0)
            r->code = -ENOMEM;
        args = next;
    }
    if (r->code == 0 && (!all || *args))
        reader_report(r, &r->d->notes, "is not set in boxes");
}

static void copy_read(struct docker_reader *r, const char *args)
{
    char *words[WORDS_MAX], target[4096], copy[LINE_MAX_BYTES];
    const char *here = strstr(args, "<<"), *why = NULL;
    if (strstr(args, "--from=") && strstr(args, "astral-sh/uv")) {
        reader_report(r, &r->d->notes, "is skipped: hutch has a replacement for uv");
        return;
    }
    if (here) {
        lines_skip_heredoc(&r->in, here);
        why = "files written in a Dockerfile are not supported";
    } else if (strstr(args, "--from")) {
        why = "files of another image or stage are not available";
    } else if (strchr(args, '$')) {
        why = "variables are not expanded";
    }
    snprintf(copy, sizeof copy, "%s", skip_options(args));
    size_t n = why ? 0 : docker_words(copy, words);
    if (!why && (n < 2 || !docker_resolve(r->workdir, words[n - 1], target, sizeof target)))
        why = "cannot determine sources and target";
    if (why) {
        reader_report(r, &r->d->troubles, why);
        return;
    }
    size_t len = strlen(words[n - 1]);
    bool into = n > 2 || (len && words[n - 1][len - 1] == '/') || strcmp(words[n - 1], ".") == 0;
    for (size_t i = 0; i + 1 < n && r->code == 0; i++) {
        if (strstr(words[i], "://")) {
            reader_report(r, &r->d->troubles, "a download from the network is not supported");
        } else if (r->n_copies == COPIES_MAX) {
            r->code = -E2BIG;
        } else {
            struct docker_copy *c = &r->copies[r->n_copies++];
            *c = (struct docker_copy){r->in.line, strdup(words[i]), strdup(target), into};
            if (!c->source || !c->target)
                r->code = -ENOMEM;
        }
    }
}

/* Kinds of commands by their beginning; the first match counts. */
static const struct {
    const char *text;
    enum docker_run kind;
} RUN_HEADS[] = {
    {"apt-get ", DOCKER_RUN_INSTALLS},
    {"apt ", DOCKER_RUN_INSTALLS},
    {"apk ", DOCKER_RUN_INSTALLS},
    {"dnf ", DOCKER_RUN_INSTALLS},
    {"yum ", DOCKER_RUN_INSTALLS},
    {"pip ", DOCKER_RUN_INSTALLS},
    {"pip3 ", DOCKER_RUN_INSTALLS},
    {"python3 -m pip ", DOCKER_RUN_INSTALLS},
    {"python -m pip ", DOCKER_RUN_INSTALLS},
    {"uv pip ", DOCKER_RUN_INSTALLS},
    {"DEBIAN_FRONTEND=noninteractive apt", DOCKER_RUN_INSTALLS},
    {"locale-gen", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/lib/apt", DOCKER_RUN_INSTALLS},
    {"rm -rf /var/cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /root/.cache", DOCKER_RUN_INSTALLS},
    {"rm -rf /tmp", DOCKER_RUN_INSTALLS},
    {"true", DOCKER_RUN_INSTALLS},
    {"export ", DOCKER_RUN_INSTALLS},
    {"set -", DOCKER_RUN_INSTALLS},
    {"mkdir ", DOCKER_RUN_MAY},
    {"chmod ", DOCKER_RUN_MAY},
    {"chown ", DOCKER_RUN_MAY},
    {"git config ", DOCKER_RUN_MAY},
    {"git clone ", DOCKER_RUN_NETWORK},
    {"curl ", DOCKER_RUN_NETWORK},
    {"wget ", DOCKER_RUN_NETWORK},
    {"npm ", DOCKER_RUN_NETWORK},
    {"npx ", DOCKER_RUN_NETWORK},
    {"yarn ", DOCKER_RUN_NETWORK},
    {"pnpm ", DOCKER_RUN_NETWORK},
    {"gem ", DOCKER_RUN_NETWORK},
    {"conda ", DOCKER_RUN_NETWORK},
    {"uv ", DOCKER_RUN_NETWORK},
    {"poetry ", DOCKER_RUN_NETWORK},
    {"rustup ", DOCKER_RUN_NETWORK},
    {"huggingface-cli ", DOCKER_RUN_NETWORK},
    {"add-apt-repository ", DOCKER_RUN_NETWORK},
    {"useradd ", DOCKER_RUN_ROOT},
    {"adduser ", DOCKER_RUN_ROOT},
    {"groupadd ", DOCKER_RUN_ROOT},
    {"usermod ", DOCKER_RUN_ROOT},
    {"chpasswd", DOCKER_RUN_ROOT},
    {"service ", DOCKER_RUN_ROOT},
    {"systemctl ", DOCKER_RUN_ROOT},
    {"update-alternatives ", DOCKER_RUN_ROOT},
    {"sudo ", DOCKER_RUN_ROOT},
};

/* The length of one command: up to &&, ||, ; or the end of a line that are not in quotes. */
static size_t command_length(const char *at)
{
    char quote = 0;
    size_t n = 0;
    for (; at[n]; n++) {
        if (at[n] == '\\' && at[n + 1] && quote != '\'')
            n++;
        else if (quote)
            quote = at[n] == quote ? 0 : quote;
        else if (at[n] == '"' || at[n] == '\'')
            quote = at[n];
        else if (strchr("&;|\n", at[n]))
            break;
    }
    return n;
}

/* The worst kind of the commands of a RUN. */
static enum docker_run run_kind(const char *command)
{
    enum docker_run worst = DOCKER_RUN_INSTALLS;
    while (*command) {
        size_t n = command_length(command);
        const char *at = command, *end = command + n;
        enum docker_run kind = DOCKER_RUN_MUST;
        while (at < end && strchr(" \t({", *at))
            at++;
        if (at == end || *at == '#')
            kind = DOCKER_RUN_INSTALLS;
        for (size_t i = 0; at < end && i < ARRAY_SIZE(RUN_HEADS); i++) {
            size_t head = strlen(RUN_HEADS[i].text);
            if ((size_t)(end - at) >= head && strncmp(at, RUN_HEADS[i].text, head) == 0) {
                kind = RUN_HEADS[i].kind;
                break;
            }
        }
        worst = kind > worst ? kind : worst;
        command += n;
        command += strspn(command, "&;|\n");
    }
    return worst;
}

static void buf_append_quoted(struct buf *b, const char *text)
{
    buf_append_str(b, "'");
    for (; *text; text++)
        if (*text == '\'')
            buf_append_str(b, "'\\''");
        else
            buf_append(b, text, 1);
    buf_append_str(b, "'");
}

/* A command with a here-document gets its text; if the here-document is the command, the text is
 * the command. */
static void run_read(struct docker_reader *r, const char *args)
{
    char text[LINE_MAX_BYTES];
    args = skip_options(args);
    const char *here = find_heredoc(args), *begin = r->in.at, *command = args, *why = NULL;
    if (here) {
        lines_skip_heredoc(&r->in, here);
        size_t n = (size_t)(r->in.at - begin);
        const char *end = n > 1 ? memrchr(begin, '\n', n - 1) : NULL;
        if (here == args)
            snprintf(text, sizeof text, "%.*s", end ? (int)(end - begin) : 0, begin);
        else
            snprintf(text, sizeof text, "%s\n%.*s", args, (int)n, begin);
        r->in.cut |= strlen(args) + n + 1 >= sizeof text;
        command = text;
    }
    /* a here-document that is only input says nothing about the kind */
    enum docker_run kind = run_kind(strncmp(args, "<<", 2) == 0 ? command : args);
    if (r->in.cut)
        why = "is too long";
    else if (*args == '[')
        why = "has an unsupported form";
    else if (kind == DOCKER_RUN_NETWORK)
        why = "needs the network";
    else if (kind == DOCKER_RUN_ROOT)
        why = "needs a root user";
    if (why) {
        reader_report(r, &r->d->troubles, why);
    } else if (kind == DOCKER_RUN_INSTALLS) {
        reader_report(r, &r->d->notes, "is skipped: the packages must be installed already");
    } else {
        struct buf *setup = &r->d->setup;
        buf_printf(setup, "run %u ", r->in.line);
        buf_append_quoted(setup, r->workdir);
        buf_append_str(setup, kind == DOCKER_RUN_MUST ? " must " : " may ");
        buf_append_quoted(setup, command);
        buf_append_str(setup, "\n");
    }
}

static const struct {
    const char *name;
    void (*read)(struct docker_reader *r, const char *args); /* NULL: it has no effect here */
} INSTRUCTIONS[] = {
    {"FROM", from_read},   {"WORKDIR", workdir_read}, {"COPY", copy_read},  {"ADD", copy_read},
    {"RUN", run_read},     {"ENV", env_read},         {"ARG", NULL},        {"CMD", NULL},
    {"EXPOSE", NULL},      {"LABEL", NULL},           {"ENTRYPOINT", NULL}, {"USER", NULL},
    {"SHELL", NULL},       {"VOLUME", NULL},          {"STOPSIGNAL", NULL}, {"MAINTAINER", NULL},
    {"HEALTHCHECK", NULL},
};

static void instruction_read(struct docker_reader *r)
{
    const char *word = r->in.text + strspn(r->in.text, " \t");
    size_t n = strcspn(word, " \t");
    const char *args = word + n + strspn(word + n, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(INSTRUCTIONS); i++)
        if (strlen(INSTRUCTIONS[i].name) == n && strncasecmp(INSTRUCTIONS[i].name, word, n) == 0) {
            if (INSTRUCTIONS[i].read)
                INSTRUCTIONS[i].read(r, args);
            return;
        }
    reader_report(r, &r->d->troubles, "unknown instruction");
}

/* The part of a file's path that is appended to the target when `source` is copied. NULL: the file
 * is not part of the source. */
static const char *copy_part(const char *source, const char *path, bool *ret_file)
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
    /* Each beginning of the path that ends with a component is tried: it is the file, or a folder
     * above it. */
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

void docker_top(const char *path, char *ret, size_t size)
{
    path += *path == '/';
    snprintf(ret, size, "%.*s", (int)strcspn(path, "/"), path);
}

bool docker_top_is_free(const char *name)
{
    /* folders that boxes have themselves, and links to the parts of a task */
    static const char *const TAKEN[] = {"",    "bin",   "boot",     "dev",    "etc",      "home",
                                        "lib", "lib32", "lib64",    "libx32", "logs",     "proc",
                                        "run", "sbin",  "sys",      "tmp",    "solution", "tests",
                                        "usr", "var",   "workspace"};
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++)
        if (strcmp(name, TAKEN[i]) == 0)
            return false;
    return name[0] != '.';
}

/* The path in the workspace of an absolute path. 0: it has none. */
static int copy_target(struct dockerfile *d, const char *path, char *ret, size_t size)
{
    char top[256], own[256];
    docker_top(path, top, sizeof top);
    docker_top(d->workdir, own, sizeof own);
    path += *path == '/';
    const char *rest = path + strcspn(path, "/");
    if (*own && strcmp(top, own) == 0) {
        snprintf(ret, size, "%s", rest + (*rest == '/'));
        return 1;
    }
    if (!docker_top_is_free(top) ||
        (!task_list_has(&d->tops, top) && d->tops.count >= DOCKER_TOPS_MAX))
        return 0;
    if (!task_list_has(&d->tops, top) && task_list_add(&d->tops, top) < 0)
        return -ENOMEM;
    snprintf(ret, size, DOCKER_TOPS "/%s%s", top, rest);
    return 1;
}

/* Copies a file; a later COPY over an earlier one replaces it. */
static int copy_file(struct dockerfile *d, const struct task_file *f, const char *path)
{
    size_t at;
    d->bytes += f->size;
    if (d->bytes > TASK_BYTES_MAX)
        return -EFBIG;
    if (!task_tree_find(&d->files, path, &at))
        return task_tree_add(&d->files, path, f->mode, f->bytes, f->size);
    struct task_file *old = &d->files.items[at];
    char *bytes = malloc(f->size + 1);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, f->bytes, f->size + 1);
    free(old->bytes);
    old->mode = f->mode;
    old->bytes = bytes;
    old->size = f->size;
    return 0;
}

static int copy_execute(struct docker_reader *r, const struct docker_copy *c)
{
    char path[3 * PATH_MAX], target[2 * PATH_MAX];
    size_t count = 0;
    int found = copy_target(r->d, c->target, target, sizeof target), code = found < 0 ? found : 0;
    for (size_t i = 0; found && i < r->context->count && code == 0; i++) {
        const struct task_file *f = &r->context->items[i];
        bool file;
        const char *part = copy_part(c->source, f->path, &file);
        if (!part)
            continue;
        count++;
        if (file && !c->into && *target)
            snprintf(path, sizeof path, "%s", target);
        else
            snprintf(path, sizeof path, "%s%s%s", target, *target ? "/" : "", part);
        code = copy_file(r->d, f, path);
    }
    if (code < 0 || (found && count > 0))
        return code;
    r->in.line = c->line;
    snprintf(r->in.text, sizeof r->in.text, "COPY %.2000s %.2000s", c->source, c->target);
    reader_report(r, &r->d->troubles,
                  found ? "there is no such file" : "is a path that a box uses for something else");
    return r->code;
}

int dockerfile_read(const char *text, size_t n, const struct task_tree *context,
                    const char *workdir, struct dockerfile *ret, struct error *err)
{
    struct docker_reader *r = calloc(1, sizeof *r);
    if (!r)
        return task_no_memory(err);
    *r = (struct docker_reader){.d = ret,
                                .context = context,
                                .in = {.at = text, .end = text + n, .next = 1},
                                .workdir = WORKDIR_DEFAULT};
    *ret = (struct dockerfile){.setup = BUF_INIT(DOCKER_SETUP_MAX)};
    while (r->code == 0 && lines_next(&r->in))
        instruction_read(r);
    if (workdir[0] == '/' && !docker_resolve("", workdir, r->workdir, sizeof r->workdir))
        r->code = -ENAMETOOLONG;
    memcpy(ret->workdir, r->workdir, sizeof r->workdir);
    for (size_t i = 0; i < r->n_copies; i++) {
        if (r->code == 0)
            r->code = copy_execute(r, &r->copies[i]);
        free(r->copies[i].source);
        free(r->copies[i].target);
    }
    int code = r->code;
    free(r);
    if (code == 0 && ret->setup.failed)
        code = error_set(err, EFBIG, "its Dockerfile has too many RUN lines");
    else if (code == -ENOMEM)
        code = task_no_memory(err);
    else if (code < 0)
        code = error_errno(err, -code, "it copies too much");
    if (code < 0)
        dockerfile_free(ret);
    return code;
}
