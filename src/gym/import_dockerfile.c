#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <strings.h>

#include "import_dockerfile.h"
#include "import_private.h"
#include "banned.h"

#define COPIES_MAX 1000
#define LINE_SIZE  16384
#define WORKDIR    "/app" /* where nothing else is said: that of the usual base images */

struct reader {
    struct dockerfile *d;
    const struct task_tree *context;
    const char *at, *end;
    unsigned line, next;  /* where the instruction began; the line after it */
    char text[LINE_SIZE]; /* the instruction, its lines joined */
    char workdir[4096];
    unsigned stages;
    struct docker_copy copies[COPIES_MAX];
    size_t n_copies;
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

static void do_workdir(struct reader *r, const char *args)
{
    char *words[DOCKER_WORDS_MAX], copy[LINE_SIZE], path[sizeof r->workdir];
    snprintf(copy, sizeof copy, "%s", args);
    if (strchr(args, '$') || docker_words(copy, words) != 1 ||
        !docker_resolve(r->workdir, words[0], path, sizeof path))
        trouble(r, "the folder cannot be told");
    else
        memcpy(r->workdir, path, sizeof path);
}

static void add_copy(struct reader *r, const char *source, const char *target, bool into)
{
    struct docker_copy c = {
        .line = r->line, .source = strdup(source), .target = strdup(target), .into = into};
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
        skip_heredoc(r, here);
        return "files written in a Dockerfile are not supported";
    }
    if (strstr(args, "--from"))
        return "files of another image or stage are not here";
    return strchr(args, '$') ? "variables are not filled in" : NULL;
}

static void do_copy(struct reader *r, const char *args)
{
    char *words[DOCKER_WORDS_MAX], target[4096], copy[LINE_SIZE];
    const char *why = copy_trouble(r, args);
    while (!why && strncmp(args, "--", 2) == 0) {
        args += strcspn(args, " \t");
        args += strspn(args, " \t");
    }
    snprintf(copy, sizeof copy, "%s", args);
    size_t n = why ? 0 : docker_words(copy, words);
    if (!why && (n < 2 || !docker_resolve(r->workdir, words[n - 1], target, sizeof target)))
        why = "what goes where cannot be told";
    if (why) {
        trouble(r, why);
        return;
    }
    size_t len = strlen(words[n - 1]);
    bool into = n > 2 || (len && words[n - 1][len - 1] == '/') || strcmp(words[n - 1], ".") == 0;
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

static void do_run(struct reader *r, const char *args)
{
    const char *here = strstr(args, "<<");
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

static void do_from(struct reader *r, const char *args)
{
    if (++r->stages > 1)
        trouble(r, "several stages are not supported");
    snprintf(r->workdir, sizeof r->workdir, WORKDIR);
}

static void do_env(struct reader *r, const char *args)
{
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
    const char *word = r->text + strspn(r->text, " \t");
    size_t n = strcspn(word, " \t");
    const char *args = word + n + strspn(word + n, " \t");
    for (size_t i = 0; i < ARRAY_SIZE(INSTRUCTIONS); i++)
        if (strlen(INSTRUCTIONS[i].name) == n && strncasecmp(INSTRUCTIONS[i].name, word, n) == 0) {
            INSTRUCTIONS[i].run(r, args);
            return;
        }
    trouble(r, "there is no such instruction");
}

static void carry_out_copy(struct reader *r, const struct docker_copy *c)
{
    const char *why = NULL;
    int code = docker_copy(r->d, r->context, c, &why);
    r->line = c->line;
    snprintf(r->text, sizeof r->text, "COPY %.2000s %.2000s", c->source, c->target);
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
    return r->code < 0 ? error_errno(err, -r->code, "it copies too much") : 0;
}

int dockerfile_read(const char *text, size_t n, const struct task_tree *context, struct dockerfile *ret,
                    struct error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    if (!r)
        return task_no_memory(err);
    *r = (struct reader){
        .d = ret, .context = context, .at = text, .end = text + n, .next = 1, .workdir = WORKDIR};
    *ret = (struct dockerfile){0};
    while (r->code == 0 && take_instruction(r))
        carry_out(r);
    int code = finish(r, err);
    free(r);
    if (code < 0)
        dockerfile_free(ret);
    return code;
}
