/* `hutch history`: ls, rm, show, export and search. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command_options.h"
#include "commands.h"
#include "history.h"
#include "json.h"
#include "memory.h"
#include "options.h"
#include "output.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

static void history_ls_print_line(const struct history_info *i)
{
    char age[32], cost[32] = "-", title[1024], model[256];
    time_t now = time(NULL);
    int64_t age_ns = now > i->written ? (int64_t)(now - i->written) * NS_PER_S : 0;
    if (i->totals.cost >= 0)
        snprintf(cost, sizeof cost, "$%.2f", i->totals.cost);
    printf("%-18s %5s %5u %8s  %-28s  %s\n", i->id, units_rough_time(age_ns, age, sizeof age),
           i->totals.turns, cost,
           i->totals.model[0] ? say_clean(i->totals.model, model, sizeof model) : "-",
           i->title ? say_clean(i->title, title, sizeof title) : "-");
}

static json_t *history_ls_json(const struct history_info *i)
{
    json_t *cost = i->totals.cost >= 0 ? json_real(i->totals.cost) : json_null();
    char written[32];
    struct tm utc;
    gmtime_r(&i->written, &utc);
    strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:s?, s:o, s:I}", "id", i->id,
                     "created", i->created, "written", written, "workspace", i->workspace, "title",
                     i->title, "forked_from", i->parent, "turns", (json_int_t)i->totals.turns,
                     "messages", (json_int_t)i->totals.messages, "model",
                     i->totals.model[0] ? i->totals.model : NULL, "cost", cost, "bytes",
                     (json_int_t)i->bytes);
}

int command_history_ls(const struct command *self, int argc, char **argv)
{
    struct history_ls_options o = {0};
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
    for (size_t i = 0; i < count && (o.count == 0 || shown < o.count); i++) {
        if (folder && (!list[i].workspace || strcmp(list[i].workspace, folder) != 0))
            continue;
        if (!o.json && shown == 0)
            printf("%-18s %5s %5s %8s  %-28s  %s\n", "ID", "AGE", "TURNS", "COST", "MODEL",
                   "TITLE");
        shown++;
        if (o.json)
            json_array_append_new(all, history_ls_json(&list[i]));
        else
            history_ls_print_line(&list[i]);
    }
    if (all)
        output_json(all, JSON_INDENT(2));
    history_list_free(list, count);
    return 0;
}

int command_history_rm(const struct command *self, int argc, char **argv)
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
    bool colours = say_colours(STDOUT_FILENO);
    struct history_view s = {.full = full,
                             .bold = colours ? "\033[1m" : "",
                             .dim = colours ? "\033[2m" : "",
                             .cyan = colours ? "\033[36m" : "",
                             .plain = colours ? "\033[0m" : ""};
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

int command_history_show(const struct command *self, int argc, char **argv)
{
    struct history_show_options o = {0};
    struct error err = {0};
    struct history *h = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    int r = history_open(argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    if (r == 0)
        r = o.json ? history_show_json(h, &err) : history_show_text(h, o.full, &err);
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}

static int history_export_to(struct history *h, bool html, const char *path, struct error *err)
{
    if (!path || strcmp(path, "-") == 0) {
        int r = history_export(h, html, stdout, err);
        return ferror(stdout) ? 0 : r; /* main says why */
    }
    /* It may hold secrets of the session: a new file is the person's alone. */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out)
        return error_errno(err, errno, "cannot write %s", path);
    int r = history_export(h, html, out, err);
    bool failed = fflush(out) != 0 || ferror(out);
    int code = errno;
    failed |= fclose(out) != 0;
    return r == 0 && failed ? error_errno(err, code, "cannot write %s", path) : r;
}

int command_history_export(const struct command *self, int argc, char **argv)
{
    struct history_export_options o = {0};
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
    int r = history_open(argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    if (r == 0)
        r = history_export_to(h, html, o.output, &err);
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}

#define WORDS_MAX (64u << 10)

static int history_search(const struct history_search_options *o, const char *words,
                          struct error *err)
{
    struct memory *m = NULL;
    json_t *hits = NULL, *hit;
    size_t i;
    char id[HISTORY_ID_MAX] = "";
    if (o->session) {
        struct history *h = NULL;
        int r = history_open(o->session, true, &h, NULL, err);
        if (r < 0)
            return r;
        snprintf(id, sizeof id, "%s", history_id(h));
        history_close(h);
    }
    struct memory_query q = {
        .text = words,
        .session = id[0] ? id : NULL,
        .limit = (unsigned)(o->count < MEMORY_LIMIT_MAX ? o->count : MEMORY_LIMIT_MAX),
        .cancel = -1};
    int r = memory_open(NULL, &m, err);
    if (r == 0)
        r = memory_search(m, &q, &hits, err);
    memory_close(m);
    if (r < 0)
        return r;
    json_array_foreach(hits, i, hit)
    {
        char text[4 * MEMORY_SNIPPET_MAX + 64], role[64];
        if (o->json)
            break;
        printf("%s  message %" JSON_INTEGER_FORMAT "  %.10s  %s\n    %s\n",
               json_get_string_or(hit, "session", ""), json_get_integer(hit, "message"),
               json_get_string_or(hit, "time", "-"),
               say_clean(json_get_string_or(hit, "role", ""), role, sizeof role),
               say_clean(json_get_string_or(hit, "snippet", ""), text, sizeof text));
    }
    if (o->json)
        output_json(json_incref(hits), JSON_INDENT(2));
    json_decref(hits);
    return 0;
}

int command_history_search(const struct command *self, int argc, char **argv)
{
    struct history_search_options o = {.count = 10};
    struct error err = {0};
    _cleanup_buf_ struct buf words = BUF_INIT(WORDS_MAX);
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, -1, &n, &status))
        return status;
    for (int i = 0; i < n; i++)
        buf_printf(&words, "%s%s", i ? " " : "", argv[i]);
    if (!buf_cstr(&words)) {
        say("the search text is too long");
        return EXIT_USAGE;
    }
    return history_search(&o, (char *)words.data, &err) < 0 ? say_failure(&err) : 0;
}
