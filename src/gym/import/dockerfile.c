#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dockerfile.h"
#include "importer.h"
#include "banned.h"

/* The next line of the file into text + used, without its end. False at the end of the file. */
static bool take_line(struct docker_lines *l, size_t used, size_t *ret_n)
{
    if (l->at >= l->end)
        return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    const char *end = newline ? newline : l->end;
    size_t n = (size_t)(end - l->at), room = sizeof l->text - 1 - used;
    if (n > 0 && l->at[n - 1] == '\r')
        n--;
    l->cut |= n > room;
    n = n < room ? n : room;
    memcpy(l->text + used, l->at, n);
    l->text[used + n] = 0;
    l->at = newline ? newline + 1 : l->end;
    l->next++;
    *ret_n = n;
    return true;
}

static bool is_comment(const char *line)
{
    line += strspn(line, " \t");
    return *line == '#' || !*line;
}

bool docker_instruction(struct docker_lines *l)
{
    size_t used = 0, n;
    l->cut = false;
    for (;;) {
        if (!take_line(l, used, &n))
            return used > 0;
        if (is_comment(l->text + used)) {
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
}

/* Passes over the text of `<<WORD`. */
void docker_skip_heredoc(struct docker_lines *l, const char *at)
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
const char *docker_find_heredoc(const char *args)
{
    for (const char *at = args; (at = strstr(at, "<<")); at += 2) {
        const char *word = at + 2 + (at[2] == '-');
        if (*word == '"' || *word == '\'' || *word == '_' || (*word | 32) >= 'a')
            return at;
        at += *word == '<';
    }
    return NULL;
}

/* ENV: the variables that a box of the task has. */

/* One value, with its quotes taken off, up to a blank; where the next word begins. */
static const char *take_value(const char *at, char *ret, size_t size)
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

/* PATH is the box's own: what a Dockerfile puts in front of it is not there. */
static bool is_plain(const char *key, const char *raw, size_t n)
{
    bool name =
        *key &&
        key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == 0;
    return name && !memchr(raw, '$', n) && strcmp(key, "PATH") != 0 && strcmp(key, "HOME") != 0;
}

/* `KEY=VALUE KEY=VALUE …`, or the old form `KEY VALUE`, in which the value is the rest of the
 * line. */
int docker_env(struct dockerfile *d, const char *args, bool *ret_all)
{
    char key[256], value[4096], entry[sizeof key + sizeof value];
    *ret_all = true;
    while (*args) {
        size_t n = strcspn(args, "= \t");
        bool old = args[n] != '=';
        if (n >= sizeof key || !args[n])
            return *ret_all = false, 0;
        memcpy(key, args, n);
        key[n] = 0;
        const char *raw = args + n + 1, *next;
        if (old) {
            raw += strspn(raw, " \t");
            snprintf(value, sizeof value, "%s", raw);
            next = raw + strlen(raw);
        } else {
            next = take_value(raw, value, sizeof value);
        }
        snprintf(entry, sizeof entry, "%s=%s", key, value);
        if (!is_plain(key, raw, (size_t)(next - raw)) || d->env.count >= DOCKER_ENV_MAX)
            *ret_all = false;
        else if (task_list_add(&d->env, entry) < 0)
            return -ENOMEM;
        args = next;
    }
    return 0;
}

#define COPIES_MAX 1000
#define SHOWN_SIZE 120
#define WORKDIR    "/app" /* where nothing else is said: that of the usual base images */

struct reader {
    struct dockerfile *d;
    const struct task_tree *context;
    struct docker_lines in;
    char workdir[4096];
    unsigned stages;
    struct docker_copy copies[COPIES_MAX];
    size_t n_copies;
    int code;
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

/* The beginning of an instruction for a message, blanks made one. */
static void shorten(const char *from, char *ret, size_t size)
{
    size_t n = 0;
    for (; *from && n + 1 < size; from++) {
        bool blank = *from == ' ' || *from == '\t';
        if (!blank || (n > 0 && ret[n - 1] != ' '))
            ret[n++] = blank ? ' ' : *from;
    }
    ret[n] = 0;
}

static void tell(struct reader *r, struct task_list *l, const char *why)
{
    char text[512], shown[SHOWN_SIZE];
    shorten(r->in.text, shown, sizeof shown);
    snprintf(text, sizeof text, "line %u: %s: %s", r->in.line, shown, why);
    if (l->count < 100 && task_list_add(l, text) < 0)
        r->code = -ENOMEM;
}

static void trouble(struct reader *r, const char *why)
{
    tell(r, &r->d->troubles, why);
}

static void do_workdir(struct reader *r, const char *args)
{
    char *words[DOCKER_WORDS_MAX], copy[DOCKER_LINE_MAX], path[sizeof r->workdir];
    snprintf(copy, sizeof copy, "%s", args);
    if (strchr(args, '$') || docker_words(copy, words) != 1 ||
        !docker_resolve(r->workdir, words[0], path, sizeof path))
        trouble(r, "cannot determine the folder");
    else
        memcpy(r->workdir, path, sizeof path);
}

static void add_copy(struct reader *r, const char *source, const char *target, bool into)
{
    struct docker_copy c = {
        .line = r->in.line, .source = strdup(source), .target = strdup(target), .into = into};
    if (!c.source || !c.target || r->n_copies == COPIES_MAX) {
        free(c.source);
        free(c.target);
        r->code = r->n_copies == COPIES_MAX ? -E2BIG : -ENOMEM;
        return;
    }
    r->copies[r->n_copies++] = c;
}

/* What of COPY is none of ours, or NULL. */
static const char *copy_trouble(struct reader *r, const char *args)
{
    const char *here = strstr(args, "<<");
    if (here) {
        docker_skip_heredoc(&r->in, here);
        return "files written in a Dockerfile are not supported";
    }
    if (strstr(args, "--from"))
        return "files of another image or stage are not available";
    return strchr(args, '$') ? "variables are not expanded" : NULL;
}

static const char *skip_options(const char *args)
{
    while (strncmp(args, "--", 2) == 0) {
        args += strcspn(args, " \t");
        args += strspn(args, " \t");
    }
    return args;
}

static void do_copy(struct reader *r, const char *args)
{
    char *words[DOCKER_WORDS_MAX], target[4096], copy[DOCKER_LINE_MAX];
    if (strstr(args, "--from=") && strstr(args, "astral-sh/uv")) {
        tell(r, &r->d->notes, "is skipped: hutch has a replacement for uv");
        return;
    }
    const char *why = copy_trouble(r, args);
    args = skip_options(args);
    snprintf(copy, sizeof copy, "%s", args);
    size_t n = why ? 0 : docker_words(copy, words);
    if (!why && (n < 2 || !docker_resolve(r->workdir, words[n - 1], target, sizeof target)))
        why = "cannot determine sources and target";
    if (why) {
        trouble(r, why);
        return;
    }
    size_t len = strlen(words[n - 1]);
    bool into = n > 2 || (len && words[n - 1][len - 1] == '/') || strcmp(words[n - 1], ".") == 0;
    for (size_t i = 0; i + 1 < n; i++)
        if (strstr(words[i], "://"))
            trouble(r, "a download from the network is not supported");
        else
            add_copy(r, words[i], target, into);
}

static const char *run_trouble(enum docker_run kind)
{
    return kind == DOCKER_RUN_NETWORK ? "needs the network"
           : kind == DOCKER_RUN_ROOT  ? "needs a root user"
                                      : NULL;
}

/* The command of a RUN, with the text that follows it; or that text alone, if it is the command. */
static const char *run_command(struct reader *r, const char *args, char text[DOCKER_LINE_MAX])
{
    const char *here = docker_find_heredoc(args), *begin = r->in.at;
    if (!here)
        return args;
    docker_skip_heredoc(&r->in, here);
    size_t n = (size_t)(r->in.at - begin);
    const char *end = n > 1 ? memrchr(begin, '\n', n - 1) : NULL;
    if (here == args)
        snprintf(text, DOCKER_LINE_MAX, "%.*s", end ? (int)(end - begin) : 0, begin);
    else
        snprintf(text, DOCKER_LINE_MAX, "%s\n%.*s", args, (int)n, begin);
    r->in.cut |= strlen(args) + n + 1 >= DOCKER_LINE_MAX;
    return text;
}

static void do_run(struct reader *r, const char *args)
{
    char text[DOCKER_LINE_MAX];
    args = skip_options(args);
    const char *command = run_command(r, args, text);
    /* What a text that is no command says is not looked at. */
    enum docker_run kind = docker_run_kind(strncmp(args, "<<", 2) == 0 ? command : args);
    const char *why = *args == '[' ? "has an unsupported form" : run_trouble(kind);
    if (r->in.cut)
        why = "is too long";
    if (why)
        trouble(r, why);
    else if (kind == DOCKER_RUN_INSTALLS)
        tell(r, &r->d->notes, "is skipped: the packages must be installed already");
    else
        docker_run_add(r->d, r->in.line, r->workdir, command, kind == DOCKER_RUN_MUST);
}

static void do_from(struct reader *r, const char *args)
{
    if (++r->stages > 1)
        trouble(r, "several stages are not supported");
    snprintf(r->workdir, sizeof r->workdir, WORKDIR);
}

static void do_env(struct reader *r, const char *args)
{
    bool all;
    r->code = docker_env(r->d, args, &all);
    if (r->code == 0 && !all)
        tell(r, &r->d->notes, "is not set in boxes");
}

static void do_nothing(struct reader *r, const char *args) {}

static const struct {
    const char *name;
    void (*run)(struct reader *r, const char *args);
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
    const char *word = r->in.text + strspn(r->in.text, " \t");
    size_t n = strcspn(word, " \t");
    const char *args = word + n + strspn(word + n, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(INSTRUCTIONS); i++)
        if (strlen(INSTRUCTIONS[i].name) == n && strncasecmp(INSTRUCTIONS[i].name, word, n) == 0) {
            INSTRUCTIONS[i].run(r, args);
            return;
        }
    trouble(r, "unknown instruction");
}

static void carry_out_copy(struct reader *r, const struct docker_copy *c)
{
    const char *why = NULL;
    int code = docker_copy(r->d, r->context, c, &why);
    r->in.line = c->line;
    snprintf(r->in.text, sizeof r->in.text, "COPY %.2000s %.2000s", c->source, c->target);
    if (code < 0)
        r->code = code;
    else if (why)
        trouble(r, why);
}

static int finish(struct reader *r, struct error *err)
{
    memcpy(r->d->workdir, r->workdir, sizeof r->workdir);
    for (size_t i = 0; i < r->n_copies && r->code == 0; i++)
        carry_out_copy(r, &r->copies[i]);
    for (size_t i = 0; i < r->n_copies; i++) {
        free(r->copies[i].source);
        free(r->copies[i].target);
    }
    if (r->code == -ENOMEM)
        return task_no_memory(err);
    if (r->code == 0 && r->d->setup.failed)
        return error_set(err, EFBIG, "its Dockerfile has too many RUN lines");
    return r->code < 0 ? error_errno(err, -r->code, "it copies too much") : 0;
}

int dockerfile_read(const char *text, size_t n, const struct task_tree *context,
                    const char *workdir, struct dockerfile *ret, struct error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r)
        return task_no_memory(err);
    *r = (struct reader){.d = ret,
                         .context = context,
                         .in = {.at = text, .end = text + n, .next = 1},
                         .workdir = WORKDIR};
    *ret = (struct dockerfile){.setup = BUF_INIT(DOCKER_SETUP_MAX)};
    while (r->code == 0 && docker_instruction(&r->in))
        carry_out(r);
    if (workdir[0] == '/' && !docker_resolve("", workdir, r->workdir, sizeof r->workdir))
        r->code = -ENAMETOOLONG;
    int code = finish(r, err);
    free(r);
    if (code < 0)
        dockerfile_free(ret);
    return code;
}
