/* `hutch history`: ls, rm, show, export and search. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "thread.h"
#include "text.h"
#include "history.h"
#include "json.h"
#include "memory.h"
#include "options.h"
#include "banned.h"

#define ID_NOTES                                                                                   \
    "An ID may be shortened as long as it stays unique; 'last' is the session that was used last."

struct ls_options {
    uint64_t count; /* 0: all */
    const char *workspace;
    bool json;
};

static int history_ls_run(const struct command *self, int argc, char **argv)
{
    struct ls_options o = {0};
    struct error err = {0};
    struct history_info *list = NULL;
    size_t count = 0;
    uint64_t shown = 0;
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    _cleanup_free_ char *folder = o.workspace ? realpath(o.workspace, NULL) : NULL;
    if (o.workspace && !folder) {
        error_errno(&err, errno, "cannot find the folder '%s'", o.workspace);
        return say_failure(&err);
    }
    if (history_list(&list, &count, &err) < 0)
        return say_failure(&err);
    json_t *all = o.json ? json_array() : NULL;
    const time_t now = time(NULL);
    for (size_t i = 0; i < count && (o.count == 0 || shown < o.count); i++) {
        if (folder && (!list[i].workspace || strcmp(list[i].workspace, folder) != 0))
            continue;
        if (!o.json && shown == 0)
            printf("%-18s %5s %5s %8s  %-28s  %s\n", "ID", "AGE", "TURNS", "COST", "MODEL",
                   "TITLE");
        shown++;
        const struct history_info *l = &list[i];
        const struct history_totals *t = &l->totals;
        char written[32], age[32], cost[32] = "-", title[1024], model[256];
        struct tm utc;
        if (o.json) {
            strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&l->written, &utc));
            json_array_append_new(
                all, json_pack("{s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:s?, s:o, s:I}", "id",
                               l->id, "created", l->created, "written", written, "workspace",
                               l->workspace, "title", l->title, "forked_from", l->parent, "turns",
                               (json_int_t)t->turns, "messages", (json_int_t)t->messages, "model",
                               t->model[0] ? t->model : NULL, "cost",
                               t->cost >= 0 ? json_real(t->cost) : json_null(), "bytes",
                               (json_int_t)l->bytes));
            continue;
        }
        if (t->cost >= 0)
            snprintf(cost, sizeof cost, "$%.2f", t->cost);
        printf(
            "%-18s %5s %5u %8s  %-28s  %s\n", l->id,
            units_rough_time(now > l->written ? (now - l->written) * NS_PER_S : 0, age, sizeof age),
            t->turns, cost, t->model[0] ? say_clean(t->model, model, sizeof model) : "-",
            l->title ? say_clean(l->title, title, sizeof title) : "-");
    }
    if (all)
        output_json(all, JSON_INDENT(2));
    history_list_free(list, count);
    return 0;
}

static const struct option LS_OPTIONS[] = {
    {"count", 'n', "N", "list only the last N", "all", OPTION_ALWAYS,
     offsetof(struct ls_options, count), option_parse_count},
    {"workspace", 'w', "DIR", "list only the sessions of this folder", NULL, OPTION_ALWAYS,
     offsetof(struct ls_options, workspace), option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, offsetof(struct ls_options, json),
     option_parse_flag},
    {0},
};

const struct command_body COMMAND_HISTORY_LS = {.usage = "[-n N] [-w DIR] [--json]",
                                                .options = {{LS_OPTIONS, OPTION_ALWAYS}},
                                                .run = history_ls_run};

static int history_rm_run(const struct command *self, int argc, char **argv)
{
    int n, status = 0;
    if (!command_words(self, argc, argv, NULL, 1, -1, &n, &status))
        return status;
    for (int i = 0; i < n; i++) {
        struct error err = {0};
        char id[HISTORY_ID_MAX];
        if (history_remove(argv[i], id, &err) < 0)
            status = say_failure(&err);
        else
            printf("%s\n", id);
    }
    return status;
}

const struct command_body COMMAND_HISTORY_RM = {
    .usage = "ID...", .notes = ID_NOTES, .run = history_rm_run};

#define LINES_SHOWN 8
#define TEXT_MAX    (HARMLESS_GROWTH * HISTORY_MESSAGE_MAX)

struct history_view {
    bool full;
    const char *bold, *dim, *cyan, *plain; /* escape sequences, or nothing */
};

/* Text of a stranger, with something in front of each line; at most so many lines (0: all). */
static int history_put_lines(const char *text, size_t n, const char *front, size_t max)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(TEXT_MAX);
    struct harmless h = {0};
    if (harmless_append(&h, text, n, &clean) < 0)
        return -ENOMEM;
    const char *at = (char *)clean.data, *end = at + clean.len;
    size_t lines = 0;
    for (; at < end; lines++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        if (max == 0 || lines < max)
            printf("%s%.*s\n", front, (int)length, at);
        at += length + 1;
    }
    if (max && lines > max)
        printf("%s… %zu more line%s (--full)\n", front, lines - max, lines - max == 1 ? "" : "s");
    return 0;
}

static int history_show_piece(void *data, const struct piece *p)
{
    const struct history_view *s = data;
    const char *name = p->name ? p->name : "";
    char clean_name[256], brief[1024];
    size_t most = s->full ? 0 : LINES_SHOWN;
    if (!p->counts)
        printf("%s(%s)%s ", s->dim, p->undone ? "undone" : "cleared", s->plain);
    switch (p->kind) {
    case PIECE_PERSON:
        printf("\n%s", s->bold);
        history_put_lines(p->text, p->n, "> ", 0);
        printf("%s\n", s->plain);
        return 0;
    case PIECE_ANSWER:
        history_put_lines(p->text, p->n, "", 0);
        printf("\n");
        return 0;
    case PIECE_THINKING:
        return s->full ? history_put_lines(p->text, p->n, "  ~ ", 0) : 0;
    case PIECE_CALL:
        printf("%s▸ %s%s  %s  %s\n", s->cyan,
               say_clean(*name ? name : "?", clean_name, sizeof clean_name), s->plain,
               say_clean(p->brief ? p->brief : "", brief, sizeof brief),
               !p->answered ? "(no result)"
               : p->failed  ? "✗"
                            : "✓");
        if (s->full && p->input)
            history_put_lines(p->input, strlen(p->input), "    ", 0);
        return history_put_lines(p->text, p->n, "    ", most);
    case PIECE_IMAGE:
        printf("    [image, %zu bytes of base64]\n", p->n);
        return 0;
    case PIECE_NOTE:
        if (!s->full && strcmp(name, "note") != 0 && strcmp(name, "summary") != 0)
            return 0;
        printf("%s· %s%s\n", s->dim, say_clean(name, clean_name, sizeof clean_name), s->plain);
        return history_put_lines(p->text, p->n, "    ", most);
    }
    return 0;
}

static int history_show_text(struct history *h, bool full, struct error *err)
{
    struct history_view s = {.full = full,
                             .bold = say_colour(STDOUT_FILENO, "\033[1m"),
                             .dim = say_colour(STDOUT_FILENO, "\033[2m"),
                             .cyan = say_colour(STDOUT_FILENO, "\033[36m"),
                             .plain = say_colour(STDOUT_FILENO, "\033[0m")};
    struct piece_sink sink = {history_show_piece, &s};
    const char *folder = history_workspace(h);
    char workspace[4096];
    struct history_totals t;
    history_totals(h, &t);
    printf("%s%s%s  %u turn%s, %zu messages%s%s", s.bold, history_id(h), s.plain, t.turns,
           t.turns == 1 ? "" : "s", t.messages, t.model[0] ? ", " : "", t.model);
    if (t.cost >= 0)
        printf(", $%.2f", t.cost);
    if (folder)
        printf(", %s", say_clean(folder, workspace, sizeof workspace));
    printf("\n");
    return history_pieces(h, full, &sink, err);
}

/* One message after the other: a session may be larger than memory should be. */
static int history_show_json(struct history *h, struct error *err)
{
    json_t *head = json_deep_copy(history_head(h));
    json_object_set_new(head, "session", json_string(history_id(h)));
    _cleanup_free_ char *text = json_dumps(head, JSON_COMPACT);
    json_decref(head);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    printf("%.*s,\"messages\":[", (int)strlen(text) - 1, text);
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *message = NULL;
        int r = history_read(h, i, &message, err);
        if (r < 0)
            return r;
        json_object_set_new(message, "message", json_integer((json_int_t)i));
        json_object_set_new(message, "counts", json_boolean(history_entry(h, i)->counts));
        printf("%s", i ? ",\n" : "\n");
        json_dumpf(message, stdout, JSON_COMPACT);
        json_decref(message);
    }
    printf("\n]}\n");
    return 0;
}

struct show_options {
    bool json, full;
};

static int history_show_run(const struct command *self, int argc, char **argv)
{
    struct show_options o = {0};
    struct error err = {0};
    struct history *h = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    int r = history_open(NULL, argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    if (r == 0)
        r = o.json ? history_show_json(h, &err) : history_show_text(h, o.full, &err);
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}

static const struct option SHOW_OPTIONS[] = {
    {"full", 0, NULL, "also print all tool output, and what was undone or cleared", NULL,
     OPTION_ALWAYS, offsetof(struct show_options, full), option_parse_flag},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, offsetof(struct show_options, json),
     option_parse_flag},
    {0},
};

const struct command_body COMMAND_HISTORY_SHOW = {.usage = "ID [--full] [--json]",
                                                  .options = {{SHOW_OPTIONS, OPTION_ALWAYS}},
                                                  .notes = ID_NOTES,
                                                  .run = history_show_run};

struct export_options {
    const char *format, *output;
};

static int history_export_run(const struct command *self, int argc, char **argv)
{
    struct export_options o = {0};
    struct error err = {0};
    struct history *h = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (o.format && strcmp(o.format, "md") != 0 && strcmp(o.format, "html") != 0) {
        say("--format: '%s' is not md or html", o.format);
        return EXIT_USAGE;
    }
    const char *suffix = o.output ? strrchr(o.output, '.') : NULL;
    bool html = o.format ? strcmp(o.format, "html") == 0
                         : suffix && (strcmp(suffix, ".html") == 0 || strcmp(suffix, ".htm") == 0);
    int r = history_open(NULL, argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    /* It may hold secrets of the session: a new file is the person's alone. */
    bool to_stdout = !o.output || strcmp(o.output, "-") == 0;
    int fd = r < 0 || to_stdout
                 ? -1
                 : open(o.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    FILE *out = to_stdout ? stdout : fd >= 0 ? fdopen(fd, "w") : NULL;
    if (r == 0 && !out)
        r = error_errno(&err, errno, "cannot write %s", o.output);
    if (r == 0)
        r = history_export(h, html, out, &err);
    if (to_stdout && ferror(stdout))
        r = 0; /* output_finish() says why */
    if (out && !to_stdout) {
        bool failed = fflush(out) != 0 || ferror(out);
        int code = errno;
        failed |= fclose(out) != 0;
        if (r == 0 && failed)
            r = error_errno(&err, code, "cannot write %s", o.output);
    }
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}

static const struct option EXPORT_OPTIONS[] = {
    {"format", 0, "md|html", "output format", "by the suffix of FILE, else md", OPTION_ALWAYS,
     offsetof(struct export_options, format), option_parse_string},
    {"output", 'o', "FILE", "write to this file", "stdout", OPTION_ALWAYS,
     offsetof(struct export_options, output), option_parse_string},
    {0},
};

const struct command_body COMMAND_HISTORY_EXPORT = {.usage = "ID [--format F] [-o FILE]",
                                                    .options = {{EXPORT_OPTIONS, OPTION_ALWAYS}},
                                                    .notes = ID_NOTES,
                                                    .run = history_export_run};

#define WORDS_MAX (64u << 10)

struct search_options {
    uint64_t count;
    const char *session;
    bool json;
};

static int history_search_run(const struct command *self, int argc, char **argv)
{
    struct search_options o = {.count = 10};
    struct error err = {0};
    _cleanup_buf_ struct buf words = BUF_INIT(WORDS_MAX);
    _cleanup_json_ json_t *hits = NULL;
    struct memory *m = NULL;
    struct history *h = NULL;
    size_t i;
    json_t *hit;
    int n, status, r = 0;
    if (!command_words(self, argc, argv, &o, 1, -1, &n, &status))
        return status;
    for (int k = 0; k < n; k++)
        buf_printf(&words, "%s%s", k ? " " : "", argv[k]);
    struct memory_query q = {
        .text = buf_cstr(&words),
        .limit = (unsigned)(o.count < MEMORY_LIMIT_MAX ? o.count : MEMORY_LIMIT_MAX),
        .cancel = -1};
    if (!q.text) {
        say("the search text is too long");
        return EXIT_USAGE;
    }
    if (o.session)
        r = history_open(NULL, o.session, true, &h, NULL, &err);
    q.session = h ? history_id(h) : NULL;
    if (r == 0)
        r = memory_open(NULL, &m, &err);
    if (r == 0)
        r = memory_search(m, &q, &hits, &err);
    memory_close(m);
    history_close(h);
    if (r < 0)
        return say_failure(&err);
    if (o.json) {
        output_json(TAKE_PTR(hits), JSON_INDENT(2));
        return 0;
    }
    json_array_foreach(hits, i, hit)
    {
        char text[4 * MEMORY_SNIPPET_MAX + 64], role[64];
        printf("%s  message %" JSON_INTEGER_FORMAT "  %.10s  %s\n    %s\n",
               json_get_string_or(hit, "session", ""), json_get_integer(hit, "message"),
               json_get_string_or(hit, "time", "-"),
               say_clean(json_get_string_or(hit, "role", ""), role, sizeof role),
               say_clean(json_get_string_or(hit, "snippet", ""), text, sizeof text));
    }
    return 0;
}

static const struct option SEARCH_OPTIONS[] = {
    {"count", 'n', "N", "print at most N passages", "10", OPTION_ALWAYS,
     offsetof(struct search_options, count), option_parse_count},
    {"session", 0, "ID", "search only this session", NULL, OPTION_ALWAYS,
     offsetof(struct search_options, session), option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, offsetof(struct search_options, json),
     option_parse_flag},
    {0},
};

const struct command_body COMMAND_HISTORY_SEARCH = {.usage =
                                                        "[-n N] [--session ID] [--json] WORDS...",
                                                    .options = {{SEARCH_OPTIONS, OPTION_ALWAYS}},
                                                    .run = history_search_run};
